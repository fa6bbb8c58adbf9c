"""Short names for constants whose own names are so long that they take a notable share of a pair's bytes.

TensorFlow's converter joins the names of all that it fused: some 200 characters for a bias of 16 numbers. Each name
occurs twice in both files. In MLPerf Tiny's networks with int8 weights this takes 5 to 10 % of the bytes. Other names
take less than 1 %; they stay, so that a layer's weights can be found by name.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from optimize.memonger import renamed
from optimize.rewriting.program import Program
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import find

LONGEST = 28  # characters of a name that stays


def with_short_names(pair: Pair) -> Pair:
    """The pair with new names, ``c1``, ``c2``, ..., for constants, and for the floats that packed ones become, if their
    own are longer than ``LONGEST``. Constants that sub-nets mention keep their names.
    """
    program = Program.of(pair)
    unpacking = (op for op in program.net.op if (schema := find(op)) is not None and schema.unpacks)
    stored: List[str] = [name for op in pair.init_net.op for name in op.output]
    names: Dict[str, str] = {}
    for name in dict.fromkeys((*stored, *(op.output[0] for op in unpacking))):
        if len(name) > LONGEST and program.why_named(name) is None:
            names[name] = program.fresh(f"c{len(names) + 1}")
    return pair.replace(init_net=_renamed(pair.init_net, names), predict_net=_renamed(pair.predict_net, names))


def _renamed(net: NetDef, names: Dict[str, str]) -> NetDef:
    def short(edge: Sequence[str]) -> Tuple[str, ...]:
        return tuple(names.get(name, name) for name in edge)

    edges = {"external_input": short(net.external_input), "external_output": short(net.external_output)}
    return renamed(net, names).replace(**edges)
