"""Functions of one or two numbers, sums of several blobs, and batch normalisation."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.gpu.builder import BLOCKS, PLAIN, Builder, as_image, blocks_of, channel_numbers, in_blocks
from runtime_arm.gpu.device import Buffer
from runtime_arm.gpu.lowering.convolution import numbers, residual, tail_refusal
from runtime_arm.gpu.lowering.formulas import combination, formula, needed, number, present, tail_of
from runtime_arm.gpu.lowering.registry import lowers
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.broadcasting import second_shape
from runtime_arm.operators.norm.channel import channel_axis
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import Shape, TensorSpec

MOST_DIMENSIONS = 6


def _formula(op: OperatorDef, inputs: Specs) -> Optional[str]:
    """ACTIVATE1 of an operator of one blob; None if it is not one, or not on the device."""
    if op.full_type == "onnx.Clip":
        bounds = [None if spec is None else spec.value for spec in (*inputs[1:], None, None)[:2]]
        if any(spec is not None and spec.value is None for spec in inputs[1:]):
            return None
        low, high = (
            default if held is None else held.reshape(-1)[0] for held, default in zip(bounds, (-np.inf, np.inf))
        )
        return f"smaller(larger(x, {number(low)}), {number(high)})"
    return formula(op) if len([name for name in op.input if name]) == 1 else None


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if _formula(op, inputs) is not None:
        return None
    if combination(op) is None:
        return "the device has no kernel for it"
    if len(inputs) < 2 or (len(inputs) > 2 and op.get_bool("broadcast")):
        return "the device combines two blobs or more"
    if outputs[0].ndim > MOST_DIMENSIONS:
        return f"the device combines blobs of {MOST_DIMENSIONS} dimensions at most"
    shapes = _shapes(op, inputs)
    if any(spec is not None and spec.size > outputs[0].size for spec in inputs) or any(
        len(shape) > outputs[0].ndim for shape in shapes
    ):
        return "an operand is larger than the result"
    constant = all(spec is not None and spec.value is not None for spec in inputs)
    return "all operands are constant" if constant else None


def _shapes(op: OperatorDef, inputs: Specs) -> List[Shape]:
    """The shapes in which the operands broadcast."""
    shapes = [spec.shape for spec in inputs if spec is not None]
    shapes[1] = second_shape(op, needed(inputs[0]), needed(inputs[1]))
    return shapes


@lowers(Kind.ELEMENTWISE, supports=_supports)
def elementwise(builder: Builder, step: Step) -> None:
    text = _formula(step.op, step.in_specs)
    if text is not None:
        _unary(builder, step, text)
    else:
        _combined(builder, step)


def _unary(builder: Builder, step: Step, text: str) -> None:
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    layout = BLOCKS if builder.has(x, BLOCKS) and x.spec.ndim <= 4 else PLAIN
    _, c, h, w = as_image(x.spec.shape) if layout == BLOCKS else (1, 0, 1, 1)
    count = builder.nbytes(x.spec, layout) // builder.itemsize
    read, written = builder.read(x, layout), builder.output(y, layout)
    builder.launch(
        *("elementwise", "unary", {"ACTIVATE1(x, p)": text}, (count,), (64,), read, written),
        *(count, c, max(1, blocks_of(c)), h * w),
    )


def _combined(builder: Builder, step: Step) -> None:
    """Two operands, then each further one with the result so far."""
    y, values = step.outputs[0], [value for value in step.inputs if value is not None]
    shapes = [(1,) * (y.spec.ndim - len(shape)) + shape for shape in _shapes(step.op, step.in_specs)]
    images = y.spec.ndim == 4 and any(
        builder.has(value, BLOCKS) and value.spec.value is None and shape[1] > 1 for value, shape in zip(values, shapes)
    )
    layout = (
        BLOCKS if images and all(value.spec.ndim == 4 or value.spec.value is not None for value in values) else PLAIN
    )
    macros = {"COMBINE1(a, b)": combination(step.op) or ""}
    operands = [_operand(builder, value, shape, layout) for value, shape in zip(values, shapes)]
    written = builder.output(y, layout)
    held, shape = operands[0], shapes[0]
    for other, other_shape in zip(operands[1:], shapes[1:]):
        launch = _in_blocks if layout == BLOCKS else _plain
        launch(builder, macros, y.spec.shape, (held, shape), (other, other_shape), written)
        held, shape = written, y.spec.shape


def _operand(builder: Builder, value: Value, shape: Shape, layout: str) -> Buffer:
    """The buffer of an operand, which has this shape."""
    if value.spec.value is not None and layout == BLOCKS:
        return builder.numbers(
            in_blocks(value.spec.value.reshape(shape)).astype(np.float16 if builder.half else np.float32)
        )
    return builder.read(value, layout)


Operand = Tuple[Buffer, Shape]


def _plain(builder: Builder, macros: dict[str, str], shape: Shape, a: Operand, b: Operand, y: Buffer) -> None:
    sizes = (1,) * (MOST_DIMENSIONS - len(shape)) + shape
    builder.launch(
        *("elementwise", "binary", macros, (int(np.prod(shape)),), (64,), a[0], b[0], y, int(np.prod(shape))),
        *(*sizes[1:], *strides_of(a[1]), *strides_of(b[1])),
    )


def strides_of(shape: Shape) -> List[int]:
    """The strides of a plain blob in elements, for six dimensions; 0 where it is broadcast."""
    sizes, strides, step = (1,) * (MOST_DIMENSIONS - len(shape)) + tuple(shape), [], 1
    for size in reversed(sizes):
        strides.append(0 if size == 1 else step)
        step *= size
    return strides[::-1]


def _in_blocks(builder: Builder, macros: dict[str, str], shape: Shape, a: Operand, b: Operand, y: Buffer) -> None:
    n, c, h, w = as_image(shape)
    strides, splat = [], []
    for _, (on, oc, oh, ow) in (a, b):
        blocks = blocks_of(oc)
        strides += [
            0 if on == 1 else blocks * oh * ow,
            0 if oc == 1 else oh * ow,
            0 if oh == 1 else ow,
            0 if ow == 1 else 1,
        ]
        splat.append(int(oc == 1))
    builder.launch(
        *("elementwise", "binary_blocks", macros, (n * blocks_of(c) * h * w,), (64,), a[0], b[0], y),
        *(n, c, blocks_of(c), h, w, *strides, *splat),
    )


def _normalizes(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    if not op.get_int("is_test") or x.ndim not in (2, 3, 4) or channel_axis(op, x.ndim) != 1:
        return "the device normalises (N, C, H, W) with given statistics"
    if any(spec is None or spec.value is None for spec in inputs[1:5]):
        return "scale, bias, mean and variance must be constant"
    return tail_refusal(op, inputs, outputs, x.shape)


@lowers(Kind.BATCH_NORM, supports=_normalizes)
def batch_norm(builder: Builder, step: Step) -> None:
    x, tail = needed(step.inputs[0]), needed(tail_of(step.op))
    scale, bias, mean, variance = (
        np.asarray(spec.value, np.float64) for spec in step.in_specs[1:5] if spec is not None
    )
    factor = scale / np.sqrt(variance + step.op.get_float("epsilon", 1e-5))
    n, c, h, w = as_image(x.spec.shape)
    count = n * blocks_of(c) * h * w
    shift = builder.numbers(channel_numbers(bias - mean * factor, c))
    builder.launch(
        *("elementwise", "affine", tail.defines, (count,), (64,), builder.read(x, BLOCKS)),
        *(builder.numbers(channel_numbers(factor, c)), shift, residual(builder, step, tail, BLOCKS)),
        numbers(builder, present(step.in_specs, tail.operand), c),
        *(builder.output(step.outputs[0], BLOCKS), count, blocks_of(c), h * w),
    )
