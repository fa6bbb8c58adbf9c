"""Convolutions: implicit matrix products, depthwise, Winograd's F(4x4, 3x3), Caffe's im2col, and cuDNN's own.

Without a preference the first two are used. ``engine="DEVICE:winograd"``, ``"DEVICE:im2col"`` or ``"DEVICE:cudnn"`` of
the operator asks for another; see ``algorithms_of``. Where the device lacks it, the first two are used again.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.gpu.builder import BLOCKS, LANES, PLAIN, Builder, blocks_of, channel_numbers, image_group
from runtime_arm.gpu.device import Buffer, ConvolutionProblem
from runtime_arm.gpu.kernels import Define
from runtime_arm.gpu.lowering.formulas import Tail, constant_of, needed, present, tail_of
from runtime_arm.gpu.lowering.registry import lowers
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple
from runtime_arm.registry.engine_preferences import DEVICE, preferences
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import TensorSpec

DIRECT, WINOGRAD, IM2COL, CUDNN = "direct", "winograd", "im2col", "cudnn"
ALGORITHMS = (DIRECT, WINOGRAD, IM2COL, CUDNN)
_KERNELS = {"transform_input": WINOGRAD, "im2col": IM2COL, "cudnnConvolutionForward": CUDNN}  # of no other algorithm
TILE = 8


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    w, b = needed(inputs[1]), present(inputs, 2)
    convolution = convolution_of(op, needed(inputs[0]), w)
    if convolution.window.ndim != 2 or convolution.channels_last:
        return "the device convolves images (N, C, H, W)"
    if w.value is None or (b is not None and b.value is None):
        return "weights and bias must be constant"
    return tail_refusal(op, inputs, outputs, convolution.output_shape)


def tail_refusal(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], shape: Sequence[int]) -> Optional[str]:
    """The reason why the device cannot run the steps after a fused operator's layer, whose results have this shape."""
    tail = tail_of(op)
    if tail is None:
        return "the device does not have its activation"
    addend, operand = present(inputs, tail.addend), present(inputs, tail.operand)
    if outputs[0].shape != tuple(shape) or (addend is not None and addend.shape != tuple(shape)):
        return "the addition broadcasts"
    if operand is not None and (operand.value is None or operand.size not in (1, shape[1])):
        return "the activation's operand must be constant"
    return None


def algorithms_of(op: OperatorDef, inputs: Specs) -> List[str]:
    """The algorithms with which the device can compute a convolution that it supports, the default first."""
    convolution = convolution_of(op, needed(inputs[0]), needed(inputs[1]))
    window = convolution.window
    algorithms = [DIRECT]
    if convolution.group == 1 and window.kernel == (3, 3) and window.stride == (1, 1) == window.dilation:
        algorithms.append(WINOGRAD)
    if window.output == _symmetric_output(window):
        algorithms.append(CUDNN)
    return [*algorithms, IM2COL]


def _symmetric_output(window: Window) -> Optional[Tuple[int, ...]]:
    """The output's size as cuDNN has it, which pads alike on both sides and rounds down."""
    if tuple(window.head) != tuple(window.tail):
        return None
    sizes = zip(window.image, window.kernel, window.stride, window.dilation, window.head)
    return tuple((n + 2 * pad - d * (k - 1) - 1) // s + 1 for n, k, s, d, pad in sizes)


def algorithm_of(op: OperatorDef, inputs: Specs) -> str:
    """The algorithm that the operator asks for, or the default."""
    wanted = [one.variant for one in preferences(op) if one.engine == DEVICE and not one.refused]
    possible = algorithms_of(op, inputs)
    return next((one for one in wanted if one in possible), possible[0])


def algorithm_of_kernels(kernels: Iterable[str]) -> str:
    """The algorithm by which a convolution was computed, by the names of its kernels."""
    return next((_KERNELS[kernel] for kernel in kernels if kernel in _KERNELS), DIRECT)


class _Operands(NamedTuple):
    """The operands of every algorithm: the arguments, the tail, and the buffers of bias and operand."""

    convolution: Convolution
    tail: Tail
    bias: Buffer
    operand: Buffer


@lowers(Kind.CONVOLUTION, supports=supports)
def convolve(builder: Builder, step: Step) -> None:
    specs = step.in_specs
    convolution = convolution_of(step.op, needed(specs[0]), needed(specs[1]))
    tail = needed(tail_of(step.op))
    bias, operand = present(specs, 2), present(specs, tail.operand)
    filters = convolution.filters
    operands = _Operands(
        convolution,
        tail,
        numbers(builder, bias, filters),
        numbers(builder, operand, filters),
    )
    algorithm = algorithm_of(step.op, specs)
    if algorithm == CUDNN and not builder.half and _cudnn(builder, step, operands):
        return
    if algorithm == WINOGRAD:
        _winograd(builder, step, operands)
    elif algorithm == IM2COL:
        _im2col(builder, step, operands)
    elif convolution.group == convolution.channels == filters:
        _depthwise(builder, step, operands)
    elif convolution.group == 1 or not (
        convolution.channels // convolution.group % LANES or _depth(convolution) % LANES
    ):
        _direct(builder, step, operands)
    else:
        _grouped(builder, step, operands)


def _depth(convolution: Convolution) -> int:
    return convolution.filters // convolution.group


def numbers(builder: Builder, spec: Optional[TensorSpec], channels: int) -> Buffer:
    """One number a channel, zeros if there are none."""
    if spec is None or spec.value is None:
        return builder.constant(_ZERO, ("numbers", channels), lambda zero: channel_numbers(zero, channels))
    return builder.constant(spec.value, ("numbers", channels), lambda array: channel_numbers(array, channels))


_NO_MACROS: Dict[str, Define] = {}
_ZERO = np.zeros(1, np.float32)


def residual(builder: Builder, step: Step, tail: Tail, layout: str) -> Buffer:
    """The buffer of the blob that is added, if there is one."""
    addend = present(step.inputs, tail.addend)
    return builder.nothing() if addend is None else builder.read(addend, layout)


def _macros(window: Window, tail: Tail) -> Dict[str, Define]:
    (kh, kw), (sy, sx), (dy, dx) = window.kernel, window.stride, window.dilation
    return {"KH": kh, "KW": kw, "SY": sy, "SX": sx, "DY": dy, "DX": dx, **tail.defines}


def _quads(width: int) -> int:
    return -(-width // 4)


def _direct(builder: Builder, step: Step, operands: _Operands) -> None:
    convolution, tail, bias, operand = operands
    window, group = convolution.window, convolution.group
    x, y, weights = needed(step.inputs[0]), step.outputs[0], constant_of(step, 1)
    w = builder.constant(weights, ("direct", group), lambda array: packed_weights(array, group))
    blocks, out_blocks = blocks_of(convolution.channels), blocks_of(convolution.filters)
    (height, width), (out_height, out_width) = window.image, window.output
    if window.kernel == window.stride == (1, 1) and not any((*window.head, *window.tail)):
        height, width, out_height, out_width = 1, height * width, 1, height * width  # one long row
    planes = convolution.batch * out_blocks
    read = builder.read(x, BLOCKS)
    added = residual(builder, step, tail, BLOCKS)
    size = (_quads(out_width), out_height, planes)
    builder.launch(
        *("convolution", "convolution", _macros(window, tail), size, image_group(*size)),
        *(read, w, bias, added, operand, builder.output(y, BLOCKS)),
        *(blocks, blocks // group if group > 1 else blocks, height, width, out_blocks),
        *(out_blocks // group if group > 1 else out_blocks, out_height, out_width, *window.head, 0, planes),
    )


def packed_weights(w: Array, group: int) -> Array:
    """(M, C / group, kh, kw) as (output blocks, input blocks of a group, kh, kw, 4 inputs, 4 outputs), float32."""
    filters, depth, kh, kw = w.shape
    padded = np.zeros((blocks_of(filters) * LANES, blocks_of(depth) * LANES, kh, kw), np.float32)
    padded[:filters, :depth] = w
    split: Any = padded.reshape(blocks_of(filters), LANES, blocks_of(depth), LANES, kh, kw)
    packed: Array = split.transpose(0, 2, 4, 5, 3, 1)
    return packed


def _depthwise(builder: Builder, step: Step, operands: _Operands) -> None:
    convolution, tail, bias, operand = operands
    window, blocks = convolution.window, blocks_of(convolution.channels)
    x, weights = needed(step.inputs[0]), constant_of(step, 1)

    def packed(w: Array) -> Array:
        padded = np.zeros((blocks * LANES, *w.shape[2:]), np.float32)
        padded[: w.shape[0]] = w[:, 0]
        turned: Array = padded.reshape(blocks, LANES, *w.shape[2:]).transpose(0, 2, 3, 1)
        return turned

    w = builder.constant(weights, "depthwise", packed)
    planes = convolution.batch * blocks
    read = builder.read(x, BLOCKS)
    added = residual(builder, step, tail, BLOCKS)
    size = (_quads(window.output[1]), window.output[0], planes)
    builder.launch(
        *("convolution", "depthwise", _macros(window, tail), size, image_group(*size)),
        *(read, w, bias, added, operand, builder.output(step.outputs[0], BLOCKS)),
        *(blocks, *window.image, *window.output, *window.head, planes),
    )


def _grouped(builder: Builder, step: Step, operands: _Operands) -> None:
    convolution, tail, bias, operand = operands
    window = convolution.window
    x, weights = needed(step.inputs[0]), constant_of(step, 1)
    w = builder.constant(weights, "float", lambda array: array.astype(np.float32))
    out_blocks = blocks_of(convolution.filters)
    planes = convolution.batch * out_blocks
    read = builder.read(x, BLOCKS)
    added = residual(builder, step, tail, BLOCKS)
    size = (window.output[1], window.output[0], planes)
    builder.launch(
        *("convolution", "grouped", _macros(window, tail), size, image_group(*size)),
        *(read, w, bias, added, operand, builder.output(step.outputs[0], BLOCKS)),
        *(blocks_of(convolution.channels), convolution.channels // convolution.group, _depth(convolution)),
        *(convolution.filters, *window.image, out_blocks, *window.output, *window.head, planes),
    )


# rows: the points 0, 1, -1, 2, -2 and infinity
_FILTER = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)


def _transformed(w: Array) -> Array:
    """3 x 3 filters transformed and packed: (36, output blocks, input blocks, 4 inputs, 4 outputs)."""
    turned = np.einsum("ik,mckl,jl->mcij", _FILTER, w.astype(np.float64), _FILTER)
    points = [packed_weights(turned[:, :, i, j, None, None], 1) for i in range(6) for j in range(6)]
    return np.stack(points)


def _winograd(builder: Builder, step: Step, operands: _Operands) -> None:
    convolution, tail, bias, operand = operands
    window, batch = convolution.window, convolution.batch
    x, weights = needed(step.inputs[0]), constant_of(step, 1)
    u = builder.constant(weights, "winograd", _transformed)
    blocks, out_blocks = blocks_of(convolution.channels), blocks_of(convolution.filters)
    rows, columns = (-(-n // 4) for n in window.output)
    tiles = batch * rows * columns
    read = builder.read(x, BLOCKS)
    added = residual(builder, step, tail, BLOCKS)
    v, m = builder.scratch(36 * blocks * tiles * 16), builder.scratch(36 * out_blocks * tiles * 16)
    builder.launch(
        *("winograd", "transform_input", _NO_MACROS, (tiles, blocks), (16, 4)),
        *(read, v),
        *(blocks, *window.image, *window.head, rows, columns, tiles),
    )
    size = (_quads(tiles), 1, 36 * out_blocks)
    one: Dict[str, Define] = {"KH": 1, "KW": 1, "SY": 1, "SX": 1, "DY": 1, "DX": 1}
    zeros = numbers(builder, None, convolution.filters)
    builder.launch(
        *("convolution", "convolution", one, size, image_group(*size)),
        *(v, u, zeros, builder.nothing(), builder.nothing(), m),
        *(blocks, blocks, 1, tiles, out_blocks, out_blocks, 1, tiles, 0, 0),
        *(out_blocks * blocks * 4, 36 * out_blocks),
        half=False,
    )
    builder.launch(
        *("winograd", "transform_output", tail.defines, (tiles, out_blocks), (16, 4)),
        *(m, bias, added, operand, builder.output(step.outputs[0], BLOCKS)),
        *(out_blocks, *window.output, rows, columns, tiles),
    )
    builder.release(v)
    builder.release(m)


def _im2col(builder: Builder, step: Step, operands: _Operands) -> None:
    convolution, tail, bias, operand = operands
    window, group = convolution.window, convolution.group
    x, weights = needed(step.inputs[0]), constant_of(step, 1)
    w = builder.constant(weights, "float", lambda array: array.astype(np.float32))
    pixels, inputs = window.output[0] * window.output[1], int(np.prod(window.image))
    channels, filters = convolution.channels // group, _depth(convolution)
    depth = channels * window.kernel[0] * window.kernel[1]
    read = builder.read(x, PLAIN)
    added = residual(builder, step, tail, PLAIN)
    col = builder.scratch(depth * pixels * 4)
    y = builder.output(step.outputs[0], PLAIN)
    macros: Dict[str, Define] = {"TILE": TILE, **tail.defines}
    for n, g in ((n, g) for n in range(convolution.batch) for g in range(group)):
        builder.launch(
            *("im2col", "im2col", macros, (pixels, channels), (64, 1)),
            *(read, col),
            *((n * group + g) * channels * inputs, channels, *window.image, *window.kernel, *window.output),
            *(*window.stride, *window.head, *window.dilation),
        )
        size = (-(-pixels // (4 * TILE)) * TILE, -(-filters // (4 * TILE)) * TILE)
        builder.launch(
            *("im2col", "product", macros, size, (TILE, TILE)),
            *(w, col, bias, added, operand, y),
            *(g * filters * depth, filters, pixels, depth, g * filters, (n * group + g) * filters * pixels),
        )
    builder.release(col)


def _cudnn(builder: Builder, step: Step, operands: _Operands) -> bool:
    """Whether the device has a convolution of its own; then bias, addition and activation follow in blocks."""
    convolution, tail, bias, operand = operands
    window, y = convolution.window, step.outputs[0]
    x, weights = needed(step.inputs[0]), constant_of(step, 1)
    shapes = x.spec.shape, weights.shape, convolution.output_shape
    problem = ConvolutionProblem(*shapes, window.head, window.stride, window.dilation, convolution.group)
    w = builder.constant(weights, "float", lambda array: array.astype(np.float32))
    plain = builder.scratch(4 * int(np.prod(convolution.output_shape)))
    launch = builder.device.convolution(problem, builder.read(x, PLAIN), w, plain)
    if launch is None:
        builder.release(plain)
        return False
    builder.add(launch)
    blocks, pixels = blocks_of(convolution.filters), window.output[0] * window.output[1]
    count = convolution.batch * blocks * pixels
    made = builder.scratch(count * LANES * 4)
    builder.convert(plain, made, y.spec, "to_blocks")
    ones = builder.constant(_ZERO, ("ones", blocks), lambda zero: np.ones(blocks * LANES, np.float32))
    added = residual(builder, step, tail, BLOCKS)
    builder.launch(
        *("elementwise", "affine", tail.defines, (count,), (64,), made, ones, bias, added, operand),
        *(builder.output(y, BLOCKS), count, blocks, pixels),
    )
    builder.release(plain)
    builder.release(made)
    return True
