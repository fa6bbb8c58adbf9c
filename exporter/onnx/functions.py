"""Operators that are defined by other operators: the functions in a model file, and their bodies."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from exporter.onnx.protos import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto
from exporter.onnx.structure import every_node
from runtime_arm.errors import ExportError

MOST_NODES = 1 << 18  # in a model whose functions are expanded

Key = Tuple[str, str, str]  # domain, name, overload


class Body(NamedTuple):
    """The nodes that replace a call, over formal inputs and outputs, with the opsets that they use."""

    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    nodes: Sequence[NodeProto]
    opsets: Mapping[str, int]


class Functions:
    """The functions of a model. ExportError if they call each other in circles or too often."""

    def __init__(self, model: ModelProto):
        self._functions = {(one.domain, one.name, one.overload): one for one in model.functions}
        self._refuse_recursion(model.graph)

    def body(self, call: NodeProto) -> Optional[Body]:
        """The body of the function that the node calls, if it is a function of the model, else None."""
        function = self._functions.get(_called(call))
        return None if function is None else body_of(function, call.attribute)

    def every_node(self, graph: Union[GraphProto, FunctionProto]) -> Iterator[NodeProto]:
        """The nodes of a graph and of the graphs inside it, with calls replaced by the nodes of their functions."""
        for node in every_node(graph):
            function = self._functions.get(_called(node))
            if function is None:
                yield node
            else:
                yield from self.every_node(function)

    def _refuse_recursion(self, graph: Optional[GraphProto]) -> None:
        called = {key: _calls(function) for key, function in self._functions.items()}
        sizes: Dict[Key, int] = {}  # nodes of a function after all calls in it are expanded
        while True:
            ready = [
                key
                for key, calls in called.items()
                if key not in sizes and not (calls.keys() & called.keys()) - sizes.keys()
            ]
            if not ready:
                break
            sizes.update({key: _size(called[key], sizes) for key in ready})
        circle: List[str] = sorted(f"{domain}.{name}" for domain, name, _ in called.keys() - sizes.keys())
        if circle:
            raise ExportError(f"the functions {', '.join(circle)} call each other in circles")
        size = 0 if graph is None or not called else _size(_calls(graph), sizes)
        if size > MOST_NODES:
            raise ExportError(f"its functions expand to {size} nodes; the limit is {MOST_NODES}")


def body_of(function: FunctionProto, attributes: Iterable[AttributeProto]) -> Body:
    """The function with these attributes; if a name occurs twice, the last one counts."""
    given = {attribute.name: attribute for attribute in [*function.attribute_proto, *attributes]}
    nodes = [_bound(node, given) for node in function.node]
    opsets = {opset.domain: opset.version for opset in function.opset_import}
    return Body(function.input, function.output, nodes, opsets)


def _bound(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """The node with references to the caller's attributes resolved; those that the caller lacks are left out."""
    bound = []
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        graph = source.g
        if graph is not None:
            graph = graph.replace(node=tuple(_bound(child, given) for child in graph.node))
        bound.append(source.replace(name=attribute.name, g=graph))
    return node.replace(attribute=tuple(bound))


def _called(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _calls(body: Union[GraphProto, FunctionProto]) -> Mapping[Key, int]:
    """The number of nodes of each type, inner graphs included."""
    return Counter(map(_called, every_node(body)))


def _size(calls: Mapping[Key, int], sizes: Mapping[Key, int]) -> int:
    return sum(count * sizes.get(key, 1) for key, count in calls.items())
