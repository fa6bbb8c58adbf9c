"""Merges 1x1 convolutions that read the same blob into one, whose output is split.

One product of larger matrices is faster if the parts are small, but splitting the output of a batch copies. So this
pass runs only on request.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Tuple

import numpy as np

from optimize.layers.linear import CONVOLUTIONS_AND_FUSED, Layer
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import Argument, Array, OperatorDef
from runtime_arm.operators.common.windows import caffe2_list

_Key = Tuple[str, OperatorDef]


def _parallel(program: Program, start: int) -> Iterator[Match]:
    groups: Dict[_Key, List[int]] = {}
    for place, op in enumerate(program.net.op):
        if op.full_type in CONVOLUTIONS_AND_FUSED and len(op.input) <= 3 and _is_pointwise(op):
            geometry = op.replace(input=(), output=(), name="", debug_info="")
            groups.setdefault((op.input[0], geometry), []).append(place)
    for places in groups.values():
        if len(places) > 1 and start <= places[0]:
            yield Match(tuple(places))


def _is_pointwise(op: OperatorDef) -> bool:
    return set(caffe2_list(op, "kernel", "hw")) == {1} and op.get_int("group", 1) == 1


def _merge(program: Program, match: Match) -> Rewrite:
    layers = [Layer.of(program, op) for op in program.operators(match)]
    channels = [layer.outputs for layer in layers]
    if len({layer.weights.shape[1:] for layer in layers}) > 1 or len({layer.weights.dtype for layer in layers}) > 1:
        raise Refusal("the weights differ in shape or dtype")
    joined = program.fresh(f"{layers[0].op.output[0]}_merged")
    weights: Dict[str, Optional[Array]] = {
        program.fresh(f"{joined}_w"): np.concatenate([one.weights for one in layers])
    }
    if any(layer.bias is not None for layer in layers):
        zeros = [np.zeros(one.number, layers[0].weights.dtype) for one in channels]
        biases = [zero if layer.bias is None else layer.bias for layer, zero in zip(layers, zeros)]
        weights[program.fresh(f"{joined}_b")] = np.concatenate(biases)
    conv = layers[0].op.replace(input=(layers[0].op.input[0], *weights), output=(joined,))
    sizes = Argument.of("split", [one.number for one in channels])
    split = OperatorDef(
        "Split",
        (joined,),
        tuple(layer.op.output[0] for layer in layers),
        (Argument.of("axis", channels[0].axis), sizes),
    )
    return Rewrite((conv, split), weights=weights, at=match.places[0])


PASS = Pass("merge_parallel_convolutions", (Rule(_parallel, _merge),))
