"""Checks that an ONNX graph can run: every name has exactly one producer, and the nodes can be ordered."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Callable, Dict, Iterable, Iterator, List, Sequence, Set, Tuple, Union

from exporter.onnx.protos import FunctionProto, GraphProto, NodeProto
from runtime_arm.errors import ExportError

NOWHERE = "which is neither an input nor an initializer nor a node's output"


def title(node: NodeProto) -> str:
    """``node 'name' (Type)`` for messages; an unnamed node goes by its first output."""
    name = node.name or next((output for output in node.output if output), "")
    return f"node {name!r} ({node.domain + '.' if node.domain else ''}{node.op_type})"


def every_node(graph: Union[GraphProto, FunctionProto]) -> Iterator[NodeProto]:
    """The nodes of a graph or function and of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from every_node(inner)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.g is not None:
            yield attribute.g
        yield from attribute.graphs


def reads(node: NodeProto) -> Set[str]:
    """The names that a node needs: its inputs and what its graphs take from outside."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        names |= captured(graph)
    return names


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> Tuple[List[NodeProto], Set[str]]:
    """The nodes, given in order, that the outputs need, and every name that is read to compute them."""
    kept, names = [], set(outputs)
    for node in reversed(nodes):
        if not names.isdisjoint(node.output):
            kept.append(node)
            names |= reads(node)
    return kept[::-1], names


def captured(graph: GraphProto) -> Set[str]:
    """The names that a graph takes from outside."""
    own = set(defined(graph))
    needed = {output.name for output in graph.output}
    for node in graph.node:
        own.update(node.output)
        needed |= reads(node)
    return needed - own


def defined(graph: GraphProto) -> List[str]:
    """The names that a graph has before any node runs."""
    names = [value.name for value in graph.input]
    names += [tensor.name for tensor in graph.initializer]
    names += [tensor.values.name for tensor in graph.sparse_initializer]
    return names


def require_distinct(graph: GraphProto) -> None:
    """ExportError unless all initializers, and all inputs, have names of their own."""
    weights = [tensor.name for tensor in graph.initializer]
    weights += [tensor.values.name for tensor in graph.sparse_initializer]
    for what, names in (("initializer", weights), ("input", [value.name for value in graph.input])):
        name, count = Counter(names).most_common(1)[0] if names else ("", 0)
        if count > 1 or "" in names:
            raise ExportError(f"{what} {name!r} is defined twice" if count > 1 else f"an {what} has no name")


def ordered(nodes: Sequence[NodeProto], available: Iterable[str], is_outside: Callable[[str], bool]) -> List[NodeProto]:
    """The nodes in an order in which they can run; the file's own order if it is one.

    available: the names that exist before any node runs. is_outside: whether a surrounding graph has the name.
    ExportError if a name has two producers or none, or if nodes wait for each other.
    """
    own = set(available)
    producers: Dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producers or name in own:
                other = title(nodes[producers[name]]) if name in producers else "an input or initializer"
                raise ExportError(f"{title(node)}: writes {name!r}, which {other} writes too")
            producers[name] = index
    waiting: List[Set[int]] = []
    for node in nodes:
        needed = reads(node) - own
        missing = sorted(name for name in needed if name not in producers and not is_outside(name))
        if missing:
            raise ExportError(f"{title(node)}: reads {missing[0]!r}, {NOWHERE}")
        waiting.append({producers[name] for name in needed if name in producers})
    if all(max(before, default=-1) < index for index, before in enumerate(waiting)):
        return list(nodes)
    return [nodes[index] for index in _sorted(nodes, waiting)]


def _sorted(nodes: Sequence[NodeProto], waiting: Sequence[Set[int]]) -> List[int]:
    """Kahn's algorithm; among nodes that are ready, the first in the file comes first."""
    users: List[List[int]] = [[] for _ in nodes]
    for index, before in enumerate(waiting):
        for other in before:
            users[other].append(index)
    left = [len(before) for before in waiting]
    ready = [index for index, count in enumerate(left) if not count]
    order: List[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for user in users[order[-1]]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        stuck = next(index for index, count in enumerate(left) if count)
        raise ExportError(f"{title(nodes[stuck])}: the graph is cyclic: the node depends on its own output")
    return order
