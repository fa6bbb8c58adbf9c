"""Gives layers inside branches and bodies names that no other layer of the program has.

A layer is called by its first output (see ``layers``), and blobs of one branch may be called like those of another one,
or of the net around them. A table of layers has one line for each name.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Set

from optimize.quantization.layers import layer_name
from optimize.rewriting.program import Program
from optimize.rewriting.single_assignment import names_in, numbered
from optimize.rewriting.subnets import FUNCTIONAL
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import find


def with_distinct_layers(program: Program) -> Program:
    """The program with new names for what layers inside write, where another layer has theirs. An If then takes the
    outputs of that branch by position. Where a branch leaves some as they were, it cannot, and they keep theirs."""
    layers = {layer_name(op) for op in program.net.op}
    names = {*names_in(program.net), *program.outside, *program.weights.names}
    for place, op in enumerate(program.net.op):
        if op.full_type in FUNCTIONAL:
            changed = _inside(op, layers, names)
            program = program if changed == op else program.with_operator(place, changed, program.weights)
    return program


def _inside(op: OperatorDef, layers: Set[str], names: Set[str]) -> OperatorDef:
    """The operator with such nets. layers, names: those of the program so far, to which its own are added."""
    return _with_nets(op, lambda net: _net(_by_position(net, op, layers, names), set(op.output), layers, names))


def _by_position(net: NetDef, op: OperatorDef, layers: Set[str], names: Set[str]) -> NetDef:
    """A branch that sets the outputs of its If by name, with other names for them if another layer is called like one
    that writes such an output."""
    writes, outside = _writes(net), {*net.external_input, *net.captures()}
    if op.full_type != "If" or any(writes[name] != 1 or name in outside for name in op.output):
        return net
    if not any(_is_layer(one) and one.output[0] in op.output and layer_name(one) in layers for one in net.op):
        return net
    new = [numbered(name, names) for name in op.output]
    for old, name in zip(op.output, new):
        net = _renamed(net, old, name)
    return net.replace(external_output=tuple(new))


def _writes(net: NetDef) -> Counter[str]:
    return Counter(name for op in net.op for name in op.output if name)


def _is_layer(op: OperatorDef) -> bool:
    schema = find(op)
    return schema is not None and schema.multiply_adds is not None and bool(op.output and op.output[0])


def _net(net: NetDef, bound: Set[str], layers: Set[str], names: Set[str]) -> NetDef:
    writes = _writes(net)
    for place, op in enumerate(net.op):
        if op.full_type in FUNCTIONAL:
            ops = (*net.op[:place], _inside(net.op[place], layers, names), *net.op[place + 1 :])
            net = net.replace(op=ops)
        if not _is_layer(op):
            continue
        name = op.output[0]
        if layer_name(op) in layers and writes[name] == 1 and name not in {*bound, *net.external_input}:
            net = _renamed(net, name, numbered(name, names))
        layers.add(layer_name(net.op[place]))
    return net


def _renamed(net: NetDef, old: str, new: str) -> NetDef:
    """The net in which a blob that it writes has another name, in the nets that read it, too."""

    def named(name: str) -> str:
        return new if name == old else name

    def inside(net: NetDef) -> NetDef:
        return _renamed(net, old, new) if old in net.captures() else net

    ops = tuple(
        _with_nets(
            op.replace(
                input=tuple(map(named, op.input)),
                output=tuple(map(named, op.output)),
                control_input=tuple(map(named, op.control_input)),
            ),
            inside,
        )
        for op in net.op
    )
    return net.replace(op=ops, external_output=tuple(map(named, net.external_output)))


def _with_nets(op: OperatorDef, change: Callable[[NetDef], NetDef]) -> OperatorDef:
    return op.replace(arg=tuple(arg if arg.n is None else arg.replace(n=change(arg.n)) for arg in op.arg))
