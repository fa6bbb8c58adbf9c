"""Translates the operators of a net into the operations of a TFLite graph, each by its rule."""

from __future__ import annotations

from itertools import zip_longest
from typing import Dict, List, Optional, Sequence

from exporter.to_tflite.call import Call
from exporter.to_tflite.graph import Graph, Operand
from exporter.to_tflite.rules import find_rule
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import DataDependent, lookup
from runtime_arm.registry.shape_inference import infer_operator

NO_EQUIVALENT = "TFLite has no operators that mean the same"


class Translator:
    """Translates one net into one graph. Rules see it as ``call.Translates``."""

    def __init__(self, graph: Graph, blobs: Dict[str, Operand]):
        self.graph = graph
        self.blobs = blobs

    def add_net(self, net: NetDef) -> None:
        """Translate every operator of a net whose inputs are defined. OperatorError if TFLite has no equivalent."""
        for op in net.op:
            try:
                found = self.results(op, [self.blobs[name] if name else None for name in op.input])
            except ArmnetError as error:
                raise error if isinstance(error, OperatorError) else OperatorError(op, str(error)) from error
            self.blobs.update({name: operand for name, operand in zip(op.output, found) if name and operand})

    def results(self, op: OperatorDef, operands: Sequence[Optional[Operand]]) -> List[Optional[Operand]]:
        """What holds the outputs of an operator on these operands; constants if they are known before a run."""
        if lookup(op).control:
            return self._of_nets(op, operands)
        try:
            outputs = infer_operator(op, [None if operand is None else operand.spec for operand in operands])[1]
        except DataDependent as error:
            raise ExportError("the sizes of its results are not known before it runs") from error
        if any(spec.value is None for name, spec in zip(op.output, outputs) if name in self.graph.wanted):
            rule = find_rule(op)
            if rule is None:
                raise ExportError(NO_EQUIVALENT)
            results = rule(Call(op, operands, outputs, self))
            found = [results] if isinstance(results, Operand) else list(results)
            return [one or Operand(spec) for one, spec in zip_longest(found, outputs) if spec is not None]
        return [Operand(spec) for spec in outputs]

    def _of_nets(self, op: OperatorDef, operands: Sequence[Optional[Operand]]) -> List[Optional[Operand]]:
        """The same for an operator that runs nets; its rule finds out what its outputs are."""
        schema = lookup(op)
        given = [None if operand is None else operand.spec for operand in operands]
        branch = schema.branch(op, given) if schema.branch is not None else None
        if branch is not None:
            self.graph.wanted.update(name for inner in branch.net.op for name in inner.reads())
            self.graph.wanted.update(branch.net.external_output)
            self.add_net(branch.net)
            return [self.blobs[branch.outputs[name]] if name else None for name in op.output]
        rule = find_rule(op)
        if rule is None:
            raise ExportError(NO_EQUIVALENT)
        results = rule(Call(op, operands, [], self))
        return [results] if isinstance(results, Operand) else list(results)

    def into(self, graph: Graph, blobs: Dict[str, Operand]) -> Translator:
        """A translator into another graph of the model, which has these blobs."""
        return Translator(graph, blobs)
