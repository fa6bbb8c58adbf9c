"""Common parts of TensorFlow Lite's and Caffe2's quantised convolutions: padded image rows as float32, and layers.

Rows under a block of output rows are converted once, into (step, rows, columns, channels): column x is in part x % step
at x // step. If step is the stride, the pixels that a tap reads for consecutive outputs are one run.
"""

from __future__ import annotations

import math
from typing import Iterator, List, NamedTuple, Optional

import numpy as np

from runtime_arm.engines.integers.arithmetic import Arithmetic, choose_arithmetic, weights_of
from runtime_arm.engines.integers.float32_rounding import Rule, Sums
from runtime_arm.engines.integers.requantisation import Ending
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.tflite.products import Products, products_of, quantized_conv
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, copy, margins

BLOCK_NBYTES = 1 << 20  # rows, columns, sums and what requantises them; about a second-level cache
LARGEST_BIAS = 1 << 52
RUN = 512  # least elements of a run of pixels that is computed at once, if a row has as many


def _tflite_products(op: OperatorDef, x: TensorSpec, w: TensorSpec, filters: int) -> Products:
    return products_of(op, x.dtype, filters)


PRODUCTS = {quantized_conv.domain: _tflite_products}  # reads the quantisation of a domain's convolutions


class Layer(NamedTuple):
    """A convolution over two dimensions with all that is known of it before running."""

    convolution: Convolution
    products: Products
    weights: Array  # int16 (M, terms), less their zero point
    offset: Array  # int64 (M): what is added to sums of W * (X - centre)
    arithmetic: Arithmetic
    sums: Sums  # of W * (X - centre)

    @property
    def window(self) -> Window:
        return self.convolution.window

    def ending(self) -> Ending:
        """How sums become integers."""
        count = self.convolution.batch * math.prod(self.window.output)
        single = self.arithmetic.dtype == np.float32 and not self.arithmetic.wide
        return Ending.of(rule_of(self.products), self.sums, count if single else 0)


def run_of(columns: int, channels: int) -> int:
    """Output pixels that are computed as one run; their number divides that of a row."""
    return next(n for n in range(1, columns + 1) if columns % n == 0 and (n * channels >= RUN or n == columns))


def layer_of(op: OperatorDef, inputs: Specs) -> Layer:
    """The layer of a QuantizedConv or an Int8Conv whose weights and bias are constants."""
    x, w, b = (*inputs, None)[:3]
    assert x is not None
    assert w is not None
    assert w.value is not None
    convolution = convolution_of(op, x, w)
    products = PRODUCTS[op.domain](op, x, w, convolution.filters)
    weights = weights_of(w.value, np.asarray(products.w_zero_point))
    bias = np.zeros(len(weights), np.int64) if b is None or b.value is None else b.value.astype(np.int64)
    arithmetic = choose_arithmetic(weights, np.zeros_like(bias), x.dtype, [0])
    offset = bias + (arithmetic.centre - products.x.zero_point) * weights.sum(1, dtype=np.int64)
    return Layer(
        convolution, products, weights, offset, arithmetic, Sums.of(weights, x.dtype, arithmetic.centre, offset)
    )


def packed_layer(call: Call) -> Layer:
    """The layer of a call. What does not depend on the sizes of its input is made once."""
    layer: Layer = call.packed("layer", lambda: layer_of(call.op, call.in_specs))
    x, w = call.in_specs[:2]
    assert x is not None
    assert w is not None
    return layer._replace(convolution=convolution_of(call.op, x, w))


def rule_of(products: Products) -> Rule:
    return Rule(products.rule, products.multiplier, products.y.zero_point, *products.limits)


class Block(NamedTuple):
    """Output rows of one image that are computed at once."""

    image: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first


def row_blocks(batch: int, window: Window, channels: int, row_nbytes: int, workers: int = 1) -> List[Block]:
    """All blocks of a layer; ``row_nbytes`` is what an output row needs besides its sums of ``channels``.

    Each worker gets as many, if there are enough; none is larger than for one worker.
    """
    height, width = window.output
    row = row_nbytes + width * channels * (4 + 8 + 8)
    parts = ranges(height, max(1, BLOCK_NBYTES // row), workers)
    return [Block(image, *rows) for image in range(batch) for rows in parts]


def refusal(op: OperatorDef, inputs: Specs) -> Optional[str]:
    """Why no engine takes the operator with these operands, or None."""
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    if x.size == 0:
        return "there is nothing to compute"
    if not all_known(inputs[1:]):
        return "the weights and the bias must be constants"
    if len(inputs) > 2 and inputs[2] is not None and _largest(inputs[2].value) >= LARGEST_BIAS:
        return "the bias may be too large for float64"
    return None if x.ndim == 4 else f"there must be two spatial dimensions, got {x.ndim - 2}"


def _largest(bias: Optional[Array]) -> float:
    return 0.0 if bias is None else float(np.abs(bias.astype(np.float64)).max(initial=0))


class Rows:
    """The padded image rows under blocks of output rows. step: the number of parts that columns are dealt out to."""

    def __init__(self, window: Window, channels: int, repeat: int, step: int):
        self._window, self._channels, self._repeat, self._step = window, channels, repeat, step
        reach = (window.kernel[1] - 1) * window.dilation[1] + 1
        self._parts = min(step, reach)  # no tap reads the columns after them
        self._width = -(-((window.output[1] - 1) * window.stride[1] + reach) // step)

    def shape(self, rows: int) -> Shape:
        """(parts that taps meet, image rows under that many output rows, columns, channels * repeat)."""
        window = self._window
        reach = (rows - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1
        return self._parts, reach, self._width, self._channels * self._repeat

    def fill(self, image: Array, buffer: Array, first: int, padding: int) -> Iterator[Step]:
        """Converts the pixels under the output rows from ``first`` on into the buffer. image: (H, W, C) integers."""
        height, width = self._window.image
        pad = np.full((), padding, np.float32)
        top, left = first * self._window.stride[0] - self._window.head[0], self._window.head[1]
        rows = slice(*np.clip((-top, height - top), 0, buffer.shape[1]).tolist())
        for part in range(self._parts):
            target = buffer[part].reshape(*buffer.shape[1:3], self._channels, self._repeat)
            ends = [-((part - left - end) // self._step) for end in (0, width)]
            columns = slice(*np.clip(ends, 0, self._width).tolist())
            if rows.start >= rows.stop or columns.start >= columns.stop:
                yield copy(target, pad)
                continue
            begin, count = columns.start * self._step + part - left, columns.stop - columns.start
            met = image[rows.start + top : rows.stop + top, begin : begin + (count - 1) * self._step + 1 : self._step]
            yield copy(target[rows, columns], met[..., None])
            for margin in margins(buffer[part][None], (rows, columns, slice(0, buffer.shape[3]))):
                yield copy(margin, pad)
