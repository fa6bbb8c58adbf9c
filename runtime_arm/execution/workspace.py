"""Workspace: named blobs that nets read and write, as in Caffe2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.execution.executor import Executor
from runtime_arm.files import checked_path
from runtime_arm.netdef import NetDef, NetLike
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.specs import QuantizedTensor

if TYPE_CHECKING:
    from runtime_arm.execution.net_runner import NetRunner

RUNNERS_KEPT = 4  # nets whose plans a workspace keeps


class Workspace:
    """Blobs by name.

    Examples:
        >>> import armnet, numpy
        >>> net = armnet.NetDef(op=(armnet.OperatorDef.of("Relu", ["X"], ["Y"]),), external_input=("X",))
        >>> ws = armnet.Workspace()
        >>> ws.feed("X", numpy.array([-1.0, 2.0], numpy.float32))
        >>> ws.run_net_once(net)
        >>> ws.fetch("Y")
        array([0., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        self._blobs: Dict[str, Any] = {}
        self._runners: List[Tuple[NetLike, NetRunner]] = []  # with the nets as they were given; the latest is last

    def feed(self, name: str, array: Any) -> None:
        """Set a blob to anything that NumPy can make an array of, or to a QuantizedTensor."""
        self._blobs[name] = array if isinstance(array, QuantizedTensor) else np.asarray(array)

    def fetch(self, name: str) -> Any:
        """The content of a blob. FeedError if there is no blob of that name."""
        if name not in self._blobs:
            raise FeedError(f"no blob {name!r} in the workspace; it has {', '.join(sorted(self._blobs)) or 'none'}")
        return self._blobs[name]

    def has(self, name: str) -> bool:
        return name in self._blobs

    def blobs(self) -> List[str]:
        """Names of the blobs, sorted."""
        return sorted(self._blobs)

    def run_net_once(self, net: NetLike) -> None:
        """Run a net on the blobs; afterwards the workspace holds every blob that the net writes.

        The plans of the nets that ran last are kept, so that a train net is compiled once and runs step by step.
        """
        self._blobs.update(self._runner_of(net).run(self._blobs))

    def _runner_of(self, given: NetLike) -> NetRunner:
        for index, (known, runner) in enumerate(self._runners):
            if known is given or (isinstance(given, bytes) and known == given):
                self._runners.append(self._runners.pop(index))
                return runner
        from runtime_arm.execution.net_runner import NetRunner  # a Predictor's start does not need it

        runner = NetRunner(as_net(given))
        if runner.reads and isinstance(given, (bytes, NetDef)):  # a net that reads nothing fills blobs, once
            self._runners = [*self._runners[1 - RUNNERS_KEPT :], (given, runner)]
        return runner


def as_net(net: NetLike) -> NetDef:
    """The net given as a NetDef, as bytes, or as the path of a .pb file. UsageError for anything else."""
    if isinstance(net, NetDef):
        return net
    if isinstance(net, (bytes, bytearray, memoryview)):
        return NetDef.from_bytes(net)
    return read_net(checked_path(net, "a net is a NetDef, bytes, or the path of a .pb file"))


def run_init_net(net: NetDef) -> Dict[str, Any]:
    """The blobs that an init_net fills, by name."""
    written = list(dict.fromkeys(name for op in net.op for name in op.output if name))
    return Executor(net.check(), {}).run_once(written)
