"""Walks the graphs of a TFLite model and hands each operator to its rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence

from exporter.common.builder import NetBuilder
from exporter.common.options import Progress
from exporter.tflite.blobs import Blobs
from exporter.tflite.node import Node, Variables
from exporter.tflite.reader import Graph, Operation, TfliteFile
from exporter.tflite.rules import find_rule
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.netdef import NetDef

_DEEPEST = 16  # levels of nested graphs
_MOST_REPEATED = 1 << 13  # operators in graphs that other operators run
OnProblem = Callable[[Operation, str], object]


@dataclass
class Allowance:
    """How many more operators may be translated in place of calls.

    Without a limit, a file of a few kilobytes whose graphs call each other several times could expand without end.
    """

    left: int = _MOST_REPEATED

    def spend(self, operations: int) -> None:
        """Count the operators that replace one call. ExportError if the total exceeds the limit."""
        self.left -= operations
        if self.left < 0:
            raise ExportError(f"graphs that run each other expand to more than {_MOST_REPEATED} operators")


@dataclass(frozen=True)
class Options:
    """Options for the whole model. on_problem is called for each node that cannot be translated, instead of raising."""

    file: TfliteFile
    on_problem: Optional[OnProblem] = None
    progress: Optional[Progress] = None
    repeated: Allowance = field(default_factory=Allowance)


class Translator:
    """Translates graphs into the nets of their builders. Nodes see it as ``Subnets``."""

    def __init__(self, options: Options, outer: Optional[Translator] = None):
        self._options = options
        self._depth: int = outer._depth + 1 if outer else 0
        self.variables: Variables = outer.variables if outer else Variables()

    def walk(self, blobs: Blobs) -> None:
        """Translate the operators of a graph whose inputs are bound."""
        operations = blobs.graph.operations
        for index, operation in enumerate(operations):
            if self._options.progress and not self._depth:
                self._options.progress("operators", index, len(operations))
            try:
                node = Node(operation, blobs, self)
                find_rule(node)(node)
            except ArmnetError as error:
                self._refuse(operation, blobs, str(error))

    def _refuse(self, operation: Operation, blobs: Blobs, problem: str) -> None:
        if self._options.on_problem is None:
            outputs = ", ".join(repr(blobs.graph.tensors[index].name) for index in operation.outputs)
            where = f" of graph {blobs.graph.index}" if self._depth else ""
            raise ExportError(f"{operation.title} (operator {operation.index}{where}) -> {outputs}: {problem}")
        self._options.on_problem(operation, problem)
        for tensor in (blobs.graph.tensors[index] for index in operation.outputs):
            if not blobs.is_written(tensor):
                blobs.write(tensor)

    def inline(self, graph: int, inputs: Sequence[str], net: NetBuilder) -> List[str]:
        """Translate a graph in place, on these inputs; the blobs of its outputs."""
        blobs = Blobs(self._graph(graph, len(inputs)), net)
        for index, blob in zip(blobs.graph.inputs, inputs):
            blobs.bind(blobs.graph.tensors[index], blob)
        return self._inside(blobs)

    def branch(self, graph: int, inputs: Sequence[str], net: NetBuilder) -> NetDef:
        """A graph as a sub-net that reads these blobs of the net around it."""
        inner = net.nested()
        outputs = self.inline(graph, inputs, inner)
        return inner.net(self._options.file.graphs[graph].name, (), outputs)

    def _graph(self, index: int, inputs: int) -> Graph:
        graphs = self._options.file.graphs
        if not 0 <= index < len(graphs):
            raise ExportError(f"graph {index} does not exist, there are {len(graphs)}")
        if self._depth >= _DEEPEST:
            raise ExportError(f"graphs are nested more than {_DEEPEST} deep")
        if len(graphs[index].inputs) != inputs:
            raise ExportError(f"graph {index} has {len(graphs[index].inputs)} inputs, {inputs} are given")
        self._options.repeated.spend(len(graphs[index].operations))
        return graphs[index]

    def _inside(self, blobs: Blobs) -> List[str]:
        Translator(self._options, self).walk(blobs)
        return [blobs.read(blobs.graph.tensors[index]) for index in blobs.graph.outputs]
