"""Layers that are linear in their input: convolutions, transposed convolutions, fully connected layers."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

import numpy as np

from optimize.layers.affine import Affine, Channels
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import NOTSET, VALID, caffe2_list, channels_last

CONVOLUTIONS = {"Conv", "Conv1D", "Conv2D", "Conv3D"}
CONVOLUTIONS_AND_FUSED = CONVOLUTIONS | {"ConvRelu", "armnet.FusedConv"}  # the last may have an addend, input 3
FULLY_CONNECTED = {"FC", "FCTransposed"}
LAYERS = CONVOLUTIONS | FULLY_CONNECTED | {"ConvTranspose"}

_SUFFIX = "_folded"


class Layer(NamedTuple):
    """A layer with constant weights; ``bias`` is None where it has none."""

    op: OperatorDef
    weights: Array
    bias: Optional[Array]

    @staticmethod
    def of(program: Program, op: OperatorDef) -> Layer:
        """The operator as a layer. Refusal if its weights are not constant or not understood."""
        names = (*op.input[1:3], "")[:2]
        values = [program.value(name) if name else None for name in names]
        for name, value in zip(names, values):
            if name and (value is None or value.dtype.kind != "f"):
                raise Refusal(f"{name!r} is not a constant float")
        weights, bias = values
        if weights is None or weights.ndim < (2 if op.type in FULLY_CONNECTED else 3) or not weights.size:
            raise Refusal("the weights have too few dimensions or no elements")
        if op.type in FULLY_CONNECTED and (op.get_int("axis_w", 1) != 1 or op.get_int("axis", 1) < 1):
            raise Refusal("only axis_w=1 and an axis that counts from the front are understood")
        group = op.get_int("group", 1)
        if group < 1 or weights.shape[0] % group:
            raise Refusal(f"the weights of shape {weights.shape} do not divide into {group} groups")
        layer = Layer(op, weights, bias)
        if bias is not None and bias.shape != (layer.outputs.number,):
            raise Refusal(f"the bias of shape {bias.shape} is not one number for each output")
        return layer

    @property
    def outputs(self) -> Channels:
        """The channels of the output."""
        groups, width = _by_channels(self.op, self.weights).shape[:2]
        ndim = self.op.get_int("axis", 1) + 1 if self.op.type in FULLY_CONNECTED else self.weights.ndim
        last = self.op.type in FULLY_CONNECTED or channels_last(self.op)
        return Channels(groups * width, ndim - 1 if last else 1, ndim)

    @property
    def inputs(self) -> int:
        """How many channels the input has; for a fully connected layer, how many elements a row has."""
        groups, _, depth = _by_channels(self.op, self.weights).shape[:3]
        return int(groups * depth)

    def pads_with_zeros(self) -> bool:
        """Whether the layer pads its input with zeros; True if that depends on sizes."""
        if self.op.type in FULLY_CONNECTED:
            return False
        legacy = self.op.get_int("legacy_pad", NOTSET)
        return legacy not in (NOTSET, VALID) or any(caffe2_list(self.op, "pad", "tlbr"))

    def scaled(self, affine: Affine) -> Layer:
        """The layer that computes this one's output scaled and shifted."""
        weights = self.weights.astype(np.float64)
        view = _by_channels(self.op, weights)
        view *= affine.scale.reshape(view.shape[0], view.shape[1], *[1] * (view.ndim - 2))
        bias = affine.shift if self.bias is None else self.bias * affine.scale + affine.shift
        return self._with(weights, bias)

    def fed_scaled(self, affine: Affine) -> Layer:
        """The layer that computes from x what this one computes from x scaled and shifted (without padding)."""
        weights = self.weights.astype(np.float64)
        view = _by_channels(self.op, weights)
        view *= affine.scale.reshape(view.shape[0], 1, view.shape[2], *[1] * (view.ndim - 3))
        shifted = self.of_constant(affine.shift)
        return self._with(weights, shifted if self.bias is None else self.bias + shifted)

    def of_constant(self, x: Array) -> Array:
        """The layer's products for an input that is constant in each channel (without padding), float64."""
        view = _by_channels(self.op, self.weights)
        sums: Array = view.reshape(*view.shape[:3], -1).sum(axis=-1, dtype=np.float64)
        return np.asarray(sums @ x.reshape(view.shape[0], view.shape[2], 1)).reshape(-1)

    def _with(self, weights: Array, bias: Array) -> Layer:
        dtype = self.weights.dtype
        with np.errstate(over="ignore"):
            weights, bias = weights.astype(dtype), bias.astype(dtype)
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise Refusal("a product is not finite")
        return self._replace(weights=weights, bias=None if self.bias is None and not bias.any() else bias)

    def rewrite(self, program: Program, x: str, y: str) -> Rewrite:
        """The layer as an operator from ``x`` to ``y``, its weights under new names."""
        name = self.op.input[1].split(_SUFFIX)[0]
        weights: Dict[str, Optional[Array]] = {program.fresh(name + _SUFFIX): self.weights}
        if self.bias is not None:
            bias = (*self.op.input[2:3], "")[0].split(_SUFFIX)[0] or f"{name}_bias"
            weights[program.fresh(bias + _SUFFIX)] = self.bias
        return Rewrite((self.op.replace(input=(x, *weights), output=(y,)),), weights=weights)


def _by_channels(op: OperatorDef, weights: Array) -> Array:
    """A view of a layer's weights as (groups, outputs of a group, inputs of a group, taps of the kernel...)."""
    if op.type in FULLY_CONNECTED:
        matrix = weights.reshape(weights.shape[0], -1)
        return (matrix.T if op.type == "FCTransposed" else matrix)[np.newaxis]
    if channels_last(op):
        weights = np.moveaxis(weights, -1, 1)
    group = op.get_int("group", 1)
    view = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
    return view.swapaxes(1, 2) if op.type == "ConvTranspose" else view
