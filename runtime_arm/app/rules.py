"""Preprocessing rules: how a picture or a sound becomes a net's input, as data, which a pair keeps in its model.json.

    resize     [height, width], or one number for the shorter side, which keeps the proportions; bilinear with
               antialiasing, as Pillow does it
    fit        how a picture gets the size asked for: "stretch" (the default), "letterbox" (proportions kept, the rest
               filled), "crop" (proportions kept, what stands out cut off), "line" (the height fits, the rest to the
               right is filled)
    pad        the value 0..255 of what is filled (default 0)
    align      where a letterbox puts the picture: "centre" (the default) or "corner"
    multiple   for nets of open size: height and width become multiples of this number ...
    longest    ... after the longer side was reduced to at most this many pixels
    crop       [height, width] to cut from the middle after resizing
    channels   "RGB", "BGR" or "GRAY"
    scale      the factor for pixel values 0..255, applied first (default 1)
    mean, std  one number, or one for each channel in the order of ``channels``: value = (pixel * scale - mean) / std
    layout     "NCHW", "NHWC" or "NCWH" (columns before rows); by default as the input's shape says
    rate       of a sound, samples a second

With neither resize nor crop, a picture gets the size in the input's declared shape. First of all it is turned upright
if the camera recorded its orientation (EXIF), and channels of 16 bits are reduced to their upper eight bits. For an
input of quantised integers the values are then divided by its scale; with none of scale, mean and std, pixels are only
moved into the range of the integers.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import UsageError, suggestion, there_are
from runtime_arm.netdef import Array
from runtime_arm.results.facts import layout_of

Rule = Mapping[str, Any]

SIZE_KEYS = ("resize", "fit", "pad", "align", "multiple", "longest", "crop")
KEYS = (*SIZE_KEYS, "channels", "scale", "mean", "std", "layout", "rate")
VALUES = ("channels", "scale", "mean", "std")  # the keys that determine the numbers that are fed
LAYOUTS = ("NCHW", "NHWC", "NCWH")
CHANNELS = ("RGB", "BGR", "GRAY")
FITS = ("stretch", "letterbox", "crop", "line")
ALIGNS = ("centre", "corner")

PRESETS: Dict[str, Dict[str, Any]] = {
    "imagenet": {
        "channels": "RGB",
        "scale": 1 / 255,
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "fit": "crop",
    },
    "caffe": {"channels": "BGR", "mean": [104, 117, 123]},
    "inception": {"channels": "RGB", "mean": 127.5, "std": 127.5},
    "0..1": {"scale": 1 / 255},
    "-1..1": {"mean": 127.5, "std": 127.5},
    "0..255": {"scale": 1.0},
    "yolo": {"channels": "RGB", "scale": 1 / 255, "fit": "letterbox", "pad": 114},
    "audio": {"rate": 16000},
}


def read_rule(given: Union[str, os.PathLike[str], Rule, None]) -> Optional[Dict[str, Any]]:
    """A rule from the name of a preset, JSON text, the path of a JSON file, or a mapping; checked. UsageError."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        rule = dict(given)
    elif isinstance(given, str) and given.lower() in PRESETS:
        rule = dict(PRESETS[given.lower()])
    else:
        rule = _json(os.fspath(given))
    check_rule(rule)
    return rule


def _json(text: str) -> Dict[str, Any]:
    source = "--preprocessing"
    if not text.lstrip().startswith("{"):
        source = text
        try:
            with open(text, encoding="utf-8-sig") as file:
                text = file.read(1 << 20)
        except (OSError, UnicodeDecodeError, ValueError):
            raise UsageError(
                f"{text}: neither a preset ({', '.join(PRESETS)}) nor a JSON object nor a file that can be read"
                f"{suggestion(text, PRESETS)}"
            ) from None
    try:
        rule = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not JSON: {error}") from None
    if isinstance(rule, dict) and isinstance(rule.get("preprocessing"), dict):
        rule = rule["preprocessing"]  # the model.json of another pair
    if not isinstance(rule, dict):
        raise UsageError(f"{source}: must be a JSON object")
    return rule


def check_rule(rule: Rule) -> None:
    """UsageError, naming the key, unless ``rule`` is a preprocessing rule."""
    unknown = sorted(set(rule) - set(KEYS))
    if unknown:
        raise UsageError(f"preprocessing has no key {unknown[0]!r}; there are {there_are(unknown[0], KEYS)}")
    for key, allowed in (("layout", LAYOUTS), ("fit", FITS), ("align", ALIGNS)):
        choice(rule, key, allowed, allowed[0])
    depth = 1 if choice(rule, "channels", CHANNELS, "RGB") == "GRAY" else 3
    for key in ("resize", "crop"):
        pair_of(rule.get(key), key)
    for key in ("multiple", "longest", "rate"):
        value = rule.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"preprocessing {key!r} must be a positive number, got {value!r}")
    for key in ("scale", "mean", "std", "pad"):
        values = rule.get(key, 1.0)
        numbers = values if isinstance(values, (list, tuple)) and key in ("mean", "std") else [values]
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and np.isfinite(n) for n in numbers):
            due = "numbers" if key in ("mean", "std") else "a number"
            raise UsageError(f"preprocessing {key!r} must be {due}, got {values!r}")
        if len(numbers) not in (1, depth) and "channels" in rule:
            raise UsageError(f"preprocessing {key!r} must be one number or {depth}, got {values!r}")
        if key == "std" and 0 in numbers:
            raise UsageError("preprocessing 'std' must not be 0")
    if not 0 <= rule.get("pad", 0) <= 255:
        raise UsageError(f"preprocessing 'pad' must be from 0 to 255, got {rule['pad']!r}")


def choice(rule: Rule, key: str, allowed: Tuple[str, ...], default: str) -> str:
    """The rule's word for a key, which must be one of those allowed."""
    value = str(rule.get(key) or default)
    found = next((word for word in allowed if word.lower() == value.lower()), None)
    if found is None:
        raise UsageError(f"preprocessing {key!r} must be one of {', '.join(allowed)}, got {rule[key]!r}")
    return found


def pair_of(value: Any, what: str) -> Optional[Tuple[int, int]]:
    """Height and width from one number or two; None for None."""
    if value is None:
        return None
    sizes = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if len(sizes) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
        raise UsageError(f"preprocessing {what!r} must be one or two positive numbers, got {value!r}")
    return sizes[0], sizes[1]


def layout_for(rule: Rule, shape: Optional[Sequence[Any]]) -> str:
    """The rule's layout, else that of an input of this shape."""
    return choice(rule, "layout", LAYOUTS, layout_of(shape) or "NCHW")


def channels_for(rule: Rule, shape: Optional[Sequence[Any]], layout: str) -> str:
    """The rule's channels, else grey for an input of one channel."""
    grey = shape is not None and len(shape) == 4 and shape[3 if layout == "NHWC" else 1] == 1
    return choice(rule, "channels", CHANNELS, "GRAY" if grey else "RGB")


def size_for(shape: Optional[Sequence[Any]], layout: str) -> Tuple[Optional[int], Optional[int]]:
    """Height and width of an input of this shape, as far as they are known."""
    if shape is None or len(shape) != 4:
        return None, None
    sizes = list(shape[1:3] if layout == "NHWC" else shape[2:])
    height, width = sizes[::-1] if layout == "NCWH" else sizes
    return (height if isinstance(height, int) else None), (width if isinstance(width, int) else None)


def per_channel(value: Any, depth: int, what: str) -> Array:
    """One number for each channel, or one for all. UsageError for another count."""
    array = np.asarray(value, np.float32).reshape(-1)
    if array.size not in (1, depth):
        raise UsageError(f"preprocessing {what!r} has {array.size} values for {depth} channels")
    return array


def fed(rule: Rule, shape: Sequence[int], dtype: Any) -> str:
    """A line that describes the input: "224x224 RGB, letterbox, values -1..1 (float32)". shape: that of the batch."""
    layout = layout_for(rule, shape)
    channels = channels_for(rule, shape, layout)
    height, width = size_for(shape, layout)
    how = {"stretch": "stretched", "letterbox": "letterboxed", "crop": "cropped to fit", "line": "as a line"}
    fit = how[choice(rule, "fit", FITS, FITS[0])]
    if isinstance(rule.get("resize"), int) or rule.get("crop") is not None:
        fit = f"shorter side {rule['resize']}" if isinstance(rule.get("resize"), int) else "as large as they are"
        fit += f", middle {'x'.join(map(str, reversed(pair_of(rule['crop'], 'crop') or ())))}" if "crop" in rule else ""
    return f"{width}x{height} {channels}, {fit}, values {value_range(rule, dtype)} ({np.dtype(dtype).name})"


def value_range(rule: Rule, dtype: Any) -> str:
    """The range of the values that pixels become, such as ``-1..1``."""
    if np.dtype(dtype).kind in "iu" and not set(rule) & {"scale", "mean", "std"}:
        limits = np.iinfo(dtype)
        return f"{limits.min}..{limits.max}"
    ends: List[float] = []
    for pixel in (0.0, 255.0):
        scaled = np.float64(pixel * rule.get("scale", 1.0)) - np.asarray(rule.get("mean", 0.0), np.float64)
        ends += np.asarray(scaled / np.asarray(rule.get("std", 1.0), np.float64)).reshape(-1).tolist()
    return f"{min(ends):.4g}..{max(ends):.4g}"


def require_size(rule: Rule, name: str, shape: Optional[Sequence[Any]]) -> None:
    """UsageError, with the way out, if neither the rule nor the input's shape says how large pictures are fed."""
    height, width = size_for(shape, layout_for(rule, shape))
    line = rule.get("fit") == "line" and height is not None
    if (height is None or width is None) and not line and not set(rule) & {"resize", "crop", "multiple"}:
        raise UsageError(
            f"input {name!r} takes pictures of any size: give --shape {name}=1,3,HEIGHT,WIDTH, or --resize; "
            "armnet describe PAIR --preprocessing '{\"resize\": [H, W], ...}' stores it"
        )
