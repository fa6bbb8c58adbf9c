"""The fast kernels of TensorFlow Lite's LSTM and SVDF of integers equal the reference kernels to the last bit."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from runtime_arm.netdef import OperatorDef
from tests.support.operands import tflite

WEIGHTS = [*range(1, 9), *range(12, 16)]
SCALES = (-9.0, -6.0)  # powers of two between which those of weights are


def layer(
    seed: int, shape: Sequence[int], batch: int, depth: int = 5, cells: int = 6, powers: Any = SCALES, **arguments: Any
) -> Any:
    """An operator with its operands."""
    rng = np.random.default_rng(seed)

    def integers(dtype: Any, reach: int, *dims: int) -> Any:
        return rng.integers(-reach - 1, reach + 1, dims).astype(dtype)

    operands: List[Any] = [integers(np.int8, 127, *shape, depth)]
    operands += [integers(np.int8, 127, cells, depth) for _ in range(4)]
    operands += [integers(np.int8, 127, cells, cells) for _ in range(4)]
    operands += [None] * 3 + [integers(np.int32, 9000, cells) for _ in range(4)] + [None] * 2
    operands += [integers(np.int8, 127, batch, cells), integers(np.int16, 32767, batch, cells)]
    scales = [float(scale) for scale in np.float32(2.0 ** rng.uniform(powers[0], powers[1], 24))]
    given = {"X_scale": 0.02, "X_zero_point": seed, "H_scale": 0.006, "H_zero_point": 3 * seed}
    given.update(hidden_scale=0.006, hidden_zero_point=3 * seed, C_scale=2.0**-11)
    names = " ".join("-" if value is None else f"i{at}" for at, value in enumerate(operands))
    gates = [0.0] * 4
    return tflite("QuantizedLSTM", names, "Y h c", scales=scales, gate_scales=gates, **{**given, **arguments}), operands


def check(op: OperatorDef, operands: List[Any]) -> None:
    assert assert_engines_match_reference(op, operands, constants=WEIGHTS) == ["INT8"]


@pytest.mark.parametrize("seed", [0, 1, -2])
@pytest.mark.parametrize(("shape", "batch", "time_major"), [((1,), 1, 1), ((3,), 3, 1), ((7, 2), 2, 1), ((3, 4), 3, 0)])
def test_layers(seed: int, shape: Any, batch: int, time_major: int) -> None:
    check(*layer(abs(seed), shape, batch, time_major=time_major, H_zero_point=3 * seed))


@pytest.mark.parametrize("power", [-15, -13, -9])
@pytest.mark.parametrize("clip", [0.0, 0.3, 50.0])
def test_scales_and_limits_of_cells(power: int, clip: float) -> None:
    check(*layer(1, (5, 1), 1, C_scale=2.0**power, cell_clip=clip))


def test_several_blocks_of_steps() -> None:
    check(*layer(2, (50, 1), 1, depth=4, cells=128))
    check(*layer(2, (5, 40), 5, depth=4, cells=32, time_major=0))


def test_sums_that_float32_cannot_hold() -> None:
    op, operands = layer(3, (2, 1), 1, depth=1100, cells=1100, H_zero_point=127, powers=(-14, -12))
    for index in (1, 5):
        operands[index][0] = 127  # all products of a sum have one sign
    operands[0][:] = -128
    operands[18][:] = -128
    check(op, operands)


@pytest.mark.parametrize("powers", [(-3, 0), (2, 6), (-40, -36)])
def test_multipliers_of_any_size(powers: Any) -> None:
    """Those above 1 shift sums to the left; those that vanish leave biases alone."""
    check(*layer(4, (6, 1), 1, powers=powers))


def test_gates_without_scales() -> None:
    op, operands = layer(5, (6, 1), 1)
    check(op.with_args(scales=[0.0] * 24), operands)


def test_what_is_left_to_the_reference() -> None:
    op, operands = layer(0, (3, 1), 1)
    assert supporting_engines(op, operands, WEIGHTS) == ["INT8"]
    assert supporting_engines(op, operands, WEIGHTS[1:]) == []
    names = [*op.input]
    names[9] = "p"
    peephole = [*operands[:9], np.full(6, 99, np.int16), *operands[10:]]
    assert supporting_engines(op.replace(input=tuple(names)), peephole, WEIGHTS) == []
    coupled = op.replace(input=tuple("" if at in (1, 5, 12) else name for at, name in enumerate(op.input)))
    operands = [None if at in (1, 5, 12) else value for at, value in enumerate(operands)]
    assert supporting_engines(coupled, operands, WEIGHTS) == []
    assert run_kernel(coupled, operands)[0].shape == (3, 1, 6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("batch", "rank", "memory", "depth"), [(1, 1, 5, 7), (3, 2, 1, 4), (2, 3, 9, 700)])
def test_svdf(seed: int, biased: bool, batch: int, rank: int, memory: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    filters = 4 * rank
    operands: List[Any] = [
        rng.integers(-128, 128, (batch, depth)).astype(np.int8),
        rng.integers(-128, 128, (filters, depth)).astype(np.int8),
        rng.integers(-(2**15), 2**15, (filters, memory)).astype(np.int16),
        rng.integers(-(2**15), 2**15, (batch, filters * memory)).astype(np.int16),
        rng.integers(-(2**20), 2**20, 4).astype(np.int32) if biased else None,
    ]
    if seed == 0:
        operands[0][:], operands[1][0] = -128, 127  # a sum that float32 cannot hold, if it is long
    scales = {"X_scale": 0.02, "W_scale": 0.01, "state_scale": 2.0**-9, "Y_scale": 2.0 ** float(seed - 5)}
    how = {"rank": rank, "times_scale": 2.0**-14, "X_zero_point": 127 if seed == 0 else seed, "Y_zero_point": -seed}
    op = tflite("QuantizedSVDF", "x w t s b" if biased else "x w t s", "Y held", **scales, **how)
    given = operands if biased else operands[:4]
    constants = [1, 2, 4] if biased else [1, 2]
    assert assert_engines_match_reference(op, given, constants=constants) == ["INT8"]
    assert supporting_engines(op, given, constants[1:]) == []
