"""Pictures for pages: small pictures of examples, embedded in the page."""

from __future__ import annotations

import base64
import io
from typing import Any, Mapping

import numpy as np

from runtime_arm.app.pictures import is_picture, open_picture
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array

SIDE = 360  # pixels of a thumbnail's longer side


def picture_of(value: Any) -> Any:
    """An example as an upright RGB picture; None if it cannot be shown.

    value: as in ``Example``. Arrays in the net's own form are stretched to 0..255.
    """
    if isinstance(value, Mapping):
        if len(value) != 1:
            return None
        value = _as_pixels(next(iter(value.values())))
    if value is None or (isinstance(value, str) and not is_picture(value)):
        return None
    try:
        return open_picture(value).convert("RGB")
    except ArmnetError:
        return None


def _as_pixels(batch: Array) -> Any:
    """Pixels (H, W[, 3]) of a batch of one, channels first or last; None if it is no picture."""
    array = np.asarray(batch)
    if array.ndim != 4 or array.dtype.kind not in "fiu":
        return None
    image = array[0]
    if image.shape[0] in (1, 3):
        image = image.transpose(1, 2, 0)
    if image.shape[2] not in (1, 3):
        return None
    image = np.nan_to_num(image.astype(np.float64))
    least, most = image.min(), image.max()
    pixels = np.rint((image - least) * (255 / ((most - least) or 1))).astype(np.uint8)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels


def data_uri(picture: Any) -> str:
    """A thumbnail as the source of an HTML image; small pictures are enlarged, so that their pixels are seen."""
    from PIL import Image

    resampling: Any = getattr(Image, "Resampling", Image)
    width, height = picture.size
    scale = SIDE / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = picture.convert("RGB").resize(size, resampling.NEAREST if scale > 2 else resampling.BILINEAR)
    content = io.BytesIO()
    small.save(content, "PNG" if scale > 2 else "JPEG", quality=80)
    kind = "png" if scale > 2 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
