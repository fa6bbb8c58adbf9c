"""A net that is being rewritten from floats to TensorFlow Lite's quantised integers, operator by operator.

A float blob gets a twin: the same numbers as integers, real = scale (integer - zero point). A twin of a picture lies as
(N, H, W, C), as quantised operators want it; every twin can also lie as the float blob does. Both forms, and the float
blob itself, are made from each other when an operator asks for them, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from optimize.quantization.calibration import Range
from optimize.quantization.round_by_data import Rounded
from optimize.rewriting.program import Program
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.netdef.dtypes import number_of
from runtime_arm.registry.schema import find_type

DOMAIN = "tflite"
INT8, INT16 = np.dtype(np.int8), np.dtype(np.int16)
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # channels
_SMALLEST_SCALE = float(np.finfo(np.float32).tiny)


class Scale(NamedTuple):
    """real = scale * (integer - zero_point)."""

    scale: float
    zero_point: int

    def of(self, operand: str) -> Dict[str, Any]:
        """As arguments of a quantised operator."""
        return {f"{operand}_scale": self.scale, f"{operand}_zero_point": self.zero_point}

    @staticmethod
    def holding(range_: Range, dtype: Any = INT8) -> Scale:
        """The scale whose integers reach from low to high, with 0 among them exactly; that of int16 is symmetric.

        Of nothing but zeros, such as a layer that Relu silences, it is that of 0 to 1: kernels refuse what a tiny scale
        would make of the numbers around it.
        """
        low, high = min(range_.low, 0.0), max(range_.high, 0.0)
        high = high if low < high else 1.0
        limits = np.iinfo(dtype)
        if np.dtype(dtype) == INT16:
            return Scale(_at_least_tiny(max(-low, high) / limits.max), 0)
        scale = _at_least_tiny((high - low) / (limits.max - limits.min))
        return Scale(scale, int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max)))

    def integers(self, reals: Array, dtype: Any = INT8) -> Array:
        """The nearest integers."""
        limits = np.iinfo(dtype)
        steps = np.rint(np.asarray(reals, np.float64) / self.scale) + self.zero_point
        return np.asarray(np.clip(steps, limits.min, limits.max), dtype)


def _at_least_tiny(scale: float) -> float:
    return float(np.float32(max(scale, _SMALLEST_SCALE)))


@dataclass
class Twin:
    """The integers of a float blob: names of the blobs that hold them, by whether the channels come last."""

    scale: Scale
    names: Dict[bool, str] = field(default_factory=dict)


class Precision(NamedTuple):
    """How exact integers are. dtype: of activations. per_tensor: a weight has one scale, not one for each filter.
    correct_biases: biases take off by how much rounded weights shift means. rounded: weights that are rounded already,
    by layer."""

    dtype: np.dtype[Any] = INT8
    per_tensor: bool = False
    correct_biases: bool = True
    rounded: Mapping[str, Rounded] = MappingProxyType({})


class IntegerNet:
    """The new net so far.

    scales: what each blob's integers would stand for. means: of each blob's channels.
    """

    def __init__(
        self,
        program: Program,
        scales: Mapping[str, Scale],
        means: Mapping[str, Array],
        precision: Precision,
    ):
        self.program = program
        self.precision = precision
        self.dtype = precision.dtype
        self.noise: Dict[str, float] = {}  # of layers' weights, in dB
        self.scales = scales
        self.means = means
        self.twins: Dict[str, Twin] = {}
        self.done: Set[int] = set()  # places of operators that another one has taken in
        self._operators: List[OperatorDef] = []
        self._weights: Dict[str, Array] = {}
        self._reals = set(program.net.external_input)
        self._taken: Set[str] = set()

    # What is known of the float net

    def rank(self, name: str) -> Optional[int]:
        """The number of a blob's dimensions."""
        dims = self.program.dims(name)
        return None if dims is None else len(dims)

    def is_last(self, name: str) -> bool:
        """Whether the twin of the blob lies with the channels last: it is a picture."""
        return self.rank(name) == 4

    def lacks(self, type: str) -> Optional[str]:
        """Why there is no such operator of TensorFlow Lite on these integers; None if there is one."""
        schema = find_type(DOMAIN, type)
        assert schema is not None
        return None if self.dtype.name in schema.dtypes else f"it has no {self.dtype.name} form"

    def constant(self, name: str) -> Optional[Array]:
        """The float32 content of a weight."""
        value = self.program.value(name) if name else None
        return value if value is not None and value.dtype == np.float32 else None

    # Blobs in the form in which an operator wants them

    def integer(self, name: str, last: bool, wanted: Optional[Scale] = None) -> Tuple[str, Scale]:
        """The blob that holds a float blob's integers in a layout, and their scale: ``wanted``, or the twin's own."""
        twin = self._twin(name)
        if last not in twin.names:
            twin.names[last] = self._turned(name, twin.names[not last], last)
        if wanted is None or wanted == twin.scale:
            return twin.names[last], twin.scale
        scaled = self.fresh(f"{name}_rescaled")
        self.add(
            "Requantize", [twin.names[last]], scaled, to=number_of(self.dtype), **twin.scale.of("X"), **wanted.of("Y")
        )
        return scaled, wanted

    def real(self, name: str) -> str:
        """The float blob, made of its integers if it has only these."""
        if name and name not in self._reals and name in self.twins:
            twin, self_last = self.twins[name], self.is_last(name)
            plain = twin.names.get(False)
            if plain is None:
                plain = twin.names[False] = self._turned(name, twin.names[self_last], False)
            self.add("Dequantize", [plain], name, **twin.scale.of("X"))
            self._reals.add(name)
        return name

    def write(self, name: str, scale: Scale, last: bool) -> str:
        """A new blob for the integers of a float blob, as the output of an operator."""
        fresh = self.fresh(f"{name}_{self.dtype.name}")
        self.twins[name] = Twin(scale, {last: fresh})
        return fresh

    def alias(self, name: str, last: bool, held: str, scale: Scale) -> None:
        """The integers of the float blob are those of a blob that exists."""
        self.twins[name] = Twin(scale, {last: held})

    def _twin(self, name: str) -> Twin:
        if name not in self.twins:
            scale = self.scales[name]
            self.add("Quantize", [name], self.write(name, scale, False), to=number_of(self.dtype), **scale.of("Y"))
        return self.twins[name]

    def _turned(self, name: str, held: str, last: bool) -> str:
        """A blob with the channels moved. A picture of one pixel is only given another shape."""
        if not self.is_last(name):
            return held
        turned, dims = self.fresh(f"{name}_{'nhwc' if last else 'nchw'}"), self.program.dims(name) or ()
        if tuple(dims[2:]) == (1, 1):
            shape = [0, 1, 1, -1] if last else [0, -1, 1, 1]
            self._operators.append(OperatorDef.of("Reshape", [held], [turned, self.fresh("old_shape")], shape=shape))
        else:
            axes = TO_LAST if last else TO_FIRST
            self._operators.append(OperatorDef.of("Transpose", [held], [turned], axes=list(axes)))
        return turned

    # Writing

    def fresh(self, stem: str) -> str:
        """A name that no blob has."""
        name = self.program.fresh(stem)
        number = 0
        while name in self._taken:
            number += 1
            name = self.program.fresh(f"{stem}_{number}")
        self._taken.add(name)
        return name

    def weight(self, kind: str, value: Array) -> str:
        """A new constant, with a short name: names of converted networks are often as long as a layer's bias."""
        name = self.fresh(f"w{len(self._weights) + 1}_{kind}")
        self._weights[name] = np.ascontiguousarray(value)
        return name

    def add(self, type: str, inputs: Sequence[str], output: str, domain: str = DOMAIN, **arguments: Any) -> None:
        """An operator of TensorFlow Lite's domain, unless another one is named."""
        given = {key: value for key, value in arguments.items() if value is not None}
        self._operators.append(OperatorDef.of(type, inputs, [output], domain=domain, **given))

    def add_with_info(self, type: str, inputs: Sequence[str], output: str, **arguments: Any) -> None:
        """An operator of Caffe2's whose second output nobody reads."""
        outputs = [output, self.fresh(f"{output}_info")]
        self._operators.append(OperatorDef.of(type, inputs, outputs, **arguments))

    def keep_as(self, op: OperatorDef, x: str, y: str) -> None:
        """The operator as it is, on other blobs than its first input and its first output."""
        others = tuple(self.fresh(f"{y}_info") if name else "" for name in op.output[1:])
        self._operators.append(op.replace(input=(x, *op.input[1:]), output=(y, *others)))

    def keep(self, op: OperatorDef) -> None:
        """The operator as it is, on float blobs."""
        for name in op.reads():
            self.real(name)
        self._operators.append(op)
        self._reals.update(name for name in op.output if name)

    def finished(self) -> Tuple[NetDef, Weights]:
        """The net, whose outputs are floats again, and its weights."""
        net = self.program.net
        for name in net.external_output:
            self.real(name)
        read = {name for op in self._operators for name in op.reads()}
        inputs = [name for name in net.external_input if name in read or name not in self.program.weights]
        weights = self.program.weights.changed(self._weights)
        net = net.replace(op=tuple(self._operators), external_input=(*inputs, *self._weights))
        return net, weights
