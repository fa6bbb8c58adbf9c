"""Turns pictures into a network's input, and its scores into labels.

Preprocessing is described by data, which a pair keeps in its model.json:

    resize     [height, width], or one number for the shorter side, which keeps the proportions; bilinear with
               antialiasing, as Pillow does it
    crop       [height, width] to cut from the middle after resizing
    channels   "RGB", "BGR" or "GRAY"
    scale      the factor for pixel values 0..255, applied first (default 1)
    mean, std  one number, or one for each channel in the order of ``channels``: value = (pixel * scale - mean) / std
    layout     "NCHW" or "NHWC"

With neither resize nor crop, a picture is resized to the size in the input's declared shape. First of all it is turned
upright if the camera recorded its orientation (EXIF), and channels of 16 bits are reduced to their upper eight bits.
"""

from __future__ import annotations

import os
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, UsageError, first_line
from runtime_arm.netdef import Array

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
KEYS = ("resize", "crop", "channels", "scale", "mean", "std", "layout")
LAYOUTS = ("NCHW", "NHWC")
CHANNELS = ("RGB", "BGR", "GRAY")
MAX_PIXELS = 1 << 28  # a picture that declares more is refused before it is decoded


class Answer(NamedTuple):
    """One class of a classification: its number, label and score."""

    number: int
    label: str
    score: float


def is_picture(path: Union[str, os.PathLike[str]]) -> bool:
    """Whether the file name is that of a picture."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def read_picture(
    path: Union[str, os.PathLike[str]],
    rule: Mapping[str, Any],
    shape: Optional[Sequence[Any]] = None,
    dtype: Any = np.float32,
) -> Array:
    """The picture as a batch of one, prepared as ``rule`` says.

    shape: the input's declared shape, as far as it is known. FeedError if the file cannot be read or is too small,
    UsageError if the rule is wrong, MissingDependency without Pillow.
    """
    check_rule(rule)
    layout = _choice(rule, "layout", LAYOUTS, "NCHW")
    channels = _choice(rule, "channels", CHANNELS, _default_channels(shape, layout))
    pixels = _decode(path, channels == "GRAY", _target_size(rule, shape, layout), _pair_of(rule.get("crop"), "crop"))
    if channels == "BGR":
        pixels = pixels[:, :, ::-1]
    depth = pixels.shape[2]
    scaled = pixels.astype(np.float32) * np.float32(rule.get("scale", 1.0))
    scaled = (scaled - _per_channel(rule.get("mean", 0.0), depth, "mean")) / _per_channel(
        rule.get("std", 1.0), depth, "std"
    )
    batch = scaled[np.newaxis] if layout == "NHWC" else scaled.transpose(2, 0, 1)[np.newaxis]
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        batch = np.clip(np.rint(batch), limits.min, limits.max)
    return np.ascontiguousarray(batch, dtype=dtype)


def check_rule(rule: Mapping[str, Any]) -> None:
    """UsageError, naming the key, unless ``rule`` is a preprocessing rule."""
    unknown = sorted(set(rule) - set(KEYS))
    if unknown:
        raise UsageError(f"preprocessing has no key {unknown[0]!r}; there are {', '.join(KEYS)}")
    _choice(rule, "layout", LAYOUTS, "NCHW")
    depth = 1 if _choice(rule, "channels", CHANNELS, "RGB") == "GRAY" else 3
    for key in ("resize", "crop"):
        _pair_of(rule.get(key), key)
    for key in ("scale", "mean", "std"):
        values = rule.get(key, 1.0)
        numbers = values if isinstance(values, (list, tuple)) and key != "scale" else [values]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and np.isfinite(n) for n in numbers):
            due = "a number" if key == "scale" else "numbers"
            raise UsageError(f"preprocessing {key!r} must be {due}, got {values!r}")
        if len(numbers) not in (1, depth) and "channels" in rule:
            raise UsageError(f"preprocessing {key!r} must be one number or {depth}, got {values!r}")
        if key == "std" and 0 in numbers:
            raise UsageError("preprocessing 'std' must not be 0")


def _default_channels(shape: Optional[Sequence[Any]], layout: str) -> str:
    if shape is not None and len(shape) == 4 and shape[1 if layout == "NCHW" else 3] == 1:
        return "GRAY"
    return "RGB"


def _choice(rule: Mapping[str, Any], key: str, allowed: Tuple[str, ...], default: str) -> str:
    value = str(rule.get(key) or default).upper()
    if value not in allowed:
        raise UsageError(f"preprocessing {key!r} must be one of {', '.join(allowed)}, got {rule[key]!r}")
    return value


def _pair_of(value: Any, what: str) -> Optional[Tuple[int, int]]:
    if value is None:
        return None
    sizes = [value, value] if isinstance(value, int) else list(value)
    if len(sizes) != 2 or any(not isinstance(n, int) or n < 1 for n in sizes):
        raise UsageError(f"preprocessing {what!r} must be one or two positive numbers, got {value!r}")
    return sizes[0], sizes[1]


def _target_size(rule: Mapping[str, Any], shape: Optional[Sequence[Any]], layout: str) -> Any:
    """The shorter side as one number, (height, width), or None to keep the picture's size."""
    value = rule.get("resize")
    if isinstance(value, int):
        return _pair_of(value, "resize")[0]  # type: ignore[index]
    if value is not None:
        return _pair_of(value, "resize")
    if rule.get("crop") is None and shape is not None and len(shape) == 4:
        height, width = shape[2:] if layout == "NCHW" else shape[1:3]
        if isinstance(height, int) and isinstance(width, int):
            return height, width
    return None


def _decode(path: Union[str, os.PathLike[str]], gray: bool, target: Any, crop: Optional[Tuple[int, int]]) -> Array:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependency(
            f"{os.fspath(path)}: pictures need Pillow: pip install 'armnet[image]', or feed an .npy"
        ) from error
    named = os.fspath(path)
    try:
        with Image.open(path) as image:
            _require_size(image.width, image.height, named)
            picture = _eight_bits(image, "L" if gray else "RGB", named)
    except FileNotFoundError as error:
        raise FeedError(f"{named}: no such file") from error
    except ArmnetError:
        raise
    except Exception as error:  # decoders raise anything for a broken file
        raise FeedError(f"{named}: cannot be read as a picture: {first_line(error)}") from error
    width, height = picture.size
    if isinstance(target, int):
        ratio = target / min(width, height)
        target = (max(target, round(height * ratio)), max(target, round(width * ratio)))
    if target is not None:
        _require_size(target[1], target[0], named)
        resampling: Any = getattr(Image, "Resampling", Image)  # Pillow before 9.1, as in Debian 11, has no Resampling
        picture = picture.resize((target[1], target[0]), resampling.BILINEAR)
    pixels = np.asarray(picture)
    if crop is not None:
        pixels = _centre(pixels, crop, path)
    return pixels.reshape(pixels.shape[0], pixels.shape[1], -1)


def _eight_bits(image: Any, mode: str, path: str) -> Any:
    """The picture in ``mode``, upright, with the upper eight bits of channels of 16 bits."""
    from PIL import Image, ImageOps

    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    if image.mode in ("I", "F") and not deep:
        raise FeedError(f"{path}: pixels of mode {image.mode} have no defined range; save it with 8 or 16 bits")
    if deep:
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
    return ImageOps.exif_transpose(image).convert(mode)


def _require_size(width: int, height: int, path: str) -> None:
    if width * height > MAX_PIXELS:
        raise FeedError(f"{path}: {width}x{height} pixels are too many, the limit is {MAX_PIXELS}")


def _centre(pixels: Array, crop: Tuple[int, int], path: Union[str, os.PathLike[str]]) -> Array:
    top, left = (pixels.shape[0] - crop[0]) // 2, (pixels.shape[1] - crop[1]) // 2
    if top < 0 or left < 0:
        raise FeedError(
            f"{os.fspath(path)}: {pixels.shape[0]}x{pixels.shape[1]} is smaller than the crop {crop[0]}x{crop[1]}"
        )
    return pixels[top : top + crop[0], left : left + crop[1]]


def _per_channel(value: Any, depth: int, what: str) -> Array:
    array = np.asarray(value, np.float32).reshape(-1)
    if array.size not in (1, depth):
        raise UsageError(f"preprocessing {what!r} has {array.size} values for {depth} channels")
    return array


def read_labels(path: Union[str, os.PathLike[str]]) -> List[str]:
    """The labels in a file with one label per line. FeedError if it cannot be read as UTF-8 text."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # Windows puts a byte order mark before the first line
            return [line.rstrip("\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise FeedError(f"{os.fspath(path)}: cannot read labels: {error}") from error


def best(scores: Array, labels: Optional[Sequence[str]], top: int) -> List[Answer]:
    """The ``top`` highest scores of one picture, the highest first.

    If the labels start with a background class that the network does not have, that label is skipped.
    """
    flat = np.asarray(scores, np.float64).reshape(-1)
    if labels and len(labels) == flat.size + 1 and labels[0].strip().lower() == "background":
        labels = labels[1:]
    order = np.argsort(-flat, kind="stable")[:top]
    return [Answer(int(i), labels[i] if labels and i < len(labels) else str(int(i)), float(flat[i])) for i in order]
