"""The body of a request, as ``Model.answers`` takes it: a picture, a sound, arrays as .npy, .npz or JSON."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any, Dict, Sequence

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from armnet.serving.settings import UNPACKED, Settings
from runtime_arm.errors import ArmnetError, FeedError, ResourceError, first_line
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo

_ZIP = b"PK\x03\x04"


def value_of(content: bytes, kind: str, infos: Sequence[TensorInfo], settings: Settings) -> Any:
    """The value in the bytes of a request. kind: their content type; infos: the inputs of the net.

    FeedError if they cannot be read, ResourceError if they hold more than is allowed.
    """
    if not content:
        raise FeedError("the request is empty; its body is a picture, a sound, an .npy, an .npz, or JSON")
    if kind.startswith("application/json"):
        return _of_json(content, infos)
    if content.startswith((MAGIC_PREFIX, _ZIP)):
        return _arrays(content, infos, settings.most_bytes * UNPACKED)
    if not kind.startswith("audio/"):
        _require_size(content, settings.most_pixels)
    return content


def _of_json(content: bytes, infos: Sequence[TensorInfo]) -> Dict[str, Array]:
    """{"inputs": {NAME: nested lists}}."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FeedError(f"the request is not JSON: {first_line(error)}") from None
    inputs = given.get("inputs") if isinstance(given, dict) else None
    if not isinstance(inputs, dict) or not inputs:
        raise FeedError('JSON must be {"inputs": {NAME: nested lists}}')
    known = {info.name: info for info in infos}
    arrays = {}
    for name, value in inputs.items():
        if name not in known:
            raise FeedError(f"no input {name!r}; the net takes {', '.join(known)}")
        try:
            arrays[name] = np.asarray(value, known[name].dtype)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise FeedError(f"input {name!r}: no array of {known[name].dtype}: {first_line(error)}") from None
    return arrays


def _arrays(content: bytes, infos: Sequence[TensorInfo], most: int) -> Dict[str, Array]:
    """The arrays of an .npz by input name, or that of an .npy for the first input."""
    try:
        if not content.startswith(_ZIP):
            return {infos[0].name: np.asarray(np.load(io.BytesIO(content), allow_pickle=False))}
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            nbytes = sum(member.file_size for member in archive.infolist())
        if nbytes > most:
            raise ResourceError(f"the archive unpacks to {nbytes} bytes, {most} are allowed")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            names = [info.name for info in infos]
            found = {name: arrays[name] for name in names if name in arrays.files}
            if not found:
                raise FeedError(f"the archive holds {', '.join(arrays.files)}; the net takes {', '.join(names)}")
            return found
    except ArmnetError:
        raise
    except Exception as error:  # NumPy raises anything for a broken file
        raise FeedError(f"cannot be read as arrays: {first_line(error)}") from error


def _require_size(content: bytes, most: int) -> None:
    """ResourceError for a picture with too many pixels, before they are unpacked; other content passes."""
    try:
        from PIL import Image
    except ImportError:
        return
    try:
        with Image.open(io.BytesIO(content)) as picture:
            width, height = picture.size
    except Image.DecompressionBombError as error:
        raise ResourceError(f"a picture with too many pixels: {first_line(error)}") from None
    except Exception:  # decoders raise anything; the model's own reader says what is wrong
        return
    if width * height > most:
        raise ResourceError(f"a picture of {width}x{height} pixels; {most} are allowed")
