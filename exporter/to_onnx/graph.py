"""An ONNX graph under construction: names, constants, nodes, and what is known of the blobs."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, List, Mapping, Optional, Set, Tuple

import onnx

from exporter.to_onnx.operand import Known, Operand
from exporter.to_onnx.types import Types
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array

SHARED_NBYTES = 256  # constants of up to this size are looked up by content


class Constants:
    """The constants of a model, in order of use, and the names that are in use."""

    def __init__(self, taken: Set[str], types: Types):
        self.values: Dict[str, Array] = {}
        self.types = types
        self._taken = set(taken)
        self._small: Dict[Tuple[str, Tuple[int, ...], bytes], str] = {}

    def fresh(self, stem: str) -> str:
        """A name that is not in use: ``stem`` itself, or ``stem`` followed by a number."""
        name, count = stem, 0
        while not name or name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def add(self, stem: str, value: Array) -> str:
        """Add a constant; its name. Small constants with equal content are stored once."""
        if value.nbytes > SHARED_NBYTES:
            name = self.fresh(stem)
        else:
            key = (value.dtype.str, value.shape, value.tobytes())
            name = self._small.get(key) or self.fresh(stem)
            self._small[key] = name
        self.define(name, value)
        return name

    def define(self, name: str, value: Array) -> None:
        """Add a constant under a name that is not in use."""
        self.values[name] = value
        self.types.declare_constant(name, value)


class Graph:
    """One graph of a model, into which one net is translated.

    read: every blob that anything in the model reads. outer: the graph around this one.
    """

    def __init__(self, constants: Constants, read: Set[str], outer: Optional[Graph] = None):
        self.nodes: List[onnx.NodeProto] = []
        self.channels_first: Dict[str, str] = {}  # by the name of a blob with its channels last
        self._constants = constants
        self._read = read
        self._outer = outer
        self._operands: Dict[str, Operand] = {}
        self._outside: Set[str] = set()
        self._writes: Counter[str] = Counter()  # how many more times each blob will be written
        self._learnt = 0  # the number of nodes whose types are inferred

    def fresh(self, stem: str) -> str:
        """A name that is not in use in the whole model."""
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
        """Whether the blob already exists, here or in a graph around this one."""
        return blob in self._operands or (self._outer is not None and self._outer.has(blob))

    def operand(self, blob: str) -> Operand:
        """A blob's name in the graph, and what is known of it."""
        if not blob:
            return Operand("", ())
        if blob in self._operands:
            return self._operands[blob]
        if self._outer is None:
            raise ExportError(f"blob {blob!r} is read before it is written")
        return self._outer.operand(blob)

    @property
    def types(self) -> Types:
        """The types that ONNX infers for the blobs so far, by their names in the graph."""
        self.learn_types()
        return self._constants.types

    def learn_types(self) -> None:
        """Infer the types of all nodes so far, here and in the graphs around."""
        if self._outer is not None:
            self._outer.learn_types()
        self._constants.types.learn(self.nodes[self._learnt :])
        self._learnt = len(self.nodes)

    def define(self, blob: str, known: Known) -> str:
        """Define a blob that comes from outside. It keeps its name; in an inner graph it gets a new one."""
        name = self.fresh(blob) if self._outer else blob
        self._operands[blob] = Operand(name, known)
        return name

    def expect(self, written: Iterable[str]) -> None:
        """Prepare for a net that writes these blobs, in order; the blobs defined so far come from outside."""
        self._outside = set(self._operands)
        self._writes = Counter(written)

    def write(self, blob: str, known: Known) -> str:
        """The name for the next write to a blob. The last write gets the blob's own name, unless an input has it."""
        self._writes[blob] -= 1
        own = self._outer is None and not self._writes[blob] and blob not in self._outside
        name = blob if own else self.fresh(blob)
        self._operands[blob] = Operand(name, known)
        return name

    def discard(self, start: int) -> None:
        """Remove the nodes from ``start`` on."""
        del self.nodes[start:]
        self._learnt = min(self._learnt, start)

    def rename(self, start: int, names: Mapping[str, str]) -> None:
        """Rename blobs in the nodes from ``start`` on."""
        for node in self.nodes[start:]:
            for field in (node.input, node.output):
                for index, name in enumerate(field):
                    if name in names:
                        field[index] = names[name]
        self._constants.types.rename(names)
