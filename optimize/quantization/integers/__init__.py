"""Rewrites a net from floats to TensorFlow Lite's quantised integers."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from optimize.quantization.calibration import Calibration, Range
from optimize.quantization.integers import elementwise, layout, pictures, products  # noqa: F401 - they declare rules
from optimize.quantization.integers.layout import SAME_SCALE, averages_all
from optimize.quantization.integers.net import IntegerNet, Precision, Scale
from optimize.quantization.integers.rules import RULES
from optimize.quantization.layers import layers_at
from optimize.rewriting.program import Program
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair


class Integers(NamedTuple):
    """A pair on integers. kept: operators that stay on floats, with the reasons. noise: signal-to-noise ratio of the
    weights of each layer on integers, in dB."""

    pair: Pair
    kept: Sequence[Tuple[OperatorDef, str]]
    noise: Mapping[str, float]


def blobs_to_calibrate(program: Program) -> List[str]:
    """The float32 blobs that operators with a rule read or write."""
    names: Dict[str, None] = {}
    for op in program.net.op:
        if op.full_type in RULES:
            names.update(dict.fromkeys((*op.input, *op.output[:1])))
    return [name for name in names if name and name not in program.weights and _is_float(program, name)]


def _is_float(program: Program, name: str) -> bool:
    specs = [spec for spec in program.specs(name) if spec is not None]
    return bool(specs) and all(spec.dtype == np.float32 for spec in specs) and not program.is_rewritten(name)


def shared_scales(program: Program, ranges: Mapping[str, Range], dtype: Any) -> Dict[str, Scale]:
    """A scale for every blob. Blobs that an operator only moves have one: that of the range of all of them."""
    group = {name: name for name in ranges}

    def leader(name: str) -> str:
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    for op in program.net.op:
        if op.full_type in SAME_SCALE and not averages_all(program, op):
            members = [name for name in (*op.input, *op.output[:1]) if name in ranges]
            for name in members[1:]:
                group[leader(name)] = leader(members[0])
    whole: Dict[str, Range] = {}
    for name, one in ranges.items():
        held = whole.get(leader(name), one)
        whole[leader(name)] = Range(min(held.low, one.low), max(held.high, one.high))
    return {name: Scale.holding(whole[leader(name)], dtype) for name in ranges}


def to_integers(
    program: Program,
    like: Pair,
    measured: Calibration,
    wanted: Callable[[OperatorDef], bool],
    precision: Precision,
) -> Integers:
    """The pair on integers. wanted: whether an operator shall compute on them. Inputs and outputs of the net stay
    floats, and so do floats that no layer on integers reads."""
    scales = shared_scales(program, measured.ranges, precision.dtype)
    net = IntegerNet(program, scales, measured.means, precision)
    kept: List[Tuple[OperatorDef, str]] = []
    leading = _leading_to_layers(program, wanted)
    outputs = set(program.net.external_output)

    def reason_to_keep(place: int, op: OperatorDef) -> Optional[str]:
        """Why an operator stays float; None if its rule has put it on integers."""
        rule = RULES.get(op.full_type)
        if rule is None:
            return "it has no quantised form"
        if not wanted(op):
            return "it was asked to stay float"
        if any(name not in net.scales for name in op.output[:1]):
            return "its range is not known"
        if place not in leading and _reads_floats(net, op):
            return "it reads floats, and no integer layer reads its result"
        if any(program.readers(name) or name in outputs for name in op.output[1:]):
            return "its second output is used"
        return rule(net, op)

    for place, op in enumerate(program.net.op):
        if place in net.done:
            continue
        reason = reason_to_keep(place, op)
        if reason is not None:
            net.keep(op)
            kept.append((op, reason))
    new, weights = net.finished()
    return Integers(like.replace(init_net=weights.init_net, predict_net=new).check(), kept, net.noise)


def _leading_to_layers(program: Program, wanted: Callable[[OperatorDef], bool]) -> AbstractSet[int]:
    """The places of the layers that shall compute on integers, and of operators whose results these read, perhaps after
    others."""
    places: Set[int] = set()
    read: Set[str] = set()
    for place in range(len(program.net.op) - 1, -1, -1):
        op = program.net.op[place]
        layer = any(layers_at(program, place, least=1))
        if op.full_type in RULES and wanted(op) and (layer or not read.isdisjoint(op.output)):
            places.add(place)
            read.update(op.input)
    return places


def _reads_floats(net: IntegerNet, op: OperatorDef) -> bool:
    """Whether an operand is no constant and has no integers yet."""
    return any(name in net.scales and name not in net.twins for name in op.input)
