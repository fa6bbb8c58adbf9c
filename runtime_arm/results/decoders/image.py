"""Nets that make a picture: larger ones (super-resolution), or in another style.

Output: (1, channels, rows, columns) or (1, rows, columns, channels). Parameters: ``range``, [least, most] of its
numbers ([0, 1] or [0, 255]; without it 255 where any number exceeds 2); ``luma``, whether the net makes the
brightness alone, and colours come from the original; ``last``, whether channels come last; ``channels``, "BGR" where
blue comes first.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.pictures import Image
from runtime_arm.results.resampling import resized
from runtime_arm.results.result import Result

_TO_YCC = np.asarray([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The picture that the net made; of a letterbox only the part that shows the picture."""
    planes = setting.output(outputs, "picture").astype(np.float32)
    if planes.ndim != 3:
        raise UsageError(f"the output that holds the picture must have 4 dimensions, it has {planes.ndim + 1}")
    last = setting.parameters.get("last", planes.shape[2] in (1, 3) and planes.shape[0] not in (1, 3))
    planes = planes.transpose(2, 0, 1) if last else planes
    if len(planes) not in (1, 3):
        raise UsageError(f"a picture has 1 or 3 channels, the net gives {len(planes)}")
    planes = _without_padding(_of_255(planes, setting), setting)
    if setting.parameters.get("channels") == "BGR":
        planes = planes[::-1]
    if len(planes) == 1 and setting.parameters.get("luma") and setting.pixels is not None:
        planes = _coloured(planes[0], setting.pixels)
    rgb = np.broadcast_to(planes, (3, *planes.shape[1:])).transpose(1, 2, 0)
    return Image(np.clip(np.rint(rgb), 0, 255).astype(np.uint8))


def _of_255(planes: Array, setting: Setting) -> Array:
    """The numbers in the range 0 to 255."""
    least, most = setting.parameters.get("range") or (0.0, 255.0 if planes.size and planes.max() > 2 else 1.0)
    if not all(isinstance(end, (int, float)) for end in (least, most)) or most <= least:
        raise UsageError(f"the result's parameter 'range' must be [least, most], got {[least, most]}")
    return np.asarray((planes - np.float32(least)) * np.float32(255 / (most - least)))


def _without_padding(planes: Array, setting: Setting) -> Array:
    frame = setting.frame
    grow = (planes.shape[1] / frame.input_height, planes.shape[2] / frame.input_width)
    top, left = max(frame.top, 0) * grow[0], max(frame.left, 0) * grow[1]
    bottom, right = top + frame.height * frame.scale_y * grow[0], left + frame.width * frame.scale_x * grow[1]
    return planes[:, round(top) : round(bottom) or None, round(left) : round(right) or None]


def _coloured(luma: Array, pixels: Array) -> Array:
    """The brightness (H, W) with the colours of another picture, which is enlarged."""
    small = np.einsum("ij,hwj->ihw", _TO_YCC[1:], pixels.astype(np.float32))
    blue, red = (resized(plane, luma.shape) for plane in small)
    return np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue])


def recognise(facts: Facts) -> Optional[Parameters]:
    """One output with the input's channels that is 2, 3, 4 or 8 times as large; or a model of styles by its name."""
    if facts.picture is None or len(facts.outputs) != 1 or not facts.outputs[0].fits(None, None, None):
        return None
    output, picture = facts.outputs[0], facts.picture
    assert output.shape is not None
    channels, rows, columns = output.shape[1:]
    last = channels not in (1, 3) and columns in (1, 3)
    if last:
        rows, columns, channels = output.shape[1:]
    if channels != picture.channels or None in (rows, columns, picture.height, picture.width):
        return None
    assert isinstance(rows, int)
    assert isinstance(picture.height, int)
    assert isinstance(picture.width, int)
    factor = rows // picture.height
    larger = factor in (2, 3, 4, 8) and (rows, columns) == (picture.height * factor, picture.width * factor)
    found = {"outputs": {"picture": output.name}, "last": last, "luma": channels == 1}
    return found if larger else None


DECODER = Decoder("image", decode, recognise)
