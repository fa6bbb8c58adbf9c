"""Gradient makers: for an operator, the operators that compute the gradients of its inputs from those of its outputs.

A maker is a small function in the file ``gradients.py`` of its operator's folder:

    @gradient("Relu")
    def relu(forward):
        return forward.by("ReluGradient", [forward.output(0), forward.gradient(0)], [0])

Makers are imported when a gradient is asked for, never by a net that only runs. ``backward`` finds and calls them.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from runtime_arm.errors import GradientError
from runtime_arm.netdef import Argument, OperatorDef
from runtime_arm.netdef.values import ArgumentValue
from runtime_arm.records import NamedTuple, field, record
from runtime_arm.registry.families import families_of
from runtime_arm.registry.schema import domain_of

OF_INPUT = "_of_input_"  # distinguishes the gradients of a blob that an operator reads twice


def without_place(name: str) -> str:
    """The name of a gradient without its distinguishing suffix."""
    return name.partition(OF_INPUT)[0]


class SparseGradient(NamedTuple):
    """The gradient of a blob of which few rows were used: ``values[i]`` is added to row ``indices[i]``; blob names."""

    indices: str
    values: str


Gradient = Union[str, SparseGradient]
Gradients = Sequence[Optional[Gradient]]


class Backward(NamedTuple):
    """The gradient operators of one operator, in the order in which they run, and the gradient of each of its inputs.

    A gradient that is None does not exist: the output does not depend on the input smoothly, or not at all.
    """

    ops: Tuple[OperatorDef, ...]
    gradients: Tuple[Optional[Gradient], ...]


@record(frozen=True)
class Forward:
    """The argument of a maker: the operator, and the gradients of its outputs, None for those that have none."""

    op: OperatorDef
    gradients: Gradients = field(default=())

    def input(self, index: int) -> str:
        """The name of an input whose content the gradient needs. GradientError if the operator overwrites it."""
        name = self._named("input", self.op.input, index)
        if name in self.op.output:
            raise GradientError(
                self.op,
                f"the gradient needs input {name!r}, which the operator overwrites: give the output another name",
            )
        return name

    def given(self, *indices: int) -> List[str]:
        """The names of inputs whose content the gradient needs, "" for those that are left out."""
        present = [index < len(self.op.input) and bool(self.op.input[index]) for index in indices]
        return [self.input(index) if there else "" for index, there in zip(indices, present)]

    def like(self, index: int) -> str:
        """The name of an input of which the gradient needs only the shape."""
        return self._named("input", self.op.input, index)

    def output(self, index: int) -> str:
        """The name of an output whose content the gradient needs. GradientError if the operator does not name it."""
        return self._named("output", self.op.output, index)

    def _named(self, what: str, names: Sequence[str], index: int) -> str:
        if index >= len(names) or not names[index]:
            raise GradientError(self.op, f"the gradient needs {what} {index}, which the operator does not have")
        return names[index]

    def has_gradient(self, index: int = 0) -> bool:
        return index < len(self.gradients) and self.gradients[index] is not None

    def gradient(self, index: int = 0) -> str:
        """The name of the gradient of an output. GradientError if there is none, or if it is sparse."""
        given = self.gradients[index] if index < len(self.gradients) else None
        if given is None:
            raise GradientError(self.op, f"output {index} has no gradient, which that of the inputs needs")
        if isinstance(given, SparseGradient):
            raise GradientError(self.op, f"the gradient of output {index} is sparse: put EnsureDense behind it")
        return given

    def name(self, index: int) -> str:
        """The name of the gradient of an input, for makers of several operators: none of the names that they read."""
        name = self._plain_name(index)
        return f"{name}{OF_INPUT}{index}" if name in self.gradients and OF_INPUT not in name else name

    def _plain_name(self, index: int) -> str:
        blob = self.like(index)
        return f"{blob}_grad{OF_INPUT}{index}" if blob in self.op.input[:index] else f"{blob}_grad"

    def make(
        self,
        type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        copy: bool = True,
        domain: Optional[str] = None,
        **arguments: ArgumentValue,
    ) -> OperatorDef:
        """A gradient operator on the same device, with these arguments and, if ``copy``, those of the operator.

        domain: by default armnet's for armnet's own operators, else Caffe2's.
        """
        own = tuple(Argument.of(name, value) for name, value in arguments.items())
        copied = tuple(arg for arg in self.op.arg if arg.name not in arguments) if copy else ()
        return OperatorDef(
            type,
            tuple(inputs),
            tuple(outputs),
            own + copied,
            engine=self.op.engine if copy else "",
            domain=("armnet" if self.op.domain == "armnet" else "") if domain is None else domain,
            device_option=self.op.device_option,
            is_gradient_op=True,
        )

    def by(
        self,
        type: str,
        inputs: Sequence[str],
        of: Sequence[int],
        *,
        copy: bool = True,
        domain: Optional[str] = None,
        **arguments: ArgumentValue,
    ) -> Backward:
        """One operator whose outputs are the gradients of the inputs ``of``, in that order."""
        names = [self._plain_name(index) for index in of]
        op = self.make(type, inputs, names, copy=copy, domain=domain, **arguments)
        return self.result([op], dict(zip(of, names)))

    def result(self, ops: Sequence[OperatorDef], gradients: Dict[int, Gradient]) -> Backward:
        """The operators, and the gradients by index of the input."""
        return Backward(tuple(ops), tuple(gradients.get(index) for index in range(len(self.op.input))))


Maker = Callable[[Forward], Backward]
_MAKERS: Dict[Tuple[str, str], Maker] = {}
_WITHOUT: Dict[Tuple[str, str], str] = {}


def gradient(*types: str, domain: str = "") -> Callable[[Maker], Maker]:
    """Decorator: the function makes the gradient of these types."""

    def register(maker: Maker) -> Maker:
        for type in types:
            if (domain, type) in _MAKERS or (domain, type) in _WITHOUT:
                raise RuntimeError(f"the gradient of {(domain, type)} is declared twice")
            _MAKERS[domain, type] = maker
        return maker

    return register


def no_gradient(*types: str, domain: str = "", stops: bool = False) -> None:
    """Declares that these types have no gradient.

    stops: the gradient of every input is None, without an error. Otherwise asking for it is a GradientError.
    """
    for type in types:
        if stops:
            gradient(type, domain=domain)(lambda forward: forward.result([], {}))
        else:
            _WITHOUT[domain, type] = "its output does not change smoothly with its inputs"


def backward(op: OperatorDef, output_gradients: Gradients) -> Backward:
    """The gradient operators of ``op`` for these gradients of its outputs. GradientError if there are none."""
    key = (domain_of(op), op.type)
    _load_makers(*key)
    maker = _MAKERS.get(key)
    if maker is None:
        raise GradientError(op, f"{op.full_type[:100]} has no gradient: {_WITHOUT.get(key, 'nobody declared one')}")
    return maker(Forward(op, tuple(output_gradients)))


def differentiable() -> List[Tuple[str, str]]:
    """Domain and type of every operator that has a gradient, sorted; those whose gradient stops are among them."""
    from runtime_arm.registry.families import FAMILIES

    for domain, families in FAMILIES.items():
        for types in families.values():
            for type in types.split():
                _load_makers(domain, type)
    return sorted(_MAKERS)


@lru_cache(None)
def _load_makers(domain: str, type: str) -> None:
    """Import the makers of the folders in which the type is declared."""
    for family in families_of(domain, type):
        module = f"runtime_arm.{family.rpartition('.')[0]}.gradients"
        if family.startswith("operators.") and _exists(module):
            import_module(module)


@lru_cache(None)
def _exists(module: str) -> bool:
    return find_spec(module) is not None


__all__: List[Any] = [
    "Backward",
    "Forward",
    "Gradient",
    "Gradients",
    "SparseGradient",
    "backward",
    "differentiable",
    "gradient",
    "no_gradient",
    "without_place",
]
