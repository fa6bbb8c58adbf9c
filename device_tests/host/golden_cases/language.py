"""Attention, positions, and weights in blocks."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from device_tests.host.golden_cases.case import Case, microsoft, onnx


def language() -> Iterator[Case]:
    yield from onnx("Attention", "1x4x3x8", "1x2x3x8", "1x2x3x8", "3x8", "1x2x5x8", "1x2x5x8", is_causal=1, outputs=3)
    yield from onnx("Attention", "1x300x24", "1x300x24", "1x300x24", q_num_heads=3, kv_num_heads=3, softcap=3.0)
    yield from onnx("RotaryEmbedding", "2x3x4x8", "9x4", "9x4", np.array([[0, 2, 8, 1], [3, 3, 4, 5]]))
    yield from microsoft("RotaryEmbedding", "2x3x4x8", np.array([4]), "9x4", "9x4", interleaved=1)
    lengths = np.array([3, 2], np.int32)
    yield from microsoft("MultiHeadAttention", "2x3x8", "2x4x8", "2x4x8", "24", lengths, num_heads=2)
    ends, total = np.array([8, 5], np.int32), np.array([9], np.int32)
    grouped = ["2x1x32", "2x1x16", "2x1x16", "2x2x9x8", "2x2x9x8", ends, total, "12x4", "12x4"]
    yield from microsoft(
        "GroupQueryAttention", *grouped, num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=6, outputs=3
    )


def blocks() -> Iterator[Case]:
    for bits, points in ((4, "-"), (4, "!uint8 6x1"), (8, "!uint8 6x2")):
        operands = ["5x64", f"!uint8 6x2x{4 * bits}", "!6x2", points]
        yield from microsoft("MatMulNBits", *operands, K=64, N=6, bits=bits, block_size=32)
