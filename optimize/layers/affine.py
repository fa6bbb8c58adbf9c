"""Operators that scale and shift each channel by constants: batch normalisation, and arithmetic with a weight."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import numpy as np

from optimize.rewriting.patterns import Operand, Operator, operator, weight
from optimize.rewriting.program import Program
from optimize.rewriting.rewrite import Refusal
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import second_shape
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.specs import TensorSpec

NORMALISATIONS = {"AffineChannel", "SpatialBN", "onnx.BatchNormalization"}
ARITHMETIC = {"Add", "Div", "Mul", "Sub", "onnx.Add", "onnx.Div", "onnx.Mul", "onnx.Sub"}


class Affine(NamedTuple):
    """Y = scale X + shift, with one number for each channel, float64."""

    scale: Array
    shift: Array


class Channels(NamedTuple):
    """How a blob is divided into channels: it has ``number`` of them along ``axis``, and ``ndim`` dimensions."""

    number: int
    axis: int
    ndim: int


def scaled(x: Operand, name: str) -> Tuple[Operator, ...]:
    """Patterns of an operator that scales or shifts ``x`` by weights, which is captured under this name."""
    normalisation, arithmetic = operator(NORMALISATIONS, name), operator(ARITHMETIC, name)
    return normalisation(x), arithmetic(x, weight()), arithmetic(weight(), x)


def _data_input(program: Program, op: OperatorDef) -> Optional[str]:
    """The input that is scaled and shifted; of arithmetic, the only one that is not a weight, or None."""
    if op.full_type in NORMALISATIONS:
        return op.input[0]
    varying = [name for name in op.input if name not in program.weights]
    return varying[0] if len(op.input) == 2 and len(varying) == 1 else None


def affine_of(program: Program, op: OperatorDef, x: str, channels: Channels) -> Affine:
    """How the operator scales and shifts the channels of its input ``x``; Refusal if it does anything else."""
    if _data_input(program, op) != x or op.input.count(x) > 1:
        raise Refusal(f"{x!r} is not scaled or shifted by weights")
    of = _normalisation if op.full_type in NORMALISATIONS else _arithmetic
    found = of(program, op, channels)
    if not (np.isfinite(found.scale).all() and np.isfinite(found.shift).all()):
        raise Refusal("a factor is not finite")
    return found


def _normalisation(program: Program, op: OperatorDef, channels: Channels) -> Affine:
    if op.get_bool("training_mode") or (op.type == "SpatialBN" and not op.get_int("is_test", 0)):
        raise Refusal("the normalisation takes its statistics from each batch")
    if (channels.ndim - 1 if channels_last(op) else 1) != channels.axis:
        raise Refusal("the channels lie in different dimensions")
    vectors = [_vector(program, name, channels.number) for name in op.input[1:]]
    if op.type == "AffineChannel":
        return Affine(*vectors)
    scale, bias, mean, variance = vectors
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + op.get_float("epsilon", 1e-5))
        return Affine(factor, bias - mean * factor)


def _vector(program: Program, name: str, count: int) -> Array:
    value = program.value(name)
    if value is None:
        raise Refusal(f"{name!r} is not constant")
    if value.size != count:
        raise Refusal(f"{name!r} has {value.size} elements for {count} channels")
    return value.reshape(-1).astype(np.float64)


def _arithmetic(program: Program, op: OperatorDef, channels: Channels) -> Affine:
    second = op.input[1] in program.weights
    operand = _by_channel(program, op, second, channels)
    ones, zeros = np.ones(channels.number), np.zeros(channels.number)
    if op.type == "Add":
        return Affine(ones, operand)
    if op.type == "Mul":
        return Affine(operand, zeros)
    if op.type == "Sub":
        return Affine(ones, -operand) if second else Affine(-ones, operand)
    if not second:
        raise Refusal("it divides a weight by the blob")
    with np.errstate(all="ignore"):
        return Affine(1 / operand, zeros)


def _by_channel(program: Program, op: OperatorDef, second: bool, channels: Channels) -> Array:
    """The weight of an arithmetic operator as one number for each channel."""
    value = program.value(op.input[1 if second else 0])
    if value is None or value.dtype.kind != "f":
        raise Refusal("the weight is not a float")
    along = [1] * channels.ndim
    along[channels.axis] = channels.number
    shape = second_shape(op, TensorSpec(along, value.dtype), TensorSpec.known(value)) if second else value.shape
    if not second and op.get_bool("broadcast"):
        raise Refusal("the blob is broadcast to the shape of the weight")
    aligned = (1,) * (channels.ndim - len(shape)) + tuple(shape)
    if len(aligned) > channels.ndim or any(n not in (1, m) for n, m in zip(aligned, along)):
        raise Refusal(f"the weight of shape {value.shape} is not one number for each channel")
    return np.broadcast_to(value.reshape(aligned), along).reshape(-1).astype(np.float64)
