"""DFT of every rank, STFT of signals with and without a last dimension, and mel weights, against onnxruntime."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import OperatorDef
from tests.runtime_arm.operators.attention.draws import Draws, operator, trimmed
from tests.support.onnx_nodes import onnxruntime_outputs


def check(op: OperatorDef, operands: List[Any], opset: int) -> None:
    constants = range(0 if op.type == "MelWeightMatrix" else 1, len(operands))
    expected = onnxruntime_outputs(op, operands, [np.float32], opset)[0]
    assert_close(run_kernel(op, operands, constants=constants)[0], expected, terms=1000)


@pytest.mark.parametrize("seed", range(40))
def test_dft(seed: int) -> None:
    draw = Draws(seed)
    rank, parts, inverse = draw.choice([2, 3, 4, 5]), draw.choice([1, 2]), draw.choice([0, 0, 1])
    x = draw.real(*[draw.choice([1, 2, 3, 5]) for _ in range(rank - 1)], parts)
    attributes: Dict[str, Any] = {"inverse": inverse}
    attributes["onesided"] = draw.choice([0, 1]) if parts == 1 and not inverse else 0
    operands = trimmed([x, draw.choice([None, np.array(4), np.array(9)]), draw.maybe(np.array(draw.choice([0, -2])))])
    check(operator("DFT", operands, ["y"], "onnx", attributes), operands, 20)


@pytest.mark.parametrize("seed", range(20))
def test_stft(seed: int) -> None:
    draw = Draws(seed)
    length, samples = draw.choice([8, 16]), draw.choice([20, 33])
    x = draw.choice([draw.real(3, samples), draw.real(2, samples, 1)])
    window = draw.maybe(draw.real(length))
    operands = trimmed([x, np.array(draw.choice([3, 4])), window, np.array(length) if window is None else None])
    check(operator("STFT", operands, ["y"], "onnx", {"onesided": draw.choice([0, 1])}), operands, 17)


@pytest.mark.parametrize("seed", range(20))
def test_mel_weight_matrix(seed: int) -> None:
    draw = Draws(seed)
    rate = draw.choice([8000, 16000])
    edges = [draw.choice([0.0, 20.0, 100.0]), draw.choice([rate / 2, 3000.0])]
    sizes = [np.array(n) for n in (draw.choice([4, 8, 40]), draw.choice([16, 64, 400]), rate)]
    operands = [*sizes, *(np.full((), edge, np.float32) for edge in edges)]
    check(operator("MelWeightMatrix", operands, ["y"], "onnx", {}), operands, 17)
