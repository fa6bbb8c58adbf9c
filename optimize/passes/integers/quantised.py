"""The integers from which a blob of floats is dequantised, and the operators that quantise floats."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from optimize.rewriting.patterns import Operator, operator
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Refusal, source
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.dtypes import dtype_of
from runtime_arm.operators.quantised.parameters import EIGHT_BITS

QUANTIZE = ("onnx.QuantizeLinear", "com.microsoft.QuantizeLinear")
DEQUANTIZE = ("onnx.DequantizeLinear", "com.microsoft.DequantizeLinear")
SMALLEST_SHARE = (
    1 / 16
)  # a float bias is rounded to a whole number of sums if one of them is at most this share of a step


class Quantised(NamedTuple):
    """A blob of 8-bit integers q for the reals  scale * (q - zero_point), with name and content of scale and zero
    point.

    axis: along which the scale varies; None for one scale.
    """

    blob: str
    scale_name: str
    zero_name: str
    scale: Array
    zero_point: Array
    axis: Optional[int] = None

    @property
    def dtype(self) -> Any:
        return self.zero_point.dtype

    @property
    def named(self) -> List[str]:
        """Scale and zero point, as operators take them behind a blob."""
        return [self.scale_name, self.zero_name]

    def has_parameters_of(self, other: Quantised) -> bool:
        """Whether the same integers mean the same reals."""
        return (
            self.dtype == other.dtype
            and self.scale.tobytes() == other.scale.tobytes()
            and self.zero_point.tobytes() == other.zero_point.tobytes()
        )


class Integers:
    """Finds the integers behind blobs of floats; collects the weights that new operators need."""

    def __init__(self, program: Program):
        self.program = program
        self.weights: Dict[str, Optional[Array]] = {}

    def constant(self, stem: str, value: Any) -> str:
        """The name of a new weight."""
        name = self.program.fresh(stem)
        while name in self.weights:
            name = f"{name}_"
        self.weights[name] = np.asarray(value)
        return name

    def behind(self, name: str, dtypes: Any = EIGHT_BITS) -> Quantised:
        """The integers that a DequantizeLinear makes this blob of; Refusal if there are none of these dtypes."""
        op = source(self.program, name)
        if op is None or op.full_type not in DEQUANTIZE or op.output[0] != name:
            raise Refusal(f"{name!r} is not made of integers")
        spec = self.program.specs(op.input[0])[0]
        if spec is None or spec.dtype not in dtypes:
            raise Refusal(f"{op.input[0]!r} is not known to hold integers of 8 bits")
        dims = self.program.dims(op.input[0])
        return self._quantised(op, op.input[0], spec.dtype, None if dims is None else len(dims))

    def weight_behind(self, name: str, axis: int) -> Quantised:
        """The integers that a weight is made of, with one scale, or one for each index of an axis."""
        found = self.behind(name)
        if found.blob not in self.program.weights:
            raise Refusal(f"{found.blob!r} is not a weight")
        if found.axis not in (None, axis):
            raise Refusal(f"the scales of {found.blob!r} belong to another axis than {axis}")
        return found

    def one_scale(self, name: str) -> Quantised:
        """The integers behind a blob, with one scale for all."""
        found = self.behind(name)
        if found.axis is not None:
            raise Refusal(f"{found.blob!r} has several scales")
        return found

    def made_by(self, op: OperatorDef) -> Quantised:
        """The integers that a QuantizeLinear makes, with one scale."""
        if op.has("precision") or op.has("format") or op.get_int("block_size", 0):
            raise Refusal("the integers are made in another way")
        zero = self.program.value(op.input[2]) if len(op.input) > 2 and op.input[2] else None
        number = op.get_int("output_dtype", 0)
        dtype = zero.dtype if zero is not None else np.dtype(dtype_of(number)) if number else np.dtype(np.uint8)
        if dtype not in EIGHT_BITS:
            raise Refusal(f"the integers are {dtype.name}, not of 8 bits")
        found = self._quantised(op, op.output[0], dtype, None)
        if found.axis is not None:
            raise Refusal("the output has several scales")
        return found

    def _quantised(self, op: OperatorDef, blob: str, dtype: Any, ndim: Optional[int]) -> Quantised:
        scale = self.program.value(op.input[1])
        zero_name = op.input[2] if len(op.input) > 2 else ""
        zero = self.program.value(zero_name) if zero_name else None
        if scale is None or scale.dtype != np.float32 or (zero_name and zero is None):
            raise Refusal(f"scale and zero point of {blob!r} are not constants of float32")
        if op.get_int("block_size", 0) or op.has("format") or op.get_int("output_dtype", 0) not in (0, 1):
            raise Refusal(f"{blob!r} is quantised in blocks, or stands for other numbers than float32")
        if zero is None:
            zero = np.zeros(scale.shape, dtype)
            zero_name = self.constant(f"{op.input[1]}_zero_point", zero)
        axis = None
        if scale.size > 1:
            if ndim is None:
                raise Refusal(f"the dimensions of {blob!r} are not known")
            axis = op.get_int("axis", 1) % ndim
        elif scale.ndim:
            scale, zero = scale.reshape(()), zero.reshape(())
        return Quantised(blob, op.input[1], zero_name, scale, zero, axis)

    def bias(self, name: str, x: Quantised, w: Quantised, y: Optional[Quantised], size: int) -> str:
        """The name of a bias as int32 of the scale of sums, which is the product of the scales of both factors."""
        unit = np.asarray(x.scale * w.scale, np.float32).reshape(-1)
        op = source(self.program, name)
        if op is not None and op.full_type in DEQUANTIZE:
            integers, scale = self.program.value(op.input[0]), self.program.value(op.input[1])
            zero = self.program.value(op.input[2]) if len(op.input) > 2 and op.input[2] else None
            same = scale is not None and scale.size in (1, size) and np.allclose(scale.reshape(-1), unit, 1e-6, 0)
            if integers is not None and integers.dtype == np.int32 and same and (zero is None or not zero.any()):
                return op.input[0]
            raise Refusal(f"the scale of the bias {name!r} is not that of the sums")
        value = self.program.value(name)
        if value is None or value.dtype != np.float32 or value.size != size:
            raise Refusal(f"the bias {name!r} is not constant")
        if y is not None and float((unit / y.scale).max()) > SMALLEST_SHARE:
            raise Refusal(f"the bias {name!r} is float, and sums are too coarse to hold it")
        steps = np.rint(value.reshape(-1).astype(np.float64) / unit)
        if not bool((np.abs(steps) < 2**30).all()):
            raise Refusal(f"the bias {name!r} is too large for sums of 32 bits")
        return self.constant(f"{name}_int32", steps.astype(np.int32))

    def rewrite(self, *ops: OperatorDef, at: Optional[int] = None) -> Rewrite:
        """These operators, with the weights that they need."""
        return Rewrite(ops, weights=self.weights, at=at)


def quantize(of: Operator) -> Operator:
    """The pattern of a QuantizeLinear of what another pattern matches, captured as ``quantize``."""
    return operator(QUANTIZE, "quantize")(of)
