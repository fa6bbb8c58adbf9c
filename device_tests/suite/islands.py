"""Runs operators on the device, in memory that reveals mistakes."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.gpu.device import Buffer, Device
from runtime_arm.gpu.island import Island, Session
from runtime_arm.gpu.lowering.registry import refusal
from runtime_arm.gpu.programs import Programs
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.steps import FEED_STEP, Value
from runtime_arm.planning.trace import Trace
from runtime_arm.registry.specs import TensorSpec


class Poisoned:
    """A device whose new memory holds NaN; buffers that an island shares between blobs keep their old content."""

    def __init__(self, device: Device):
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def allocate(self, nbytes: int) -> Buffer:
        buffer = self._device.allocate(nbytes)
        buffer.device = self  # type: ignore[assignment]
        self._device.upload(buffer, np.full(nbytes, 0xFF, np.uint8))
        return buffer


def on_device(
    opened: Tuple[Device, Programs],
    ops: Sequence[OperatorDef],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    half: bool = False,
) -> Dict[str, Array]:
    """The outputs of the last operator, computed twice by one island; AssertionError if the device refuses one."""
    env = {name: Value(name, TensorSpec(x.shape, x.dtype), FEED_STEP) for name, x in feeds.items()}
    env.update({name: Value(name, TensorSpec.known(x), FEED_STEP, x) for name, x in constants.items()})
    trace = Trace(ops, 0, env)
    for step in trace.steps:
        reason = refusal(step.op, step.in_specs, step.out_specs)
        assert reason is None, f"{step.op.signature()}: {reason}"
    session = Session(Poisoned(opened[0]), opened[1], half)  # type: ignore[arg-type]
    outputs = [value for value in trace.steps[-1].outputs if value.spec.value is None]
    island = Island(session, trace.steps, [env[name] for name in feeds], outputs)
    island.build()
    first: Optional[List[Array]] = None
    for _ in range(2):
        results = [np.full(value.spec.shape, np.nan, np.float32) for value in outputs]
        island.run([feeds[name] for name in feeds], results)
        if first is not None:
            for before, now in zip(first, results):
                np.testing.assert_array_equal(before, now, err_msg="the second run differs")
        first = results
    return {value.name: result for value, result in zip(outputs, results)}
