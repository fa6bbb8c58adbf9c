"""``resize_image``: what scikit-image and SciPy do for pycaffe, in NumPy."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from runtime_arm.netdef import Array


def resize_image(im: Any, new_dims: Any, interp_order: int = 1) -> Array:
    """The picture (H, W, K) in another size, float32.

    interp_order: 0 takes the nearest pixel, 1 is bilinear; others are refused by NotImplementedError. Pictures of one
    or three channels have their pixels' centres where scikit-image has them, and the least value around them; others
    have their corners on the corners, as with SciPy. Nothing is smoothed before.
    """
    if interp_order not in (0, 1):
        raise NotImplementedError(f"armnet's stand-in for caffe resizes with interp_order 0 or 1, not {interp_order}")
    values = np.asarray(im, np.float32)
    height, width = (int(size) for size in new_dims)
    if values.shape[:2] == (height, width):
        return np.array(values)
    centred = values.shape[-1] in (1, 3)
    least = values.min()
    framed = (
        np.pad(values - least, ((1, 1), (1, 1), (0, 0)))
        if centred
        else np.pad(values, ((1, 1), (1, 1), (0, 0)), mode="edge")
    )
    rows = _weighed(values.shape[0], height, centred, interp_order)
    columns = _weighed(values.shape[1], width, centred, interp_order)
    tall = np.sum([framed[at] * part[:, None, None] for at, part in rows], axis=0)
    result = np.sum([tall[:, at] * part[:, None] for at, part in columns], axis=0)
    return np.asarray(result + least if centred else result, np.float32)


def _weighed(size: int, new: int, centred: bool, order: int) -> Tuple[Tuple[Array, Array], ...]:
    """Which two of the pixels, counted with a frame of one, make each new one, and how much of each."""
    if centred:
        places = (np.arange(new) + 0.5) * (size / new) - 0.5
    else:
        places = np.arange(new) * ((size - 1) / max(new - 1, 1))
    if order == 0:
        nearest = np.clip(np.floor(places + 0.5), 0, size - 1).astype(np.int64) + 1
        return ((nearest, np.ones(new, np.float32)),)
    low = np.floor(places).astype(np.int64)
    part = (places - low).astype(np.float32)
    return (low + 1, 1 - part), (np.minimum(low + 2, size + 1), part)
