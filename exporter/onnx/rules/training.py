"""ONNX's Gradient, which becomes the operators that compute it."""

from __future__ import annotations

from typing import Dict, List, Sequence

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef, OperatorDef


def _between(operators: Sequence[OperatorDef], sources: Sequence[str], y: str) -> List[OperatorDef]:
    """The operators that lead to y, without those behind the sources."""
    wanted, kept = {y}, []
    for op in reversed(operators):
        if not wanted.isdisjoint(op.output):
            kept.append(op)
            wanted.update(name for name in op.input if name not in sources)
    return kept[::-1]


@rule("ai.onnx.preview.training.Gradient")
def gradient(node: Node) -> Operators:
    """The gradients of y with respect to each blob of xs; blobs of zs stay constant."""
    from optimize.gradients import add_gradient_operators

    given = [node.attributes.get(name, []) for name in ("xs", "zs")]
    xs, zs = ([node.net.resolve(name) for name in names] for names in given)
    y = node.net.resolve(node.get_str("y"))
    if [node.net.resolve(name) for name in node.inputs] != [*xs, *zs]:
        raise ExportError("the inputs must be the blobs that xs and zs name")
    forward = _between(node.net.operators(), [*xs, *zs], y)
    if not forward:
        raise ExportError(f"no operator of this graph makes {y!r}")
    net, gradients = add_gradient_operators(NetDef("", tuple(forward)), [y])
    missing = [x for x in xs if not isinstance(gradients.get(x), str)]
    if missing:
        raise ExportError(f"{y!r} has no gradient with respect to {', '.join(missing)}")
    behind = net.op[len(forward) :]
    names: Dict[str, str] = {name: node.fresh(name) for op in behind for name in op.output if name}
    for x, output in zip(xs, node.outputs):
        names[str(gradients[x])] = output or names[str(gradients[x])]
    return [_renamed(op, names) for op in behind]


def _renamed(op: OperatorDef, names: Dict[str, str]) -> OperatorDef:
    inputs, outputs = (tuple(names.get(name, name) for name in blobs) for blobs in (op.input, op.output))
    return op.replace(input=inputs, output=outputs)
