"""ONNX's ImageDecoder: pixels of a picture's file."""

from __future__ import annotations

import io
from typing import List

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec

# Those that ONNX names. Pillow reads others by programs of the system, which no file from elsewhere should start.
_FILES = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}  # Pillow's, by pixel format


@operator("ImageDecoder", domain="onnx", dtypes=("uint8",))
def image_decoder(op: OperatorDef, encoded: TensorSpec) -> List[TensorSpec]:
    """The pixels, (H, W, C) uint8, of a picture in a file's bytes, (nbytes,) uint8: BMP, JPEG, JPEG 2000, PNG, PPM,
    TIFF or WebP, as Pillow reads them, which has to be installed.

    ``pixel_format``: RGB, BGR or Grayscale. Source: ONNX's ImageDecoder.
    """
    require(op, encoded.ndim == 1, "a file's bytes must have one dimension", encoded)
    if _format(op) not in _MODES:
        raise ArgumentError(op, f"pixel_format must be one of {', '.join(_MODES)}, got {_format(op)!r}")
    raise DataDependent(op.type)


def _format(op: OperatorDef) -> str:
    return op.get_str("pixel_format", "RGB")


@image_decoder.reference
def image_decoder_reference(op: OperatorDef, encoded: Array) -> List[Array]:
    with needed_for(op.type):
        from PIL import Image
    try:
        with Image.open(io.BytesIO(encoded.tobytes()), formats=_FILES) as image:
            pixels = np.asarray(image.convert(_MODES[_format(op)]))
    except Exception as error:  # Pillow's readers raise many kinds of errors for damaged files
        raise OperatorError(op, f"no picture that can be read: {first_line(error)}") from error
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    return [np.ascontiguousarray(pixels[..., ::-1] if _format(op) == "BGR" else pixels)]
