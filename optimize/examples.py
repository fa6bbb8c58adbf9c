"""Examples of input shapes that a pair itself suggests, for measuring: the size to which its pictures are resized."""

from __future__ import annotations

from typing import Dict, Tuple

from runtime_arm.pair.pair import Pair

_LAYOUTS = {"NCHW": (2, 3), "NCWH": (3, 2), "NHWC": (1, 2)}  # the axes of height and width


def stored_examples(pair: Pair, batch: int = 1) -> Dict[str, Tuple[int, ...]]:
    """The shape of the first input, if it is a picture of open size for which model.json states one."""
    rule = pair.meta.get("preprocessing") or {}
    size, axes = rule.get("resize"), _LAYOUTS.get(rule.get("layout", "NCHW"), ())
    if not isinstance(size, (list, tuple)) or not all(isinstance(n, int) and n > 0 for n in size):
        return {}
    info = next(iter(pair.inputs), None)
    if info is None or info.shape is None or len(info.shape) != 4:
        return {}
    sizes: Dict[int, int] = {0: batch, **dict(zip(axes, size))}
    if len(size) != 2 or all(isinstance(info.shape[axis], int) for axis in axes):
        return {}
    return {
        info.name: tuple(dim if isinstance(dim, int) else sizes.get(axis, 1) for axis, dim in enumerate(info.shape))
    }
