"""Biases, and weights that are too small to be packed, in float16s, as far as a file is concerned.

They stay float32 in the net and need no operator: a file of narrow nets holds float32s that are float16s in half of the
bytes (``runtime_arm/netdef/narrow.py``). Their errors are a hundredth of those of int8 weights.
"""

from __future__ import annotations

from typing import Callable, Dict

import numpy as np

from optimize.quantization.layers import layer_name
from optimize.quantization.packing.formats import FLOAT32, float16
from optimize.quantization.table import Choice
from optimize.rewriting.program import Program
from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef
from runtime_arm.netdef.narrow import MOST_NARROWED
from runtime_arm.netdef.values import NARROW_TENSORS
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import find


def with_half_constants(program: Program, choose: Callable[[str], Choice]) -> Program:
    """The program in which layers read no float32 constant but what float16 cannot hold, what is too large to be
    stored so, and what a layer reads that was asked to stay float32. choose: what a layer is stored in, by its name."""

    def rounds(op: OperatorDef) -> bool:
        schema = find(op)
        is_layer = schema is not None and schema.multiply_adds is not None
        return is_layer and choose(layer_name(op)).weights != FLOAT32

    updates: Dict[str, Array] = {}
    for name in dict.fromkeys(name for op in program.net.op if rounds(op) for name in op.input):
        value = program.value(name)
        if value is None or value.dtype != np.float32 or value.nbytes > MOST_NARROWED or program.why_named(name):
            continue
        packed = float16(value, 0) if all(rounds(program.net.op[place]) for place in program.readers(name)) else None
        if packed is not None:
            updates[name] = packed.stored["half"].astype(np.float32)
    weights = program.weights.changed(dict.fromkeys(updates)).changed(updates)
    return Program(program.net, weights, program.known_specs, program.outside)


def with_narrow_nets(pair: Pair) -> Pair:
    """The pair whose small tensors take as few bytes as their numbers need. Its init_net names no outputs, which are
    those of its operators anyway."""
    init_net = pair.init_net.replace(external_output=())
    return pair.replace(init_net=_narrow(init_net), predict_net=_narrow(pair.predict_net))


def _narrow(net: NetDef) -> NetDef:
    return net if net.is_narrow else net.replace(arg=(*net.arg, Argument.of(NARROW_TENSORS, 1)))
