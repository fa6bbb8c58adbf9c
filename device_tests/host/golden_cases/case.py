"""One operator with its operands, in a short notation.

    case("Conv Conv2D", "2x4x7x6", "!6x4x3x3", "!6", kernel=3, pad=1)

An operand is written as ``[!][kind ]shape``:

    2x3              float32, standard normal
    !6x4x3x3         a weight: a constant, divided by the square root of its fan-in
    int8 2x3         of another dtype; integers between -100 and 100
    pos 2x3          positive, 0.2 to 3; ``unit``: -0.9 to 0.9
    q 1x3x4x4        uint8 with scale 1/16 and zero point 120: a QuantizedTensor
    -                left out

Anything else is a constant, converted to a NumPy array; Python's numbers become float32 and int64.
"""

from __future__ import annotations

import math
import re
from typing import Any, Iterator, List, NamedTuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.specs import QuantizedTensor

QUANTIZED = (0.0625, 120)  # the scale and zero point of operands of kind ``q``
REAL_RANGES = {"pos": (0.2, 3.0), "unit": (-0.9, 0.9)}
# Numbers that are hard to compute with, and numbers that are hard to cast.
SPECIAL = np.array([0.0, -0.0, 1e-40, 1e38, -1e38, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
FAR = np.array([300.5, -1.5, 200.0, -200.0, 3e9, -3e9, 1e19, -1e19, np.inf, -np.inf, np.nan], np.float32)


class Case(NamedTuple):
    """An operator with its operands, of which those at the indices ``constants`` are known when the net is planned."""

    op: OperatorDef
    inputs: List[Any]
    constants: List[int]


def case(types: str, *operands: Any, domain: str = "", outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """A case for each operator type in ``types``. Its random operands depend only on the type and its position."""
    for number, type in enumerate(types.split()):
        rng = np.random.default_rng([number, *map(ord, type)])
        inputs = [_operand(operand, rng) for operand in operands]
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        op = OperatorDef.of(type, names, [f"y{i}" for i in range(outputs)], domain=domain, **arguments)
        constants = [i for i, operand in enumerate(operands) if not isinstance(operand, str) or operand[:1] == "!"]
        yield Case(op, inputs, constants)


def onnx(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in ONNX's domain."""
    return case(types, *operands, domain="onnx", outputs=outputs, **arguments)


def microsoft(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in onnxruntime's domain."""
    return case(types, *operands, domain="com.microsoft", outputs=outputs, **arguments)


def tflite(types: str, *operands: Any, **arguments: Any) -> Iterator[Case]:
    """``case`` in TensorFlow Lite's domain."""
    return case(types, *operands, domain="tflite", **arguments)


def own(types: str, *operands: Any, outputs: int = 1, **arguments: Any) -> Iterator[Case]:
    """``case`` in armnet's domain."""
    return case(types, *operands, domain="armnet", outputs=outputs, **arguments)


def _operand(operand: Any, rng: np.random.Generator) -> Any:
    if not isinstance(operand, str):
        return _constant(operand)
    if operand == "-":
        return None
    found = re.fullmatch(r"(!?)(?:(\w+) )?(\d+(?:x\d+)*)", operand)
    assert found is not None, f"{operand!r} is no operand"
    weight, kind, shape = found[1], found[2] or "float32", tuple(map(int, found[3].split("x")))
    if kind == "q":
        return QuantizedTensor(rng.integers(0, 256, shape).astype(np.uint8), *QUANTIZED)
    values = _draw(kind, shape, rng)
    return values / np.float32(math.sqrt(math.prod(shape[1:]))) if weight and kind == "float32" else values


def _constant(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic, QuantizedTensor)):
        return value if isinstance(value, QuantizedTensor) else np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


def _draw(kind: str, shape: Any, rng: np.random.Generator) -> Array:
    if kind in REAL_RANGES:
        return np.asarray(rng.uniform(*REAL_RANGES[kind], shape), np.float32)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(max(limits.min, -100), min(limits.max, 100), shape), dtype)
