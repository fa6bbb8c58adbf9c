"""Translates the operators of a net into the nodes of an ONNX graph, each by its rule."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from onnx import helper

from exporter.to_onnx.call import Call
from exporter.to_onnx.graph import Graph
from exporter.to_onnx.operand import Known, Operand, Results, constant_value, inferred
from exporter.to_onnx.qdq import find_qdq_rule
from exporter.to_onnx.rules import find_rule
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import NetDef, OperatorDef

NO_EQUIVALENT = "ONNX has no operators that mean the same"
LARGEST_FOLDED = 1 << 26  # bytes of a result that is known before the net runs


class Translator:
    """Translates one net into one graph. Rules see it as ``call.Translates``."""

    def __init__(self, graph: Graph, qdq: bool = False):
        """qdq: whether TFLite's operators on integers get ONNX's QDQ form."""
        self.graph = graph
        self._qdq = qdq

    def nested(self) -> Translator:
        """A translator into a graph inside this one."""
        return Translator(self.graph.nested(), self._qdq)

    def add_net(self, net: NetDef) -> None:
        """Translate every operator of a net whose inputs are defined. OperatorError if ONNX has no equivalent."""
        self.graph.expect(name for op in net.op for name in op.output)
        for op in net.op:
            self._add(op)

    def results(self, op: OperatorDef, operands: Sequence[Operand]) -> Results:
        """Add the nodes of an operator; the names of its results, which are not bound to blobs yet."""
        rule = (find_qdq_rule(op.full_type) if self._qdq else None) or find_rule(op)
        if rule is None:
            raise ExportError(NO_EQUIVALENT)
        return rule(Call(op, operands, self))

    def _add(self, op: OperatorDef) -> None:
        operands = [self.graph.operand(blob) for blob in op.input]
        known = inferred(op, operands)
        start = len(self.graph.nodes)
        try:
            results = self.results(op, operands)
        except ArmnetError as error:
            self.graph.discard(start)
            constant = self._folded(op, known)
            if constant is None:
                raise error if isinstance(error, OperatorError) else OperatorError(op, str(error)) from error
            results = constant
        self._bind(op, known, results, start)

    def _folded(self, op: OperatorDef, known: Sequence[Known]) -> Optional[Results]:
        """The outputs as constants, if all that are read are known and the same for all open sizes."""
        names: List[Optional[str]] = []
        for blob, specs in zip(op.output, known):
            value = constant_value(specs) if self.graph.wants(blob) else None
            if self.graph.wants(blob) and (value is None or value.nbytes > LARGEST_FOLDED):
                return None
            names.append(None if value is None else self.graph.constant(f"{blob}_constant", value))
        return names

    def _bind(self, op: OperatorDef, known: Sequence[Known], results: Results, start: int) -> None:
        """Bind the outputs to the results; the nodes from ``start`` on then write under the outputs' own names."""
        graph = self.graph
        found = [results] if isinstance(results, str) else list(results)
        made = {name for node in graph.nodes[start:] for name in node.output}
        renamed: Dict[str, str] = {}
        for blob, specs, result in zip(op.output, known, found):
            if not blob or not result:
                continue
            name = graph.write(blob, specs)
            if result in made:
                made.remove(result)
                renamed[result] = name
                if result in graph.channels_first:
                    graph.channels_first[name] = graph.channels_first.pop(result)
            else:
                graph.nodes.append(helper.make_node("Identity", [renamed.get(result, result)], [name]))
        graph.rename(start, renamed)
