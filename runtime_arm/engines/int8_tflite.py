"""INT8: TensorFlow Lite's quantised convolutions and fully connected layers by float32 GEMM, exact as
``engines/int8.py`` explains."""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.int8 import slices_of
from runtime_arm.engines.int8_matmul import Factors, IntegerProduct
from runtime_arm.engines.int8_tflite_rows import (
    Block,
    Layer,
    Rows,
    layer_of,
    refusal,
    requantizer_of,
    row_blocks,
    run_of,
)
from runtime_arm.engines.steps import Step, copy, in_turn, multiply
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantization import all_known
from runtime_arm.operators.reshape import product
from runtime_arm.operators.tflite_conv import products_of, quantized_conv, quantized_fully_connected
from runtime_arm.registry import Call, Run, Specs
from runtime_arm.tensor import TensorSpec

# QuantizedConv


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return refusal(op, inputs)


class _Columns:
    """How a layer is cut into blocks, and what their columns are."""

    def __init__(self, layer: Layer):
        window, convolution = layer.window, layer.convolution
        self.layer = layer
        self.rows = Rows(window, convolution.channels, 1, 1)
        self.height = convolution.group * convolution.terms  # elements of a column
        self.direct = set(window.kernel) == set(window.stride) == {1} and convolution.group == 1  # rows are the columns
        row = math.prod(self.rows.shape(1)) + (0 if self.direct else window.output[1] * self.height)
        self.blocks = row_blocks(convolution.batch, window, convolution.filters, row * 4)

    def scratch(self) -> List[TensorSpec]:
        """Rows, columns, sums, two buffers to requantise in, and wide sums."""
        most = max(block.rows for block in self.blocks)
        pixels = most * self.layer.window.output[1]
        sums = pixels * self.layer.convolution.filters
        sizes = [math.prod(self.rows.shape(most)), 0 if self.direct else pixels * self.height, sums]
        specs = [TensorSpec((size,), np.float32) for size in sizes]
        return [*specs, *[TensorSpec((sums,), np.float64)] * (3 if self.layer.arithmetic.wide else 2)]

    def fill(self, call: Call, block: Block) -> Tuple[List[Step], Array]:
        """The steps that make a block's columns, and the columns: (group, pixels, terms)."""
        convolution, window, centre = self.layer.convolution, self.layer.window, self.layer.arithmetic.centre
        shape = self.rows.shape(block.rows)
        buffer = call.scratch[0][: math.prod(shape)].reshape(shape)
        padding = self.layer.products.x.zero_point
        steps = list(self.rows.fill(call.inputs[0][block.image], buffer, block.first, padding))
        if centre:
            steps.append(partial(np.subtract, buffer, np.float32(centre), buffer))
        if self.direct:
            return steps, buffer.reshape(1, -1, convolution.channels)
        group, depth = convolution.group, convolution.channels // convolution.group
        _, row, column, item = buffer.strides
        (up, along), (down, right) = window.stride, window.dilation
        extent = (block.rows, window.output[1])
        met = as_strided(buffer, (group, *extent, *window.kernel, depth),
                         (depth * item, up * row, along * column, down * row, right * column, item))
        columns = call.scratch[1][: met.size].reshape(met.shape)
        return [*steps, copy(columns, met)], columns.reshape(group, -1, convolution.terms)


@quantized_conv.kernel("INT8", supports=_supports,
                       scratch=lambda op, inputs, outputs: _Columns(layer_of(op, inputs)).scratch())
def quantized_convolution(call: Call) -> Run:
    layer = call.packed("layer", lambda: layer_of(call.op, call.in_specs))
    columns, convolution, terms = _Columns(layer), layer.convolution, layer.arithmetic.slice_terms
    group, filters = convolution.group, convolution.filters
    run = run_of(layer.window.output[1], filters)
    slices = call.packed("slices", lambda: [(part, np.ascontiguousarray(weights.swapaxes(1, 2))) for part, weights in
                                            slices_of(layer.weights, group, terms)])
    offset = np.tile(layer.offset, run).astype(np.float64 if layer.arithmetic.wide else np.float32)
    requantize = requantizer_of(layer.products, run, layer.reach)
    steps: List[Step] = []
    for block in columns.blocks:
        filling, factors = columns.fill(call, block)
        pixels = block.rows * layer.window.output[1]
        parts = [buffer[: pixels * filters].reshape(pixels, filters) for buffer in call.scratch[2:]]
        steps += [*filling, *_products(factors, slices, parts, group)]
        sums, *work = [part.reshape(-1, run * filters) for part in (parts[-1] if layer.arithmetic.wide else parts[0],
                                                                    *parts[1:3])]
        out = call.outputs[0][block.image, block.first : block.last].reshape(-1, run * filters)
        work = [buffer.view(dtype) for buffer, dtype in zip(work, requantize.work_dtypes)]
        steps += [partial(np.add, sums, offset, sums), partial(requantize, sums, out, work)]
    return in_turn(steps)


def _products(factors: Array, slices: Sequence[Tuple[slice, Array]], parts: Sequence[Array], group: int) -> List[Step]:
    """The steps that compute the sums, in float32 slice by slice; where there are several, added in the last part."""
    products = parts[0].reshape(len(parts[0]), group, -1).swapaxes(0, 1)
    steps: List[Step] = []
    for part, weights in slices:
        steps.append(multiply(factors[..., part], weights, products))
        if len(parts) > 3:
            steps.append(partial(np.copyto if part.start == 0 else _add, parts[-1], parts[0]))
    return steps


def _add(total: Array, part: Array) -> None:
    np.add(total, part, out=total)


# QuantizedFullyConnected


def _matrix(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    x, w, b = (*inputs, None)[:3]
    assert x is not None
    assert w is not None
    assert w.value is not None
    products = products_of(op, x.dtype, w.shape[0])
    zero_points = [TensorSpec.known(np.asarray(zero, x.dtype)) for zero in (products.x.zero_point,
                                                                            products.w_zero_point)]
    rows = TensorSpec((product(x.shape) // w.shape[1], w.shape[1]), x.dtype)
    y = TensorSpec((rows.shape[0], w.shape[0]), x.dtype)
    offset = 0 if b is None or b.value is None else int(np.abs(b.value.astype(np.int64)).max(initial=0))
    return IntegerProduct(Factors(rows, zero_points[0], TensorSpec.known(w.value.T), zero_points[1]), y, offset)


def _supports_matrix(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else "the weights and the bias must be constants"


def _matrix_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    matrix = _matrix(op, inputs, outputs)
    return [*matrix.scratch(), *[TensorSpec((matrix.step * matrix.columns,), np.float64)] * 2]


@quantized_fully_connected.kernel("INT8", supports=_supports_matrix, scratch=_matrix_scratch)
def quantized_matrix(call: Call) -> Run:
    matrix, (x, w, b) = _matrix(call.op, call.in_specs, call.out_specs), (*call.inputs, None)[:3]
    products = products_of(call.op, x.dtype, w.shape[0])
    requantize = requantizer_of(products, 1, matrix.terms * 255 * 255 + matrix.offset)

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        buffers = [buffer[: y.size].reshape(y.shape).view(dtype)
                   for buffer, dtype in zip(call.scratch[-2:], requantize.work_dtypes)]
        steps: List[Step] = [] if b is None else [partial(np.add, sums, b, sums, casting="same_kind")]
        return [*steps, partial(requantize, sums, y, buffers)]

    zero_points = [np.asarray(zero, x.dtype) for zero in (products.x.zero_point, products.w_zero_point)]
    factors = Factors(x.reshape(-1, matrix.terms), zero_points[0], w.T, zero_points[1])
    return in_turn(matrix.steps(call, factors, finish))
