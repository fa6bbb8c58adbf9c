"""Builds a Pair operator by operator: makes names unique, infers shapes, folds constants, removes unused operators."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from exporter.common.open_shapes import CHOICES, Choices, Dims, OpenShapes
from runtime_arm.errors import ArmnetError, ExportError, ResourceError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import DataDependent, lookup
from runtime_arm.registry.shape_inference import blamed_on, infer_operator
from runtime_arm.registry.specs import TensorSpec

# A result of constants replaces its operators if it is no larger than those constants, or has at most this many bytes.
FOLDED_NBYTES = 1 << 16
# Operators that are never folded: the optimiser looks for 8-bit weights as such.
UNFOLDED = ("DequantizeLinear",)


class NetBuilder:
    """Collects the operators of one net. ``nested()`` builders build sub-nets; they see the blobs of the nets around.

    Blob names are unique over the net and its sub-nets. All constants belong to the outermost net.
    """

    def __init__(self, outer: Optional[NetBuilder] = None, outputs: Sequence[str] = ()):
        self._outer = outer
        self._root: NetBuilder = outer._root if outer else self
        self._outputs = set(outputs)
        self._ops: List[OperatorDef] = []
        self._aliases: Dict[str, str] = {}
        if outer is None:
            self._specs: Dict[str, Optional[TensorSpec]] = {}
            self._hints: Dict[str, Tuple[Optional[np.dtype[Any]], Optional[Dims]]] = {}
            self._names: Set[str] = set(outputs)
            self._counts: Dict[str, int] = {}  # the number of names made from each stem
            self._constants: Dict[str, Array] = {}
            self._kept: Dict[str, str] = {}
            self._formats: Dict[str, str] = {}
            self._codes: Dict[str, str] = {}
            self._makers: Dict[str, OperatorDef] = {}
            self._made_of: Dict[str, int] = {}  # bytes of the constants behind each blob of known content
            self._open = OpenShapes()
        else:
            self._specs, self._hints = self._root._specs, self._root._hints

    def nested(self) -> NetBuilder:
        """A builder for a sub-net."""
        return NetBuilder(self)

    # Names

    def reserve(self, names: Sequence[str]) -> None:
        """Reserve names for blobs that will be added under exactly these names."""
        self._root._names.update(names)

    def fresh(self, stem: str) -> str:
        """A name that is not in use: ``stem`` itself, or ``stem`` followed by a number."""
        names, counts, name = self._root._names, self._root._counts, stem
        while not name or name in names:
            counts[stem] = counts.get(stem, 0) + 1
            name = f"{stem}_{counts[stem]}"
        names.add(name)
        return name

    def resolve(self, name: str) -> str:
        """The blob behind a name."""
        if name in self._aliases:
            return self._aliases[name]
        return self._outer.resolve(name) if self._outer else name

    def alias(self, name: str, blob: str) -> None:
        """Make ``name`` another name of ``blob``. An output of the net needs its own blob: it becomes a copy."""
        value = self.value(blob)
        if name not in self._outputs:
            self._aliases[name] = self.resolve(blob)
        elif value is not None:
            self.constant(name, value)
        else:
            self.add(OperatorDef.of("Copy", [blob], [name]))

    # What is known of blobs

    def input(
        self,
        name: str,
        dtype: Optional[np.dtype[Any]],
        dims: Optional[Dims],
        names: Optional[Sequence[Optional[str]]] = None,
    ) -> None:
        """Declare an input. If its shape is complete, later shapes are inferred from it.

        names: those of its open sizes, by which they are equal to those of other inputs; then later shapes are inferred
        as far as they do not depend on these sizes.
        """
        static = dtype is not None and dims is not None and None not in dims
        self._specs[name] = TensorSpec(dims, dtype) if static else None  # type: ignore[arg-type]
        if names is not None and dtype is not None and dims is not None and not static:
            self._root._open.input(name, dtype, dims, names)
        self.hint(name, dtype, dims)

    def hint(self, name: str, dtype: Optional[np.dtype[Any]], dims: Optional[Dims]) -> None:
        """Record what the source declares about a blob; it is used where inference knows less."""
        self._hints[name] = (dtype, dims)

    def constant(self, name: str, value: Any) -> str:
        """Make the blob a constant; the pair contains it only if something reads it. Returns the name."""
        array = np.asarray(value)
        self._root._constants[name] = array
        self._root._made_of[name] = array.nbytes
        self._specs[name] = TensorSpec.known(array)
        return name

    def state(self, name: str, initial: Any) -> str:
        """Make the blob a state with this initial value; ``keep`` sets its value for the next run. Returns the name."""
        array = np.asarray(initial)
        self._root._constants[name] = array
        self._root._specs[name] = TensorSpec(array.shape, array.dtype)
        return name

    def keep(self, state: str, blob: str) -> None:
        """Store a blob in a state after each run. ExportError inside a sub-net, which may not run."""
        if self._outer is not None:
            raise ExportError("a state cannot be written inside a branch or a loop")
        self._kept[state] = blob

    def is_kept(self, name: str) -> bool:
        """Whether the blob is a state, whose content changes from run to run."""
        return name in self._kept

    def forget(self, name: str) -> None:
        """Forget everything about a blob."""
        self._specs[name] = None
        self._hints.pop(name, None)
        self._root._open.forget(name)

    def spec(self, name: str) -> Optional[TensorSpec]:
        """Shape, dtype and perhaps content of a blob, if inference knows them completely."""
        return self._specs.get(self.resolve(name))

    def _hint(self, name: str) -> Tuple[Optional[np.dtype[Any]], Optional[Dims]]:
        return self._hints.get(self.resolve(name), (None, None))

    def value(self, name: str) -> Optional[Array]:
        """The content of a constant blob, else None."""
        spec = self.spec(name)
        return spec.value if spec else None

    def dtype(self, name: str) -> Optional[np.dtype[Any]]:
        spec = self.spec(name)
        if spec is not None:
            return spec.dtype
        return self._root._open.known(self.resolve(name))[0] or self._hint(name)[0]

    def dims(self, name: str) -> Optional[Dims]:
        """The shape; None for an unknown size, or for the whole if the rank is unknown."""
        spec = self.spec(name)
        if spec is not None:
            return spec.shape
        inferred = self._root._open.known(self.resolve(name))[1]
        return self._hint(name)[1] if inferred is None else inferred

    def _choices(self, name: str) -> Choices:
        """The spec of an operator's input for each choice of the open sizes; [] for an input that is left out."""
        spec = self.spec(name) if name else None
        return [] if not name else [spec] * len(CHOICES) if spec is not None else self._root._open.of(name)

    def note_format(self, name: str, format: str, codes: str = "") -> None:
        """Note that a blob holds numbers of a format that NumPy lacks, and the constant that has their codes."""
        self._root._formats[self.resolve(name)] = format
        if codes:
            self._root._codes[self.resolve(name)] = codes

    def format(self, name: str) -> Optional[str]:
        """The format that was noted for a blob, or None."""
        return self._root._formats.get(self.resolve(name))

    def codes(self, name: str) -> Optional[Array]:
        """The codes of a constant blob of such a format, flat, or None."""
        found = self._root._codes.get(self.resolve(name))
        return None if found is None else self._root._constants[found].reshape(-1)

    # Operators

    def operators(self) -> Sequence[OperatorDef]:
        """The operators so far, without those of the nets around."""
        return tuple(self._ops)

    def maker(self, name: str) -> Optional[OperatorDef]:
        """The operator that makes a blob; None for inputs, constants and results that became constants."""
        return self._root._makers.get(self.resolve(name))

    def accepts(self, op: OperatorDef) -> bool:
        """Whether the operator, whose type is registered, accepts its inputs as far as they are known.

        ResourceError if it does but its outputs exceed this machine's memory: no other operator can help then.
        """
        inputs = [self.spec(name) if name else None for name in op.input]
        if any(name and spec is None for name, spec in zip(op.input, inputs)):
            return True
        try:
            with blamed_on(op, inputs):
                lookup(op).infer(op, inputs)
        except DataDependent:
            return True
        except ResourceError:
            raise
        except ArmnetError:
            return False
        return True

    def add(self, op: OperatorDef) -> None:
        """Append an operator whose type is registered, or make its outputs constants if their content is known.

        OperatorError if the operator refuses the inputs as far as they are known.
        """
        op = op.replace(input=tuple(self.resolve(name) if name else "" for name in op.input))
        inputs = [self.spec(name) if name else None for name in op.input]
        specs: Sequence[Optional[TensorSpec]] = ()
        if all(spec is not None or not name for name, spec in zip(op.input, inputs)):
            with suppress(DataDependent):
                specs = infer_operator(op, inputs)[1]
        elif self._root._open.used:
            self._root._open.add(op, [self._choices(name) for name in op.input])
        self._specs.update(dict.fromkeys(op.output))
        self._specs.update(zip(op.output, specs))
        if not self._fold(op):
            self._ops.append(op)
            self._root._makers.update(dict.fromkeys(op.output, op))

    def _fold(self, op: OperatorDef) -> bool:
        """Make the outputs constants if their content is known and small enough; whether this was done."""
        made_of = self._root._made_of
        source = sum(made_of.get(name, 0) for name in set(op.input))
        values = {
            name: spec.value
            for name, spec in ((name, self._specs[name]) for name in op.output if name)
            if spec is not None and spec.value is not None and spec.quantization is None
        }
        made_of.update(dict.fromkeys(values, source))
        whole = len(values) == len([name for name in op.output if name]) > 0
        nbytes = sum(value.nbytes for value in values.values())
        if not whole or op.type in UNFOLDED or nbytes > max(source, FOLDED_NBYTES):
            return False
        for name, value in values.items():
            self.constant(name, value)
        return True

    def net(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> NetDef:
        """The net without unused operators. A sub-net's outputs may be blobs of the nets around it."""
        outputs = [self.resolve(output) for output in outputs]
        wanted = set(outputs)
        kept: List[OperatorDef] = []
        for op in reversed(self._ops):
            if not wanted.isdisjoint(op.output):
                kept.append(op)
                wanted.update(op.reads())
        return NetDef(name, tuple(reversed(kept)), external_input=tuple(inputs), external_output=tuple(outputs))

    def _with_states(self, net: NetDef) -> NetDef:
        """The net with operators at its end that write the states which it reads."""
        read = set(self.net(net.name, (), [*net.external_output, *self._kept.values()]).captures())
        kept = {state: blob for state, blob in self._kept.items() if state in read}
        if not kept:
            return net
        whole = self.net(net.name, net.external_input, [*net.external_output, *kept.values()])
        copies = tuple(OperatorDef.of("Copy", [self.resolve(blob)], [state]) for state, blob in kept.items())
        return whole.replace(op=(*whole.op, *copies), external_output=net.external_output)

    def pair(
        self,
        name: str,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        meta: Mapping[str, Any],
        unpacked: bool = False,
    ) -> Pair:
        """The pair. Its external inputs are the real inputs, followed by the constants that the net reads.

        unpacked: encode weights as Caffe2 itself does.
        """
        net = self.net(name, [info.name for info in inputs], [info.name for info in outputs])
        net = self._with_states(net)
        weights = [blob for blob in net.captures() if blob in self._constants]
        fills = tuple(fill(blob, self._constants[blob], unpacked) for blob in weights)
        init_net = NetDef(f"{name}_init" if name else "init", fills, external_output=tuple(weights))
        net = net.replace(external_input=(*net.external_input, *weights))
        return Pair(init_net, net, tuple(inputs), tuple(outputs), meta).check()


def refuse_foreign(net: NetDef) -> None:
    """ExportError, naming the operator, if the net or one inside it has an operator that is not Caffe2's."""
    for op in net.op:
        if op.domain:
            raise ExportError(f"{op.signature()}: Caffe2 has no such operator")
        for sub in op.subnets():
            refuse_foreign(sub)


def refuse_unknown(net: NetDef) -> None:
    """UnknownOperator if the net or one inside it has an operator that the runtime lacks."""
    for op in net.op:
        lookup(op)
        for sub in op.subnets():
            refuse_unknown(sub)
