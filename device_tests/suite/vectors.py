"""Golden vectors: operators with operands and with the results that the host computed.

``device_tests.host.golden_vectors`` makes them. The file is a NetDef: operands and results are fill operators, each
with the argument ``values`` and, if they apply, ``constant``, ``scale`` and ``zero_point``. The operator that reads
and writes them follows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Set

from runtime_arm.files import map_file, write_file
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.netdef.encoder import encode_net
from runtime_arm.registry.specs import QuantizedTensor

FILL = "GivenTensorFill"


class Vector(NamedTuple):
    """An operator, its operands (None if omitted), the indices of those known when planning, and its results."""

    op: OperatorDef
    inputs: List[Any]
    constants: List[int]
    outputs: List[Any]

    @property
    def terms(self) -> int:
        """An upper bound for the terms of a result: no operator here adds up more than its largest operand holds."""
        return max([1, *(int(_array(value).size) for value in self.inputs if value is not None)])


def write_vectors(path: Path, vectors: Iterable[Vector]) -> None:
    """Writes the vectors to one file."""
    ops: List[OperatorDef] = []
    for number, vector in enumerate(vectors):
        names = [f"{number}/x{i}" if value is not None else "" for i, value in enumerate(vector.inputs)]
        results = [f"{number}/y{i}" for i in range(len(vector.outputs))]
        constants = {names[i] for i in vector.constants}
        ops += [_fill(name, value, name in constants) for name, value in zip(names, vector.inputs) if name]
        ops += [_fill(name, value, False) for name, value in zip(results, vector.outputs)]
        ops.append(vector.op.replace(input=tuple(names), output=tuple(results)))
    write_file(path, encode_net(NetDef("vectors", tuple(ops))))


def read_vectors(path: Path) -> List[Vector]:
    """The vectors in a file; their arrays lie in the mapped file."""
    vectors: List[Vector] = []
    filled: Dict[str, Any] = {}
    constant: Set[str] = set()
    for op in NetDef.from_bytes(map_file(path), str(path)).op:
        if op.type == FILL:
            filled[op.output[0]] = _filled(op)
            constant.update(op.output if op.has("constant") else ())
        else:
            inputs = [filled[name] if name else None for name in op.input]
            constants = [i for i, name in enumerate(op.input) if name in constant]
            vectors.append(Vector(op, inputs, constants, [filled[name] for name in op.output]))
    return vectors


def _fill(name: str, value: Any, constant: bool) -> OperatorDef:
    arguments: Dict[str, Any] = {"values": _array(value), **({"constant": 1} if constant else {})}
    if isinstance(value, QuantizedTensor):
        arguments.update(scale=float(value.scale), zero_point=int(value.zero_point))
    return OperatorDef.of(FILL, [], [name], **arguments)


def _filled(op: OperatorDef) -> Any:
    values = op.get_tensor("values")
    return QuantizedTensor(values, op.get_float("scale"), op.get_int("zero_point")) if op.has("scale") else values


def _array(value: Any) -> Any:
    return value.values if isinstance(value, QuantizedTensor) else value
