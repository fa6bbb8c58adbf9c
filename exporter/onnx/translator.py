"""Walks ONNX graphs and hands each node to its rule; sub-graphs and functions are walked the same way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from exporter.common.builder import NetBuilder
from exporter.common.options import Progress
from exporter.common.rules import MISSING
from exporter.onnx.definitions import function_body, undefined
from exporter.onnx.functions import Body, Functions
from exporter.onnx.narrow import format_of, narrowed, round_to, store
from exporter.onnx.node import Known, Node, Operators, attributes_of, known_of
from exporter.onnx.protos import GraphProto, NodeProto, TensorProto, ValueInfoProto
from exporter.onnx.rules import find_rule
from exporter.onnx.structure import defined, needed, ordered, require_distinct, title
from exporter.onnx.upgrade import upgraded
from exporter.onnx.weights import BLOB_DTYPES, NARROW, Weights
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import find, lookup

FOREIGN = "Caffe2 has no operator that means the same"
NEWEST_OPSET = 28
_RESULTS: Dict[str, Any] = {  # the data types of results
    **dict.fromkeys(("ArgMax", "ArgMin", "NonZero", "Shape", "Size"), np.int64),
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"), np.bool_),
    **dict.fromkeys(("Not", "Or", "Xor"), np.bool_),
}
_DEEPEST = 32  # levels of nested graphs and functions
OnProblem = Callable[[NodeProto, str], None]


@dataclass(frozen=True)
class Options:
    """Options for the whole model. on_problem is called for each node that cannot be translated, instead of raising."""

    weights: Weights
    functions: Functions
    caffe2_compatible: bool = False
    on_problem: Optional[OnProblem] = None
    progress: Optional[Progress] = None


class Scope:
    """The blobs behind the names of a graph or function. The outermost graph, at depth 0, keeps its names."""

    def __init__(self, net: NetBuilder, opsets: Mapping[str, int], outer: Optional[Scope] = None, depth: int = 0):
        self.net = net
        self.opsets = opsets
        self.depth = depth
        self.hints: Dict[str, Known] = {}
        self.is_definition = False
        self._outer = outer
        self._blobs: Dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Whether this graph or one around it knows the name."""
        return name in self._blobs or (self._outer is not None and self._outer.has(name))

    def blob(self, name: str) -> str:
        """The blob behind a name; the empty name for an input or output that is left out."""
        if not name:
            return ""
        if name in self._blobs:
            return self.net.resolve(self._blobs[name]) if self._blobs[name] else ""
        if self._outer is None:
            raise ExportError(f"{name!r} is neither an input nor an initializer nor a node's output")
        return self._outer.blob(name)

    def bind(self, name: str, blob: str) -> None:
        """Make a name refer to a blob."""
        self._blobs[name] = blob

    def define(self, name: str) -> str:
        """The blob that a node is about to write under this name."""
        if not name:
            return ""
        if name not in self._blobs:
            self._blobs[name] = self.net.fresh(name) if self.depth else name
        if name in self.hints:
            self.net.hint(self._blobs[name], *self.hints[name])
        return self._blobs[name]


def read_hints(graph: GraphProto) -> Dict[str, Known]:
    """The types and shapes that the graph declares for its outputs."""
    return {value.name: known_of(value) for value in graph.output}


def declare(value: ValueInfoProto, scope: Scope, names: Sequence[Optional[str]], rounds: bool) -> None:
    """Declare an input of the outermost graph, with the names of its open sizes.

    rounds: numbers that are fed for a narrow type are rounded to it; otherwise such inputs are refused.
    """
    blob, format = scope.define(value.name), format_of(value)
    scope.net.input(blob, *known_of(value), names)
    if format and not rounds:
        raise ExportError(f"{value.name!r}: Caffe2 has no {format}")
    if format:
        target = scope.net.fresh(f"{blob}_rounded")
        scope.net.add(round_to(scope.net, blob, target, format))
        scope.bind(value.name, target)


class Translator:
    """Translates graphs into the nets of their scopes' builders."""

    def __init__(self, options: Options):
        self._options = options

    def walk(self, graph: GraphProto, scope: Scope) -> None:
        """Translate the initializers and nodes of a graph whose inputs are bound; its outputs are bound afterwards."""
        weights = self._options.weights
        require_distinct(graph)
        nodes, names = needed(ordered(graph.node, defined(graph), scope.has), [value.name for value in graph.output])
        for tensor in graph.initializer:
            if tensor.data_type in BLOB_DTYPES or tensor.name in names:
                self._initializer(tensor, scope)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            scope.net.constant(scope.define(name), weights.sparse(sparse, f"initializer {name!r}"))
        for index, node in enumerate(nodes):
            if self._options.progress and not scope.depth:
                self._options.progress("operators", index, len(nodes))
            self._translate(node, scope)

    def _translate(self, proto: NodeProto, scope: Scope) -> None:
        try:
            node = self._node(proto, scope)
            own = self._options.functions.body(proto)
            if own is not None:
                return self._expand(node, own, scope)
            if scope.is_definition:  # what it returns is rounded, and nothing inside
                return self._replace(node, proto, scope)
            node, rounding = narrowed(node, proto)
            self._replace(node, proto, scope)
            self._add(rounding, node.net)
        except ArmnetError as error:
            self._refuse(proto, scope, str(error))

    def _replace(self, node: Node, proto: NodeProto, scope: Scope) -> None:
        """Add operators that compute the node."""
        _hint_result(node)
        operators = None
        for candidate in self._candidates(node):
            if self._fit(candidate, node.net):
                return self._add(candidate, node.net)
            operators = operators or candidate
        body = function_body(node, proto)
        if body is not None:
            strict = Translator(replace(self._options, on_problem=None))
            return strict._expand(node, body, scope, is_definition=True)  # a problem inside is reported for the call
        if operators is None:
            raise ExportError(FOREIGN if self._options.caffe2_compatible else MISSING + undefined(node))
        self._add(operators, node.net)  # raises, saying why the operator does not fit

    def _initializer(self, tensor: TensorProto, scope: Scope) -> None:
        weights, what, name = self._options.weights, f"initializer {tensor.name!r}", scope.define(tensor.name)
        if tensor.data_type in NARROW and not self._options.caffe2_compatible:
            store(scope.net, name, tensor, weights, what)
        else:
            scope.net.constant(name, weights.array(tensor, what))

    @staticmethod
    def _add(operators: Operators, net: NetBuilder) -> None:
        for op in operators:
            net.add(op)

    def _refuse(self, proto: NodeProto, scope: Scope, problem: str) -> None:
        if self._options.on_problem is None:
            version = scope.opsets.get(_domain(proto.domain), 0)
            raise ExportError(f"{title(proto)}, opset {version}: {problem}")
        self._options.on_problem(proto, problem)
        for name in filter(None, proto.output):
            scope.net.forget(scope.define(name))

    def _node(self, proto: NodeProto, scope: Scope) -> Node:
        domain = _domain(proto.domain)
        if domain not in scope.opsets:
            raise ExportError(f"the model does not import an opset of the domain {domain or 'ai.onnx'!r}")
        return Node(
            proto.op_type,
            domain,
            scope.opsets[domain],
            proto.name,
            tuple(map(scope.blob, proto.input)),
            tuple(map(scope.define, proto.output)),
            attributes_of(proto, self._options.weights),
            scope.net,
            partial(self._subnet, scope),
            partial(self._inline, scope),
            self._options.caffe2_compatible,
        )

    def _candidates(self, node: Node) -> Iterator[Operators]:
        """Registered operators that may compute the node: what its rule returns, then ONNX's operator of that name."""
        newest = upgraded(node)
        rule = find_rule(newest)
        by_rule = rule(newest) if rule else None
        if by_rule is not None and all(map(self._exists, by_rule)):
            yield by_rule
        if by_rule is None or len(by_rule) == 1:
            own = newest.as_onnx()
            if self._exists(own):
                yield [own]

    def _exists(self, op: OperatorDef) -> bool:
        return find(op) is not None and not (op.domain and self._options.caffe2_compatible)

    def _fit(self, operators: Operators, net: NetBuilder) -> bool:
        """Whether all accept their inputs. If a data type is unknown, only ONNX's operators are sure to accept it."""
        for op in operators:
            dtypes = lookup(op).dtypes
            dtype = net.dtype(op.input[0]) if op.input and op.input[0] else None
            if dtypes and (not op.domain if dtype is None else dtype.name not in dtypes):
                return False
        return all(map(net.accepts, operators))

    def _expand(self, node: Node, body: Body, scope: Scope, is_definition: bool = False) -> None:
        """Translate the nodes of a function in place of its call."""
        opsets = {
            "": NEWEST_OPSET,
            **scope.opsets,
            **{_domain(domain): version for domain, version in body.opsets.items()},
        }
        inner = Scope(scope.net, opsets, None, scope.depth + 1)
        inner.is_definition = is_definition or scope.is_definition
        _refuse_depth(inner)
        for formal, blob in zip(body.inputs, [*node.inputs, *[""] * len(body.inputs)]):
            inner.bind(formal, blob)
        for formal, blob in zip(body.outputs, node.outputs):
            if blob:
                inner.bind(formal, blob)
        wanted = [formal for formal, blob in zip(body.outputs, node.outputs) if blob]
        nodes, _ = needed(ordered(body.nodes, body.inputs, inner.has), wanted)
        for child in nodes:
            self._translate(child, inner)
        for formal, blob in zip(body.outputs, node.outputs):
            if blob and inner.blob(formal) != scope.net.resolve(blob):
                scope.net.alias(blob, inner.blob(formal))

    def _subnet(self, scope: Scope, graph: GraphProto) -> NetDef:
        """A graph attribute as a net of its own, whose inputs are the graph's."""
        inner = _entered(graph, Scope(scope.net.nested(), scope.opsets, scope, scope.depth + 1))
        inputs = [inner.define(value.name) for value in graph.input]
        for blob, value in zip(inputs, graph.input):
            inner.net.input(blob, *known_of(value))
            if format_of(value):
                inner.net.note_format(blob, str(format_of(value)))
        self.walk(graph, inner)
        return inner.net.net(graph.name, inputs, [inner.blob(output.name) for output in graph.output])

    def _inline(self, scope: Scope, graph: GraphProto) -> List[str]:
        """Translate a graph attribute without inputs in place; the blobs of its outputs."""
        inner = _entered(graph, Scope(scope.net, scope.opsets, scope, scope.depth + 1))
        self.walk(graph, inner)
        return [inner.blob(output.name) for output in graph.output]


def _hint_result(node: Node) -> None:
    """Record the data type of an operator's result that does not depend on its inputs, which may be unknown."""
    if node.domain or not node.wants(0):
        return
    dtype = node.get_dtype("to") if node.type == "Cast" and node.version >= 6 else _RESULTS.get(node.type)
    if dtype is not None and node.net.dtype(node.outputs[0]) is None:
        node.net.hint(node.outputs[0], np.dtype(dtype), node.net.dims(node.outputs[0]))


def _entered(graph: GraphProto, scope: Scope) -> Scope:
    _refuse_depth(scope)
    scope.hints = read_hints(graph)
    return scope


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _refuse_depth(scope: Scope) -> None:
    if scope.depth > _DEEPEST:
        raise ExportError(f"graphs and functions are nested more than {_DEEPEST} deep")
