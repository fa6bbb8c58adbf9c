"""INT8: TensorFlow Lite's quantised convolutions and fully connected layers by float32 GEMM, exact as ``onnx.py``
explains; pixels of int16 by float64 GEMM, which holds all their sums."""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv.gemm import Panels
from runtime_arm.engines.integers import tflite_depthwise  # noqa: F401  (declared before INT8, so preferred to it)
from runtime_arm.engines.integers.arithmetic import Arithmetic, slices_of
from runtime_arm.engines.integers.onnx_matmul import Factors, IntegerProduct
from runtime_arm.engines.integers.requantisation import Requantisation
from runtime_arm.engines.integers.tflite_rows import Block, Rows, layer_of, packed_layer, refusal, row_blocks, run_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.operators.layout.reshape import product
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.rounding import requantizer
from runtime_arm.operators.quantised.tflite.parameters import limits_of
from runtime_arm.operators.quantised.tflite.products import (
    matrices_of,
    products_of,
    quantized_conv,
    quantized_fully_connected,
    quantized_matmul,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, copy, in_turn

FEW = 4  # channels of a group, as in pictures: a tap's pixels make longer runs than a pixel's taps
Slices = Sequence[Tuple[slice, Panels]]  # the terms of each slice of a sum, and its weights

# QuantizedConv


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return refusal(op, inputs)


class Columns:
    """How a convolution is cut into blocks, and what their columns are."""

    def __init__(self, convolution: Convolution, arithmetic: Arithmetic, workers: int = 1):
        window = convolution.window
        self._convolution, self._arithmetic = convolution, arithmetic
        self._rows = Rows(window, convolution.channels, 1, 1)
        self._height = convolution.group * convolution.terms  # elements of a column
        self._direct = set(window.kernel) == set(window.stride) == {1} and convolution.group == 1  # rows are columns
        row = math.prod(self._rows.shape(1)) + (0 if self._direct else window.output[1] * self._height)
        self.blocks = row_blocks(convolution.batch, window, convolution.filters, row * 4, workers)

    @property
    def most(self) -> int:
        """Pixels of the largest block."""
        return max((block.rows for block in self.blocks), default=0) * self._convolution.window.output[1]

    def scratch(self) -> List[TensorSpec]:
        """Rows, columns, sums, two buffers of float64, and wide sums."""
        most = max((block.rows for block in self.blocks), default=0)
        sums = self.most * self._convolution.filters
        sizes = [math.prod(self._rows.shape(most)), 0 if self._direct else self.most * self._height, sums]
        specs = [TensorSpec((size,), self._arithmetic.dtype) for size in sizes]
        return [*specs, *[TensorSpec((sums,), np.float64)] * (3 if self._arithmetic.wide else 2)]

    def fill(self, call: Call, block: Block, image: Array, padding: int) -> Tuple[List[Step], Array]:
        """The steps that make a block's columns, less the centre, and the columns: (group, pixels, terms)."""
        convolution, window, centre = self._convolution, self._convolution.window, self._arithmetic.centre
        shape = self._rows.shape(block.rows)
        buffer = call.scratch[0][: math.prod(shape)].reshape(shape)
        steps = list(self._rows.fill(image, buffer, block.first, padding))
        if centre:
            steps.append(partial(np.subtract, buffer, np.float32(centre), buffer))
        if self._direct:
            return steps, buffer.reshape(1, -1, convolution.channels)
        group, depth = convolution.group, convolution.channels // convolution.group
        _, row, column, item = buffer.strides
        (up, along), (down, right) = window.stride, window.dilation
        extent = (block.rows, window.output[1])
        met = as_strided(
            buffer,
            (group, *extent, *window.kernel, depth),
            (depth * item, up * row, along * column, down * row, right * column, item),
        )
        if depth <= FEW:
            met = met.transpose(0, 3, 4, 5, 1, 2)
        columns = call.scratch[1][: met.size].reshape(met.shape)
        factors = columns.reshape(group, convolution.terms, -1).swapaxes(1, 2) if depth <= FEW else columns
        return [*steps, copy(columns, met)], factors.reshape(group, -1, convolution.terms)

    def multiply(self, call: Call, block: Block, factors: Array, slices: Slices) -> Tuple[List[Step], Array]:
        """The steps that compute a block's sums, and the sums, (pixels, M)."""
        pixels, filters = block.rows * self._convolution.window.output[1], self._convolution.filters
        work, *parts = [buffer[: pixels * filters].reshape(pixels, filters) for buffer in call.scratch[2:]]
        products = work.reshape(pixels, self._convolution.group, -1).swapaxes(0, 1)
        steps: List[Step] = []
        for part, weights in slices:
            steps += weights.multiply(factors[..., part], products)
            if self._arithmetic.wide:
                wide = parts[2]
                steps.append(partial(np.copyto, wide, work) if part.start == 0 else partial(np.add, wide, work, wide))
        return steps, parts[2] if self._arithmetic.wide else work


def columns_first(weights: Array, group: int, arithmetic: Arithmetic, rows: int) -> Slices:
    """Slices of weights as the right factor of columns: (group, terms, M / group), for about this many rows."""
    panel = None if arithmetic.dtype == np.float32 else 0
    slices = slices_of(weights, group, arithmetic.slice_terms, arithmetic.dtype)
    return [(part, Panels(factor.swapaxes(1, 2), rows, panel)) for part, factor in slices]


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    layer = layer_of(op, inputs)
    return Columns(layer.convolution, layer.arithmetic).scratch()


@quantized_conv.kernel("INT8", supports=supports, scratch=scratch, splits_work=True)
def bind(call: Call) -> Run:
    layer = packed_layer(call)
    columns, convolution = Columns(layer.convolution, layer.arithmetic, call.workers), layer.convolution
    most = columns.most
    slices = call.packed(
        f"slices by {most}", lambda: columns_first(layer.weights, convolution.group, layer.arithmetic, most)
    )
    run = run_of(layer.window.output[1], convolution.filters)
    shape = (-1, run * convolution.filters)
    ending = call.packed("ending", layer.ending)
    blocks = call.mine(columns.blocks)
    requantisation = Requantisation(ending, run, call.scratch[3:5], most * convolution.filters, len(blocks))
    steps = requantisation.first()
    for block in blocks:
        filling, factors = columns.fill(call, block, call.inputs[0][block.image], layer.products.x.zero_point)
        multiplying, sums = columns.multiply(call, block, factors, slices)
        out = call.outputs[0][block.image, block.first : block.last].reshape(shape)
        steps += [*filling, *multiplying, *requantisation.steps(sums.reshape(shape), out)]
    return in_turn(steps)


# QuantizedFullyConnected


def _matrix(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    x, w, b = (*inputs, None)[:3]
    assert x is not None
    assert w is not None
    assert w.value is not None
    products = products_of(op, x.dtype, w.shape[0], w.dtype)
    zero_points = [
        TensorSpec.known(np.asarray(zero, x.dtype)) for zero in (products.x.zero_point, products.w_zero_point)
    ]
    rows = TensorSpec((product(x.shape) // w.shape[1], w.shape[1]), x.dtype)
    y = TensorSpec((rows.shape[0], w.shape[0]), x.dtype)
    offset = 0 if b is None or b.value is None else int(np.abs(b.value.astype(np.int64)).max(initial=0))
    return IntegerProduct(Factors(rows, zero_points[0], TensorSpec.known(w.value.T), zero_points[1]), y, offset)


def _supports_matrix(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else "the weights and the bias must be constants"


def _matrix_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    matrix = _matrix(op, inputs, outputs)
    return [*matrix.scratch(), *[TensorSpec((matrix.sums,), np.float64)] * 2]


@quantized_fully_connected.kernel("INT8", supports=_supports_matrix, scratch=_matrix_scratch)
def quantized_matrix(call: Call) -> Run:
    matrix, (x, w, b) = _matrix(call.op, call.in_specs, call.out_specs), (*call.inputs, None)[:3]
    products = products_of(call.op, x.dtype, w.shape[0], w.dtype)
    reach = matrix.terms * 255 * 255 + matrix.offset
    requantize = requantizer(products.rule, products.multiplier, products.y.zero_point, *products.limits, reach)

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        buffers = [
            buffer[: y.size].reshape(y.shape).view(dtype)
            for buffer, dtype in zip(call.scratch[-2:], requantize.work_dtypes)
        ]
        steps: List[Step] = [] if b is None else [partial(np.add, sums, b, sums, casting="same_kind")]
        return [*steps, partial(requantize, sums, y, buffers)]

    zero_points = [np.asarray(zero, x.dtype) for zero in (products.x.zero_point, products.w_zero_point)]
    factors = Factors(x.reshape(-1, matrix.terms), zero_points[0], w.T, zero_points[1])
    return in_turn(matrix.steps(call, factors, finish))


# QuantizedMatMul


def _matmul(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> IntegerProduct:
    a, b = inputs
    assert a is not None
    matrices = matrices_of(op, a.dtype)
    zero_points = [TensorSpec.known(np.asarray(of.zero_point, a.dtype)) for of in (matrices.a, matrices.b)]
    return IntegerProduct(Factors(a, zero_points[0], b, zero_points[1]), outputs[0])


def _matmul_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    product_ = _matmul(op, inputs, outputs)
    return [*product_.scratch(), *[TensorSpec((product_.sums,), np.float64)] * 2]


@quantized_matmul.kernel("INT8", scratch=_matmul_scratch)
def quantized_matrices(call: Call) -> Run:
    product_, dtype = _matmul(call.op, call.in_specs, call.out_specs), call.inputs[0].dtype
    matrices = matrices_of(call.op, dtype)
    reach = product_.terms * 255 * 255
    requantize = requantizer(matrices.rule, matrices.multiplier, matrices.y.zero_point, *limits_of(dtype), reach)

    def finish(sums: Array, work: Array, y: Array) -> List[Step]:
        buffers = [
            buffer[: y.size].reshape(y.shape).view(name)
            for buffer, name in zip(call.scratch[-2:], requantize.work_dtypes)
        ]
        return [partial(requantize, sums, y, buffers)]

    zero_points = [np.asarray(of.zero_point, dtype) for of in (matrices.a, matrices.b)]
    factors = Factors(call.inputs[0], zero_points[0], call.inputs[1], zero_points[1])
    return in_turn(product_.steps(call, factors, finish))
