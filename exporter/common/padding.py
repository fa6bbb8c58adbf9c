"""The padding that makes an output of every stride-th pixel, which ONNX and TFLite call SAME."""

from __future__ import annotations

from typing import List, Sequence


def same_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    odd_at_head: bool = False,
) -> List[int]:
    """Head pads, then tail pads, for outputs of ceil(input / stride); the tail has an odd pixel, or else the head."""
    geometry = zip(sizes, kernel, strides, dilations)
    totals = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in geometry]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return more + less if odd_at_head else less + more
