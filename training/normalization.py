"""Batch normalisations of a train net: those that learn use the batch's statistics, the others stay as they are."""

from __future__ import annotations

from typing import Dict, List, MutableMapping

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import channels_last
from training.builder import NetBuilder

TYPE = "SpatialBN"


def is_normalisation(op: OperatorDef) -> bool:
    return op.type == TYPE and op.domain in ("", "caffe2") and len(op.input) == 5


def in_training(net: NetBuilder, op: OperatorDef, weights: MutableMapping[str, Array]) -> OperatorDef:
    """The normalisation with the batch's statistics, which moves the running ones in place."""
    y, (mean, variance) = op.output[0], op.input[3:5]
    for statistic in (mean, variance):
        weights[statistic] = weights[statistic].reshape(-1)
    outputs = (y, mean, variance, net.free(f"{y}_sm"), net.free(f"{y}_siv"))
    return op.replace(output=outputs).with_args(is_test=0)


def frozen(net: NetBuilder, op: OperatorDef, weights: Dict[str, Array], learns: bool) -> List[OperatorDef]:
    """The normalisation by its running statistics, as factors and shifts per channel.

    Caffe2 computes their gradients correctly, but not those of SpatialBN with is_test=1. learns: scale or bias are
    trained.
    """
    scale, bias, mean, variance = op.input[1:]
    y, order = op.output[0], "NHWC" if channels_last(op) else "NCHW"
    epsilon = op.get_float("epsilon", 1e-5)
    inverse = 1 / np.sqrt(weights[variance].reshape(-1).astype(np.float64) + epsilon)
    shift = -weights[mean].reshape(-1) * inverse
    names = [net.blob(f"{y}_{name}", x.astype(np.float32)) for name, x in (("inverse", inverse), ("shift", shift))]
    middle = net.free(f"{y}_normalised")
    return [
        OperatorDef.of("AffineChannel", [op.input[0], *names], [middle], order=order, is_learnable=0),
        OperatorDef.of("AffineChannel", [middle, scale, bias], [y], order=order, is_learnable=int(learns)),
    ]
