"""Turns pictures into a network's input, as a preprocessing rule says; ``runtime_arm.app.rules`` explains the rules."""

from __future__ import annotations

import io
import os
import warnings
from typing import Any, BinaryIO, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.app.rules import (
    ALIGNS,
    FITS,
    Rule,
    channels_for,
    check_rule,
    choice,
    layout_for,
    pair_of,
    per_channel,
    size_for,
)
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, first_line
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.results.frame import Frame

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
MAX_PIXELS = 1 << 27  # a picture that declares more is refused before it is decoded
_ORIENTATION = 0x0112  # EXIF's tag

Path = Union[str, "os.PathLike[str]"]


class Fed(NamedTuple):
    """A picture as a net's input: a batch of one, and where its pixels lie in the picture."""

    batch: Array
    frame: Frame


def is_picture(path: Path) -> bool:
    """Whether the file name is that of a picture."""
    return os.fspath(path).lower().endswith(SUFFIXES)


def read_picture(path: Path, rule: Rule, shape: Optional[Sequence[Any]] = None, dtype: Any = np.float32) -> Array:
    """The picture as a batch of one, prepared as ``rule`` says.

    shape: the input's declared shape, as far as it is known. FeedError if the file cannot be read or is too small,
    UsageError if the rule is wrong, MissingDependency without Pillow.
    """
    check_rule(rule)
    return prepare(open_picture(path), rule, shape, dtype, name=os.fspath(path)).batch


def open_picture(source: Any, name: Optional[str] = None) -> Any:
    """A Pillow picture, upright, RGB or grey (L): of a path, bytes, a file object, a Pillow picture, or pixels (H, W)
    or (H, W, C) of uint8. FeedError, naming it, if it cannot be read; the first one of an animation is taken."""
    called = name or (os.fspath(source) if isinstance(source, (str, os.PathLike)) else "the picture")
    Image = _pillow(called)
    try:
        if isinstance(source, np.ndarray):
            return _of_pixels(Image, source, called)
        if isinstance(source, Image.Image):
            return _upright(source, called)
        if isinstance(source, (bytes, bytearray, memoryview)):
            source = io.BytesIO(bytes(source))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit here is our own
            with Image.open(_readable(source)) as image:
                _require_size(image.width, image.height, called)
                return _upright(image, called)
    except FileNotFoundError as error:
        raise FeedError(f"{called}: no such file") from error
    except ArmnetError:
        raise
    except Exception as error:  # decoders raise anything for a broken file
        problem = first_line(error)
        if isinstance(error, Image.DecompressionBombError):
            problem = f"it has more pixels than the limit, {MAX_PIXELS}"
        if "cannot identify image file" in problem:
            problem = "no picture of a format that Pillow knows"
        raise FeedError(f"{called}: cannot be read as a picture: {problem}") from error


def _readable(source: Any) -> Union[Path, BinaryIO]:
    if isinstance(source, (str, os.PathLike)) or hasattr(source, "read"):
        readable: Union[Path, BinaryIO] = source
        return readable
    raise FeedError(f"a picture is a path, bytes, a file, a Pillow picture or an array, got {type(source).__name__}")


def _pillow(name: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependency(
            f"{name}: pictures need Pillow: pip install 'armnet[image]', or feed an .npy"
        ) from error
    return Image


def _of_pixels(Image: Any, pixels: Array, name: str) -> Any:
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        raise FeedError(
            f"{name}: pixels are (H, W), (H, W, 3) or (H, W, 4) of uint8, got {pixels.dtype.name} {pixels.shape}; "
            "an array of the net's own shape and dtype is fed as it is"
        )
    if min(pixels.shape[:2]) < 1:
        raise FeedError(f"{name}: a picture without pixels, {pixels.shape}")
    grey = pixels.ndim == 2 or pixels.shape[2] == 1
    return Image.fromarray(pixels.reshape(pixels.shape[:2]) if grey else np.ascontiguousarray(pixels[:, :, :3]))


def _upright(image: Any, name: str) -> Any:
    """The picture upright, RGB or grey, with the upper eight bits of channels of 16 bits."""
    from PIL import Image

    deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    if image.mode in ("I", "F") and not deep:
        raise FeedError(f"{name}: pixels of mode {image.mode} have no defined range; save it with 8 or 16 bits")
    turned = _turned(image)
    if deep:
        turned = Image.fromarray((np.asarray(turned).astype(np.int64) >> 8).astype(np.uint8))
    return turned if turned.mode in ("L", "RGB") else turned.convert("L" if turned.mode in ("1", "LA") else "RGB")


def _turned(image: Any) -> Any:
    """The picture, turned if its EXIF data ask for it; not copied where nothing is to be done."""
    from PIL import ImageOps

    if image.getexif().get(_ORIENTATION, 1) in range(2, 9):
        return ImageOps.exif_transpose(image)
    if getattr(image, "is_animated", False):
        return image.copy()  # the first one of them
    image.load()  # its file will be closed
    return image


def prepare(
    picture: Any,
    rule: Rule,
    shape: Optional[Sequence[Any]] = None,
    dtype: Any = np.float32,
    quantization: Optional[Mapping[str, Any]] = None,
    name: str = "the picture",
) -> Fed:
    """An upright Pillow picture as a net's input.

    shape: the input's declared shape, as far as it is known. quantization: scale and zero point of an input of
    integers. FeedError for a picture that is too small or too large.
    """
    layout = layout_for(rule, shape)
    channels = channels_for(rule, shape, layout)
    mode = "L" if channels == "GRAY" else "RGB"
    picture = picture if picture.mode == mode else picture.convert(mode)
    pixels, frame = _sized(picture, rule, size_for(shape, layout), name)
    if channels == "BGR":
        pixels = pixels[:, :, ::-1]
    values = _values(pixels, rule, np.dtype(dtype), quantization)
    order = {"NHWC": (0, 1, 2), "NCHW": (2, 0, 1), "NCWH": (2, 1, 0)}[layout]
    return Fed(np.ascontiguousarray(values.transpose(order)[np.newaxis], dtype=dtype), frame)


def _values(pixels: Array, rule: Rule, dtype: Any, quantization: Optional[Mapping[str, Any]]) -> Array:
    """The numbers (H, W, C) that the pixels become."""
    plain = not set(rule) & {"scale", "mean", "std"}
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if plain and quantization is not None and dtype.itemsize == 1:
            return np.asarray(pixels.astype(np.int16) + limits.min)
    depth = pixels.shape[2]
    scaled = pixels.astype(np.float32) * np.float32(rule.get("scale", 1.0))
    scaled = (scaled - per_channel(rule.get("mean", 0.0), depth, "mean")) / per_channel(
        rule.get("std", 1.0), depth, "std"
    )
    if dtype.kind not in "iu":
        return np.asarray(scaled)
    if quantization is not None and not plain:
        scaled = scaled / np.float32(quantization["scale"]) + np.float32(quantization["zero_point"])
    return np.asarray(np.clip(np.rint(scaled), limits.min, limits.max))


def _sized(picture: Any, rule: Rule, size: Tuple[Optional[int], Optional[int]], name: str) -> Tuple[Array, Frame]:
    """Pixels (H, W, C) of the size that rule and input ask for, and where they lie in the picture."""
    width, height = picture.size
    target = _target(picture, rule, size)
    fit = choice(rule, "fit", FITS, FITS[0])
    if target is None:
        frame = Frame.whole(width, height)
    elif fit == "stretch" or isinstance(rule.get("resize"), int):
        frame = Frame(width, height, target[1], target[0], target[1] / width, target[0] / height)
    else:
        frame = _fitted(width, height, target, rule, fit)
    pixels = _drawn(picture, frame, rule, name)
    crop = pair_of(rule.get("crop"), "crop")
    if crop is None:
        return pixels, frame
    top, left = (pixels.shape[0] - crop[0]) // 2, (pixels.shape[1] - crop[1]) // 2
    if top < 0 or left < 0:
        raise FeedError(f"{name}: {pixels.shape[0]}x{pixels.shape[1]} is smaller than the crop {crop[0]}x{crop[1]}")
    frame = frame._replace(input_width=crop[1], input_height=crop[0], left=frame.left - left, top=frame.top - top)
    return pixels[top : top + crop[0], left : left + crop[1]], frame


def _target(picture: Any, rule: Rule, size: Tuple[Optional[int], Optional[int]]) -> Optional[Tuple[int, int]]:
    """Height and width that the picture gets, or None to keep its own."""
    width, height = picture.size
    value = rule.get("resize")
    if isinstance(value, int):
        ratio = value / min(width, height)
        return max(value, round(height * ratio)), max(value, round(width * ratio))
    if value is not None:
        return pair_of(value, "resize")
    if rule.get("crop") is not None:
        return None
    if rule.get("fit") == "line" and size[0] is not None:
        return size[0], size[1] or max(1, round(width * size[0] / height))
    if size[0] is not None and size[1] is not None:
        return size[0], size[1]
    if "multiple" in rule:
        step = int(rule["multiple"])
        ratio = min(1.0, rule.get("longest", 1 << 14) / max(width, height))
        return max(step, round(height * ratio / step) * step), max(step, round(width * ratio / step) * step)
    return None


def _fitted(width: int, height: int, target: Tuple[int, int], rule: Rule, fit: str) -> Frame:
    """A frame that keeps the picture's proportions."""
    ratios = (target[1] / width, target[0] / height)
    ratio = max(ratios) if fit == "crop" else ratios[1] if fit == "line" else min(ratios)
    wide, high = max(1, round(width * ratio)), max(1, round(height * ratio))
    if fit == "line":
        wide = min(wide, target[1])
    left, top = (target[1] - wide) // 2, (target[0] - high) // 2
    if fit == "line" or (fit == "letterbox" and choice(rule, "align", ALIGNS, ALIGNS[0]) == "corner"):
        left = top = 0
    return Frame(width, height, target[1], target[0], wide / width, high / height, left, top)


def _drawn(picture: Any, frame: Frame, rule: Rule, name: str) -> Array:
    """The picture's pixels as the frame places them."""
    from PIL import Image

    size = round(frame.width * frame.scale_x), round(frame.height * frame.scale_y)
    _require_size(size[0], size[1], name)
    _require_size(frame.input_width, frame.input_height, name)
    resampling: Any = getattr(Image, "Resampling", Image)  # Pillow before 9.1, as in Debian 11, has no Resampling
    if size != picture.size:
        picture = picture.resize(size, resampling.BILINEAR)
    if size != (frame.input_width, frame.input_height) or frame.left or frame.top:
        pad = int(rule.get("pad", 0))
        canvas = Image.new(
            picture.mode, (frame.input_width, frame.input_height), pad if picture.mode == "L" else (pad,) * 3
        )
        canvas.paste(picture, (int(frame.left), int(frame.top)))
        picture = canvas
    pixels = np.asarray(picture)
    return pixels.reshape(pixels.shape[0], pixels.shape[1], -1)


def _require_size(width: int, height: int, name: str) -> None:
    if width * height > MAX_PIXELS:
        raise FeedError(f"{name}: {width}x{height} pixels are too many, the limit is {MAX_PIXELS}")
