"""Normalisations, softmax, reductions and recurrent layers."""

from __future__ import annotations

from typing import Dict, Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case, onnx, tflite


def normalisation() -> Iterator[Case]:
    """Normalisations, softmax, reductions, recurrent layers."""
    yield from case("SpatialBN", "2x4x5x5", "!4", "!4", "!4", "!pos 4", is_test=1)
    yield from onnx("BatchNormalization", "2x4x5x5", "!4", "!4", "!4", "!pos 4")
    yield from case("AffineChannel", "2x4x5x5", "!4", "!4")
    yield from case("InstanceNorm", "2x4x5x5", "!4", "!4")
    yield from case("GroupNorm", "2x4x5x5", "!4", "!4", group=2)
    yield from onnx("GroupNormalization", "2x4x5x5", "!4", "!4", num_groups=2)
    yield from case("LayerNorm", "2x4x5", outputs=3)
    yield from onnx("LayerNormalization", "2x4x5", "!5", "!5")
    yield from onnx("RMSNormalization", "2x4x5", "!5")
    yield from case("LRN", "1x9x4x4", size=5, alpha=0.1, beta=0.75, bias=1.0)
    yield from case("Softmax", "3x12", axis=1)
    yield from onnx("Softmax LogSoftmax Hardmax", "2x5x6", axis=1)
    sums = "Sum Mean Max Min L1 L2"
    for name in sums.split():
        yield from case(f"Reduce{name}", "3x4x5", axes=[1])
    for name in (*sums.split(), "Prod", "SumSquare", "LogSumExp"):
        yield from onnx(f"Reduce{name}", "3x4x5", [-1, 0])
    yield from onnx("ReduceLogSum", "pos 3x4x5", [1], keepdims=0)
    yield from case("ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax ReduceFrontMean ReduceFrontSum", "3x4x5")
    yield from case("ReduceTailSum RowwiseMax ColwiseMax AveragedLoss SumElements SumSqrElements", "3x4x5")
    yield from case("SumElementsInt", "int32 3x4")
    yield from onnx("CumSum CumProd", "4x5", np.int64(1))
    gates: Dict[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
    for type, count in gates.items():
        yield from onnx(
            type, "5x2x3", f"!1x{4 * count}x3", f"!1x{4 * count}x4", f"!1x{8 * count}", outputs=2, hidden_size=4
        )
    step, state = ("!4x3", "!4x3", "!4x3", "!4x3"), ("!4x4", "!4x4", "!4x4", "!4x4")
    rest = ("!4", "!4", "!4", "!4", "-", "-", "2x4", "2x4")
    yield from tflite("LSTM", "5x2x3", *step, *state, "-", "-", "-", *rest, outputs=3)
    yield from tflite("RNN", "5x2x3", "!4x3", "!4x4", "!4", "2x4", outputs=2)
    layer = ("!16x3", "!16x4", "!16", "!16")
    yield from case("InferenceLSTM", "5x2x3", "1x2x4", "1x2x4", *layer, outputs=3)
