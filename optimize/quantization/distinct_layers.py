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
    """The program with new names for what layers inside write, where another layer has theirs. Blobs that an operator
    takes from its nets by name keep theirs."""
    layers = {layer_name(op) for op in program.net.op}
    names = {*names_in(program.net), *program.outside, *program.weights.names}
    for place, op in enumerate(program.net.op):
        if op.full_type in FUNCTIONAL:
            changed = _inside(op, layers, names)
            program = program if changed == op else program.with_operator(place, changed, program.weights)
    return program


def _inside(op: OperatorDef, layers: Set[str], names: Set[str]) -> OperatorDef:
    """The operator with such nets. layers, names: those of the program so far, to which its own are added."""
    return _with_nets(op, lambda net: _net(net, set(op.output), layers, names))


def _net(net: NetDef, bound: Set[str], layers: Set[str], names: Set[str]) -> NetDef:
    writes = Counter(name for op in net.op for name in op.output if name)
    for place, op in enumerate(net.op):
        if op.full_type in FUNCTIONAL:
            ops = (*net.op[:place], _inside(net.op[place], layers, names), *net.op[place + 1 :])
            net = net.replace(op=ops)
        schema, (name, *_) = find(op), (*op.output, "")
        if schema is None or schema.multiply_adds is None or not name:
            continue
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
