"""Solvers, and layers that keep bits for the backward pass."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, case, own


def training() -> Iterator[Case]:
    """Solvers, and layers that keep bits for the backward pass."""
    yield from case("Adadelta", "7", "pos 7", "pos 7", "7", "pos 1", outputs=3)
    yield from case("Adagrad", "7", "pos 7", "7", "pos 1", outputs=2)
    yield from case("Adam", "7", "7", "pos 7", "7", "pos 1", np.array([3]), outputs=3)
    yield from case("MomentumSGD", "7", "7", "pos 1", outputs=2, momentum=0.9)
    yield from case("MomentumSGDUpdate", "7", "7", "pos 1", "7", outputs=3, momentum=0.9, nesterov=1)
    yield from case("RmsProp", "7", "pos 7", "7", "pos 1", outputs=3)
    yield from case("RMSProp", "7", "pos 7", "7", "pos 1", domain="caffe", outputs=2)
    x, words = "2x3x4x4", np.array([12345, 54321, 99999], np.int32)
    yield from case("SpatialBNRelu", x, "3", "3", "3", "pos 3", outputs=6, is_test=0)
    yield from case("SpatialBNAddRelu", x, "3", "3", "3", "pos 3", x, outputs=6, is_test=0)
    yield from case("SpatialBNReluGradient", x, "3", x, "3", "pos 3", words, outputs=3, is_test=0)
    yield from case("SpatialBNAddReluGradient", x, "3", x, "3", "pos 3", words, outputs=4, is_test=0)
    yield from own("SpatialBNOutputGradient", x, "pos 3", x, "3", "pos 3", outputs=3)
    yield from own("SpatialBNAgain", x, "3", "3", "3", "pos 3", x, relu=1)
    for kind, gates, states in (("GRU", 3, 1), ("LSTM", 4, 2), ("RNN", 1, 1)):
        weights = [f"2x{4 * gates}x3", f"2x{4 * gates}x4", f"2x{8 * gates}"]
        yield from own(
            f"{kind}Gradient",
            "3x2x3",
            *weights,
            "-",
            *["2x2x4"] * states,
            "3x2x2x4",
            *["2x2x4"] * states,
            outputs=4 + states,
            direction="bidirectional",
            hidden_size=4,
        )
    yield from own("ReluWithMask", x, outputs=2)
    yield from own("ReluMaskGradient", words, x)
    yield from own("MaxPoolWithOffsets", "1x2x6x6", outputs=2, kernel=2, stride=2)
    offsets = np.arange(18).reshape(1, 2, 3, 3).astype(np.uint8) % 4
    shape = np.array([1, 2, 6, 6])
    yield from own("MaxPoolOffsetsGradient", offsets, "1x2x3x3", shape, kernel=2, stride=2)
