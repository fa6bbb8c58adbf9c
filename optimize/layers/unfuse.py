"""Splits fused operators into their parts, for gradients and for formats that do not have them.

A fused operator is a layer, perhaps an addition, perhaps an activation. The blobs between them get names of their own:
``Y_layer`` and ``Y_sum``.
"""

from __future__ import annotations

from typing import Iterator, List, Set, Tuple

from optimize.layers.fused import without_activation
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import find


def unfused(net: NetDef) -> NetDef:
    """The net with every fused operator as the operators that it consists of."""
    if not any(_is_fused(op) for op in net.op):
        return net
    taken = {name for op in net.op for name in (*op.input, *op.output)}
    return net.replace(op=tuple(part for op in net.op for part in _parts(op, taken)))


def _is_fused(op: OperatorDef) -> bool:
    schema = find(op)
    return schema is not None and schema.fusion is not None


def _parts(op: OperatorDef, taken: Set[str]) -> Iterator[OperatorDef]:
    if not _is_fused(op):
        yield op
        return
    before, activation = without_activation(op)
    y = op.output[0]
    if activation is not None:
        total = _free(f"{y}_sum", taken)
        before = before.replace(output=(total,))
        activation = activation.replace(input=(total, *activation.input[1:]))
    yield from _without_addend(before, y, taken) if _is_fused(before) else [before.replace(input=_given(before.input))]
    if activation is not None:
        yield activation


def _without_addend(op: OperatorDef, y: str, taken: Set[str]) -> List[OperatorDef]:
    """The layer and the addition of a fused operator without an activation."""
    schema = find(op)
    assert schema is not None
    assert schema.fusion is not None
    count = len(op.input) if schema.fusion.addend is None else schema.fusion.addend
    addends = [name for name in op.input[count:] if name]
    layer = op.replace(type=schema.fusion.layer, domain="", input=_given(op.input[:count]))
    if not addends:
        return [layer]
    result = _free(f"{y}_layer", taken)
    return [layer.replace(output=(result,)), OperatorDef.of("Add", [result, addends[0]], op.output)]


def _given(inputs: Tuple[str, ...]) -> Tuple[str, ...]:
    """The inputs without those at the end that are left out."""
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return inputs


def _free(name: str, taken: Set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
