"""The padding that makes an output of every stride-th pixel, which ONNX and TFLite call SAME."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

_CAFFE2_SAME = 2  # its legacy_pad


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


def open_same_pads(kernel: Sequence[int], strides: Sequence[int]) -> Optional[Dict[str, Any]]:
    """Caffe2's arguments for the padding of ``same_pads`` where sizes are open and nothing is dilated; None if it has
    none.

    If strides leave out two pixels or more between windows, Caffe2's SAME begins after the first pixel.
    """
    if set(kernel) == {1}:
        return {"pads": [0] * 2 * len(kernel)}
    is_alike = all(stride - size < 2 for size, stride in zip(kernel, strides))
    return {"legacy_pad": _CAFFE2_SAME} if is_alike else None
