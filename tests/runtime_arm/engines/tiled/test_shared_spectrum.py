"""Workers that split the filters of a Winograd convolution: each transforms a part of the pixels for all of them."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv.winograd_transforms import amplification
from runtime_arm.engines.tiled import strips
from runtime_arm.engines.tiled.strips import EVERYTHING, filter_shares, parts_of
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.kernel import Call, phases_of
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.steps import barrier, in_phases

DEEP = (96, 7, 96), (96, 14, 70), (130, 26, 128)  # channels, pixels a side, filters: more weights than results
CONVOLUTION = OperatorDef.of("ConvRelu", ["X", "W", "b"], ["Y"], kernel=3, pad=1)


def operands(channels: int, side: int, filters: int) -> Tuple[Any, Any, Any]:
    random = np.random.default_rng(side)
    shapes = (1, channels, side, side), (filters, channels, 3, 3), (filters,)
    x, w, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return x, w, b


@pytest.mark.parametrize("small_strips", [False, True])
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("size", DEEP)
def test_gives_the_results_of_the_reference(
    size: Tuple[int, int, int], workers: int, small_strips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small_strips:
        monkeypatch.setattr("runtime_arm.engines.tiled.winograd.LEAST_TILES", 12)
        monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 1 << 16)
    x, w, b = operands(*size)
    (expected,) = run_kernel(CONVOLUTION, [x, w, b])
    options = [one for one in tiled_options(CONVOLUTION, [x, w, b], (1, 2)) if one.kernel.engine == "WINOGRAD"]
    assert options
    for option in options:
        assert_close(
            run_option(CONVOLUTION, [x, w, b], option, (1, 2), workers),
            expected,
            terms=w[0].size + 1,
            magnitude=float(w[0].size),
            amplification=option.work.error,
            what=described(option),
        )


def test_worker_processes_wait_for_each_others_pixels() -> None:
    chain = [OperatorDef.of("ConvRelu", [f"X{i}", "W", "b"], [f"X{i + 1}"], kernel=3, pad=1) for i in range(3)]
    net = NetDef("deep", tuple(chain), ("X0", "W", "b"), ("X3",))
    x, w, b = operands(256, 14, 256)
    alone, pool = (Executor(net, {"W": w / 48, "b": b}, workers=workers) for workers in (1, 2))
    try:
        for seed in range(5):
            feeds = {"X0": x * seed}
            expected, actual = (executor.run(feeds, ["X3"])["X3"] for executor in (alone, pool))
            magnitude = float(np.abs(expected).max())
            assert_close(actual, expected, terms=w[0].size, magnitude=magnitude, amplification=amplification(4, 4))
        (segment,) = pool.plans()
        assert {len(phases_of(part)) for parts in segment.bound for part in parts if len(parts) > 1} == {1, 2}
    finally:
        pool.close()


def test_few_groups_of_filters_are_no_reason_to_share() -> None:
    layout = Tiles(1, 64, 8, 8, 4, 1)
    calls = Call(CONVOLUTION, [], [], [], [], [], {}).for_each_worker(3)
    divided = [parts_of(call, layout, 1000, 32, filter_shares(call, layout, 1 << 30)) for call in calls]
    assert [mine for _, mine in divided] == [EVERYTHING] * 3


def test_phases_lie_between_barriers() -> None:
    done: List[int] = []
    run = in_phases([partial(done.append, 1), barrier, partial(done.append, 2), partial(done.append, 3), barrier])
    assert len(phases_of(run)) == 3
    phases_of(run)[1]()
    assert done == [2, 3]
    run()
    assert done == [2, 3, 1, 2, 3]
