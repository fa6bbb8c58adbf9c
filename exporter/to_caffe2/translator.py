"""Translates operators into Caffe2's: the table of rules, one per operator type; scales, fills and conversions of
bytes.

Caffe2's integers are bytes: 128 is added to each int8 and to its zero point; uint8 stays as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from optimize.rewriting.program import Program
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, OperatorDef, frozen
from runtime_arm.netdef.dtypes import FLOAT, INT8, INT32, UINT8, dtype_of
from runtime_arm.operators.quantised.tflite.parameters import Affine, activation_range
from runtime_arm.pair.fills import fill
from runtime_arm.registry.schema import find
from runtime_arm.registry.specs import TensorSpec

UP = {"int8": 128, "uint8": 0}  # the number to add, to make a byte
MOST = 255
_NUMBERS = {"int8": INT8, "uint8": UINT8}  # of types, in arguments
LAST: Dict[str, Any] = {"order": "NHWC"}
OPEN = "of pictures whose sizes are open: name them with --shape"
_MADE = ": write the pair as it was before it was optimised, or quantised in its weights alone"


class Scale(NamedTuple):
    """real = scale * (byte - zero_point)."""

    scale: float
    zero_point: int

    @property
    def stated(self) -> Dict[str, Any]:
        """The arguments by which Caffe2's operators state the scale of their output."""
        return {"Y_scale": self.scale, "Y_zero_point": self.zero_point}


class Translator:
    """Translates the operators of a program one by one. fills: those of the weights and constants it made, by name."""

    def __init__(self, program: Program):
        self.program = program
        self.fills: Dict[str, OperatorDef] = {}
        self._scales: Dict[str, Scale] = {}
        self._before: List[OperatorDef] = []
        self._made: Dict[str, str] = {}  # of blobs of integers, the bytes made of them
        self._taken: Set[str] = set()

    def fresh(self, stem: str) -> str:
        """A name that no blob of either net has."""
        name, number = self.program.fresh(stem), 0
        while name in self._taken:
            number += 1
            name = self.program.fresh(f"{stem}_n{number}")
        self._taken.add(name)
        return name

    def translated(self, op: OperatorDef) -> List[OperatorDef]:
        """Caffe2's operators for one operator of the net; ExportError if there are none."""
        rule = _RULES.get(op.full_type)
        if rule is not None and (op.domain not in ("", "caffe2") or op.input[0] in self._scales):
            made = rule(self, op)
            before, self._before = self._before, []
            for one in made:
                self._check_reads(one)
            return [*before, *made]
        schema = find(op)
        if op.domain not in ("", "caffe2"):
            ours = op.domain == "armnet" or (schema is not None and schema.unpacks)
            raise ExportError(f"Caffe2 has no such operator{_MADE if ours else ''}")
        self._check_reads(op)
        return [op]

    def _check_reads(self, op: OperatorDef) -> None:
        held = next((name for name in op.reads() if name in self._scales), None)
        if held is not None and not op.type.startswith("Int8"):
            raise ExportError(f"Caffe2 has no such operator on bytes, but {held!r} holds bytes")

    # Scales

    def up(self, name: str) -> int:
        """The number to add to the integers of a blob to make them bytes."""
        dtype = self._dtype(name)
        if dtype not in UP:
            raise ExportError(f"Caffe2's quantised operators take only bytes, and {name!r} holds {dtype}")
        return UP[dtype]

    def _dtype(self, name: str) -> str:
        """The dtype of a blob of integers; if none is inferred, that of the blob from which it is made."""
        spec = self.program.specs(name)[0]
        while spec is None:
            place = self.program.writer(name)
            if place is None:
                return "what is not known before it runs"
            op = self.program.net.op[place]
            if op.get_int("to", 0):
                return str(dtype_of(op.get_int("to")))
            name = op.input[0]
            spec = self.program.specs(name)[0]
        return str(spec.dtype.name)

    def stated(self, op: OperatorDef, what: str, name: str) -> Scale:
        """The scale of an operand, by the operator's arguments. name: the name of its blob."""
        return Scale(op.get_float(f"{what}_scale"), op.get_int(f"{what}_zero_point", 0) + self.up(name))

    def result(self, op: OperatorDef, what: str = "Y") -> Scale:
        """The scale of an operator's output, by its arguments."""
        return self.stated(op, what, op.output[0])

    def reads(self, op: OperatorDef, index: int = 0, what: str = "X") -> str:
        """The bytes of an input, which must have the scale that the operator assumes."""
        name, scale = op.input[index], self.stated(op, what, op.input[index])
        if name not in self._scales:
            name = self._made.get(name) or self._made.setdefault(name, self._bytes_of(name, scale))
        if self._scales[name] != scale:
            raise ExportError(f"{op.input[index]!r} has another scale than the operator assumes")
        return name

    def holds_bytes(self, name: str) -> bool:
        """Whether a blob of the new net holds bytes with a scale."""
        return name in self._scales

    def scale_of(self, name: str) -> Scale:
        """The scale of a blob of bytes. ExportError if the blob holds anything else."""
        if name not in self._scales:
            raise ExportError(f"the scale of {name!r} is not known")
        return self._scales[name]

    def passes_on(self, op: OperatorDef, scale: Scale) -> Scale:
        """Gives the first output this scale, and returns it."""
        self._scales[op.output[0]] = scale
        return scale

    # Operators

    def makes(self, type: str, op: OperatorDef, inputs: List[str], scale: Scale, **arguments: Any) -> List[OperatorDef]:
        """An operator whose first output holds bytes of this scale."""
        self._scales[op.output[0]] = scale
        return [OperatorDef.of(type, inputs, [op.output[0]], name=op.name, **scale.stated, **arguments)]

    def on_floats(
        self,
        op: OperatorDef,
        inputs: Sequence[str],
        scale: Scale,
        on: Union[str, Callable[[str, str], List[OperatorDef]]],
        **arguments: Any,
    ) -> List[OperatorDef]:
        """Operators on floats. Inputs of bytes become floats first, and the result becomes bytes.

        on: the operator's type, or a function that makes operators, given the names of input and output.
        """
        before: List[OperatorDef] = []
        reals = list(inputs)
        for place, name in enumerate(inputs):
            if self.holds_bytes(name):
                reals[place] = self.fresh(f"{op.output[0]}_x{place or ''}")
                before.append(OperatorDef.of("Int8Dequantize", [name], [reals[place]]))
        y = self.fresh(f"{op.output[0]}_y")
        ops = [OperatorDef.of(on, reals, [y], name=op.name, **arguments)] if isinstance(on, str) else on(reals[0], y)
        if op.get_str("activation", "NONE") != "NONE":
            ops.append(self._clip(op, scale, y, self.fresh(f"{op.output[0]}_cut")))
        return [*before, *ops, *self.makes("Int8Quantize", op, [ops[-1].output[0]], scale)]

    def activated(
        self, type: str, op: OperatorDef, inputs: List[str], scale: Scale, **arguments: Any
    ) -> List[OperatorDef]:
        """An operator with its activation, whose first output holds bytes of this scale.

        Caffe2's operators end in Relu or nothing; other limits are applied to floats between bytes.
        """
        low, high = self._limits(op, scale)
        if high == MOST and low in (0, scale.zero_point):
            return self.makes(f"{type}Relu" if low > 0 else type, op, inputs, scale, **arguments)
        everything, reals, cut = (self.fresh(f"{op.output[0]}_{what}") for what in ("all", "x", "y"))
        return [
            OperatorDef.of(type, inputs, [everything], name=op.name, **scale.stated, **arguments),
            OperatorDef.of("Int8Dequantize", [everything], [reals]),
            self._clip(op, scale, reals, cut),
            *self.makes("Int8Quantize", op, [cut], scale),
        ]

    def _limits(self, op: OperatorDef, scale: Scale) -> Tuple[int, int]:
        """The lowest and the highest byte that an operator's activation lets through."""
        up = self.up(op.output[0])
        dtype = np.int8 if up else np.uint8
        low, high = activation_range(op, dtype, Affine(np.float32(scale.scale), scale.zero_point - up))
        return low + up, high + up

    def _clip(self, op: OperatorDef, scale: Scale, x: str, y: str) -> OperatorDef:
        """The operator's activation, on floats."""
        low, high = (float(np.float32(scale.scale) * (n - scale.zero_point)) for n in self._limits(op, scale))
        return OperatorDef.of("Clip", [x], [y], min=low, max=high)

    def in_rows(self, name: str, terms: int, stem: str) -> List[OperatorDef]:
        """An operator that reshapes a blob of bytes to rows of ``terms`` bytes. stem: the stem of new names."""
        rows, sizes = (self.fresh(f"{stem}_{what}") for what in ("rows", "sizes"))
        stated = self._scales[name].stated
        return [OperatorDef.of("Int8Reshape", [name], [rows, sizes], shape=[-1, terms], **stated)]

    def _bytes_of(self, name: str, scale: Scale) -> str:
        """Converts a blob of integers to bytes, by way of floats, before the operator that is being translated."""
        up = self.up(name)
        reals, centred, scaled, made = (self.fresh(f"{name}_{what}") for what in ("x", "c", "s", "bytes"))
        zero, factor = (
            self.constant(f"{name}_{what}", np.array([value], np.float32))
            for what, value in (("zero", scale.zero_point - up), ("scale", scale.scale))
        )
        self._before += [
            OperatorDef.of("Cast", [name], [reals], to=FLOAT),
            OperatorDef.of("Sub", [reals, zero], [centred]),
            OperatorDef.of("Mul", [centred, factor], [scaled]),
            OperatorDef.of("Int8Quantize", [scaled], [made], **scale.stated),
        ]
        self._scales[made] = scale
        return made

    def integers_of(self, held: str, name: str) -> List[OperatorDef]:
        """Converts the bytes that another blob holds to a blob of integers, by way of floats, which are truncated."""
        scale, up = self._scales[name], self.up(name)
        reals, steps, above, whole, result = (self.fresh(f"{name}_{what}") for what in ("x", "s", "a", "i", "o"))
        factor, half, zero = (
            self.constant(f"{name}_{what}", value)
            for what, value in (
                ("scale", np.array([scale.scale], np.float32)),
                ("half", np.array([scale.zero_point + 0.5], np.float32)),
                ("up", np.array([up], np.int32)),
            )
        )
        return [
            OperatorDef.of("Int8Dequantize", [held], [reals]),
            OperatorDef.of("Div", [reals, factor], [steps]),
            OperatorDef.of("Add", [steps, half], [above]),
            OperatorDef.of("Cast", [above], [whole], to=INT32),
            OperatorDef.of("Sub", [whole, zero], [result]),
            OperatorDef.of("Cast", [result], [name], to=_NUMBERS[self._dtype(name)]),
        ]

    # Constants

    def weights(self, name: str, op: OperatorDef) -> Scale:
        """Makes the fill of weights with one scale."""
        value, scales = self.program.value(name), set(op.get_floats("W_scales"))
        if value is None:
            raise ExportError(f"the weights {name!r} are not constant")
        if len(scales) != 1:
            raise ExportError(
                f"the weights {name!r} have a scale for each filter, Caffe2's have one: quantise with --per-tensor"
            )
        scale = Scale(scales.pop(), op.get_int("W_zero_point", 0) + self.up(name))
        if self._scales.setdefault(name, scale) != scale:
            raise ExportError(f"the weights {name!r} have another scale elsewhere")
        self._fill("Int8GivenTensorFill", name, value, scale, self._raised(name, value))
        return scale

    def _raised(self, name: str, value: Array) -> bytes:
        """Integers of a blob's type as bytes."""
        return (value.astype(np.int16) + self.up(name)).astype(np.uint8).tobytes()

    def bias(self, op: OperatorDef, index: int, filters: int, scale: float) -> str:
        """Makes the fill of a bias of int32, zeros if the operator has none."""
        given = len(op.input) > index and op.input[index]
        name = op.input[index] if given else self.fresh(f"{op.output[0]}_bias")
        value = self.program.value(name) if given else np.zeros(filters, np.int32)
        if value is None or value.dtype != np.int32:
            raise ExportError(f"the bias {name!r} is not a constant of int32")
        self._fill("Int8GivenIntTensorFill", name, value, Scale(scale, 0), value)
        return name

    def floats(self, op: OperatorDef, index: int, what: str, shape: Optional[Sequence[int]] = None) -> str:
        """The name of an input's bytes, or, if it is constant, of a constant of floats. shape: that of the constant."""
        name = op.input[index]
        value = self.program.value(name)
        if value is None:
            return self.reads(op, index, what)
        value = value if shape is None else value.reshape(shape)
        scale = self.stated(op, what, name)
        reals = np.float32(scale.scale) * (value.astype(np.float32) + (self.up(name) - scale.zero_point))
        return self.constant(f"{op.output[0]}_{what}", reals.astype(np.float32))

    def constant(self, stem: str, value: Array, like: Optional[str] = None) -> str:
        """Makes the fill of a constant; its name. like: for integers, the blob whose conversion to bytes they share."""
        name = self.fresh(stem)
        if like is None:
            self.fills[name] = fill(name, value, unpacked=True)
        else:
            self._scales[name] = self._scales[like]
            self._fill("Int8GivenTensorFill", name, value, self._scales[like], self._raised(like, value))
        return name

    def known(self, op: OperatorDef) -> List[Optional[TensorSpec]]:
        """The inputs after the first, with their content if it is known."""
        values = [self.program.content(name) if name else None for name in op.input[1:]]
        return [None if value is None else TensorSpec.known(value) for value in values]

    def _fill(self, type: str, name: str, value: Array, scale: Scale, content: Any) -> None:
        values = (
            Argument("values", s=content)
            if isinstance(content, bytes)
            else Argument("values", ints=frozen(content.reshape(-1).astype(np.int64)))
        )
        stated = [Argument.of(key, one) for key, one in scale.stated.items()]
        self.fills[name] = OperatorDef(type, (), (name,), (Argument.of("shape", list(value.shape)), values, *stated))


Rule = Callable[[Translator, OperatorDef], List[OperatorDef]]
_RULES: Dict[str, Rule] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Makes the function the rule of operators with these types."""

    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(types, function))
        return function

    return register


def transposed(
    net: Translator,
    x: str,
    y: str,
    order: Sequence[int],
    inner: Callable[[str, str], List[OperatorDef]],
    type: str = "Transpose",
    **arguments: Any,
) -> List[OperatorDef]:
    """Operators that take the dimensions in another order, and give them back in the old one.

    inner: makes them from the names of input and output. type: what transposes, with arguments.
    """
    order = list(order)
    if order == sorted(order):
        return inner(x, y)
    moved, result = net.fresh(f"{y}_moved"), net.fresh(f"{y}_result")
    back = [order.index(axis) for axis in range(len(order))]
    return [
        OperatorDef.of(type, [x], [moved], axes=order, **arguments),
        *inner(moved, result),
        OperatorDef.of(type, [result], [y], axes=back, **arguments),
    ]
