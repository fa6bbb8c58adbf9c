"""ONNX graphs as they grow: names, constants, nodes, and what is known of the blobs that they compute."""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

import onnx
from onnx import helper

from exporter.to_onnx.call import Call, Known, Operand, Results, constant_value, inferred
from exporter.to_onnx.rules import find_rule
from exporter.to_onnx.types import Types
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import Array, NetDef, OperatorDef

NO_MEANING = "ONNX has no operators that mean the same"
LARGEST_FOLDED = 1 << 26  # bytes of a result that is known before the net runs
SHARED_NBYTES = 256  # constants up to here are looked up by content


class Constants:
    """The constants of a model, in order of use, and the names that are taken in it."""

    def __init__(self, taken: Set[str], types: Types):
        self.values: Dict[str, Array] = {}
        self.types = types
        self._taken = set(taken)
        self._small: Dict[Tuple[str, Tuple[int, ...], bytes], str] = {}

    def fresh(self, stem: str) -> str:
        """A name that nobody has: ``stem`` itself, or with a number behind it."""
        name, count = stem, 0
        while not name or name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def add(self, stem: str, value: Array) -> str:
        """The name of a constant; small ones of equal content are one."""
        if value.nbytes > SHARED_NBYTES:
            name = self.fresh(stem)
        else:
            key = (value.dtype.str, value.shape, value.tobytes())
            name = self._small.get(key) or self.fresh(stem)
            self._small[key] = name
        self.define(name, value)
        return name

    def define(self, name: str, value: Array) -> None:
        """A constant of this name, which nobody else has."""
        self.values[name] = value
        self.types.declare_constant(name, value)


class Graph:
    """One graph of a model, into which the operators of one net are said in their order.

    read: every blob that anything in the model reads. outer: the graph around this one.
    """

    def __init__(self, constants: Constants, read: Set[str], outer: Optional[Graph] = None):
        self.nodes: List[onnx.NodeProto] = []
        self._constants = constants
        self._read = read
        self._outer = outer
        self._operands: Dict[str, Operand] = {}
        self._outside: Set[str] = set()
        self._writes: Counter[str] = Counter()  # how often each blob will still be written
        self._learnt = 0  # nodes of which the types are known

    def fresh(self, stem: str) -> str:
        """A name that nobody has in the whole model."""
        return self._constants.fresh(stem)

    def constant(self, stem: str, value: Array) -> str:
        """The name of a constant."""
        return self._constants.add(stem, value)

    def nested(self) -> Graph:
        """A graph inside this one, which sees its blobs."""
        return Graph(self._constants, self._read, self)

    def wants(self, blob: str) -> bool:
        """Whether anything reads the blob."""
        return blob in self._read

    def has(self, blob: str) -> bool:
        """Whether the blob exists by now, here or in a graph around this one."""
        return blob in self._operands or (self._outer is not None and self._outer.has(blob))

    def operand(self, blob: str) -> Operand:
        """What a blob of the net is called in the graph and what is known of it."""
        if not blob:
            return Operand("", ())
        if blob in self._operands:
            return self._operands[blob]
        if self._outer is None:
            raise ExportError(f"blob {blob!r} is read before it is written")
        return self._outer.operand(blob)

    @property
    def types(self) -> Types:
        """What ONNX infers of the blobs so far, by their names in the graph."""
        self.learn_types()
        return self._constants.types

    def learn_types(self) -> None:
        """Infer the types of what is computed here and around."""
        if self._outer is not None:
            self._outer.learn_types()
        self._constants.types.learn(self.nodes[self._learnt :])
        self._learnt = len(self.nodes)

    def define(self, blob: str, known: Known) -> str:
        """Let the blob, which comes from outside, stand for its own name, or in an inner graph for one made of it."""
        name = self.fresh(blob) if self._outer else blob
        self._operands[blob] = Operand(name, known)
        return name

    def _written(self, blob: str, known: Known) -> str:
        """The name for what is written to a blob now: its own the last time, unless it came from outside."""
        self._writes[blob] -= 1
        own = self._outer is None and not self._writes[blob] and blob not in self._outside
        name = blob if own else self.fresh(blob)
        self._operands[blob] = Operand(name, known)
        return name

    def add(self, op: OperatorDef) -> None:
        """Say one operator in ONNX. OperatorError if it has no meaning there."""
        operands = [self.operand(blob) for blob in op.input]
        known = inferred(op, operands)
        start = len(self.nodes)
        try:
            results = self.results(op, operands)
        except ArmnetError as error:
            del self.nodes[start:]
            self._learnt = min(self._learnt, start)
            constant = self._folded(op, known)
            if constant is None:
                raise error if isinstance(error, OperatorError) else OperatorError(op, str(error)) from error
            results = constant
        self._bind(op, known, results, start)

    def results(self, op: OperatorDef, operands: Sequence[Operand]) -> Results:
        """Make the nodes of an operator; the names of its results, which are not bound to blobs yet."""
        rule = find_rule(op)
        if rule is None:
            raise ExportError(NO_MEANING)
        return rule(Call(op, operands, self))

    def _folded(self, op: OperatorDef, known: Sequence[Known]) -> Optional[Results]:
        """The outputs as constants if those that are read are known whatever the open sizes."""
        names: List[Optional[str]] = []
        for blob, specs in zip(op.output, known):
            value = constant_value(specs) if self.wants(blob) else None
            if self.wants(blob) and (value is None or value.nbytes > LARGEST_FOLDED):
                return None
            names.append(None if value is None else self.constant(f"{blob}_constant", value))
        return names

    def _bind(self, op: OperatorDef, known: Sequence[Known], results: Results, start: int) -> None:
        """Let the outputs stand for the results; nodes from ``start`` on write under the outputs' own names."""
        found = [results] if isinstance(results, str) else list(results)
        made = {name for node in self.nodes[start:] for name in node.output}
        renamed: Dict[str, str] = {}
        for blob, specs, result in zip(op.output, known, found):
            if not blob or not result:
                continue
            name = self._written(blob, specs)
            if result in made:
                made.remove(result)
                renamed[result] = name
            else:
                self.nodes.append(helper.make_node("Identity", [renamed.get(result, result)], [name]))
        for node in self.nodes[start:]:
            _rename(node, renamed)
        self._constants.types.rename(renamed)

    def add_net(self, net: NetDef) -> None:
        """Say every operator of a net, once what comes from outside is defined."""
        self._outside = set(self._operands)
        self._writes = Counter(name for op in net.op for name in op.output)
        for op in net.op:
            self.add(op)


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for field in (node.input, node.output):
        for index, name in enumerate(field):
            if name in names:
                field[index] = names[name]
