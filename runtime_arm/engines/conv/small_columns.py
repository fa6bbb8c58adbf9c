"""IM2COL of small images in few calls: where all columns stay in the cache, calls take longer than what they do.

    padded     (N, H + padding, W + padding, C)    zeros, and X with the channels last
    columns    (N, outputs, kh, kw, C)             one copy of all windows: pixels of a row lie side by side
    products   (N * outputs, M) = columns @ W      BLAS is faster at wide rows than at wide columns of few pixels
    Y          (N, M, outputs)                     what follows the products, which turns them round at the end

It takes 6 calls where a copy for each tap takes 2 or 3 a tap. Few channels leave the copies without long runs; then

    padded     (N, C, H + padding, W + padding)    X itself, if there is no padding
    columns    (N, C, kh, kw, outputs)             runs as long as a row of outputs
    Y          (N, M, outputs) = W @ columns
"""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv.epilogue import Tail, addend_of, finish, limits_of
from runtime_arm.engines.conv.operands import bias_of, convolution_in
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import level
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.steps import ZERO, Step, copy, in_lines, multiply, shaped

MOST = 1 << 17  # elements of the columns: half a second-level cache
TINY, FEW_RUNS = 1 << 20, 1024  # multiplies, and runs of pixels to copy, that take less than the calls of other ways


class SmallColumns(NamedTuple):
    """A convolution in two dimensions whose columns are small."""

    convolution: Convolution

    @staticmethod
    def of(op: OperatorDef, inputs: Specs) -> Optional[SmallColumns]:
        """None if the operator does not suit: the rest of IM2COL runs it then."""
        convolution = convolution_in(op, inputs)
        pixels = convolution.batch * math.prod(convolution.window.output)
        plain = convolution.window.ndim == 2 and convolution.group == 1 and not convolution.channels_last
        constant = all(spec is None or spec.value is not None for spec in inputs[1:3])
        fits = 0 < pixels * convolution.terms <= MOST and 0 < pixels * convolution.filters <= BLOCK
        return SmallColumns(convolution) if plain and constant and fits else None

    @property
    def is_tiny(self) -> bool:
        """Whether no other way can be faster, because of its calls."""
        convolution = self.convolution
        few = min(self._runs) <= FEW_RUNS and self.pixels * convolution.terms * convolution.filters <= TINY
        return few and self.window.kernel != (1, 1)

    @property
    def _runs(self) -> Tuple[int, int]:
        """Runs of numbers side by side in one copy of all windows: with the channels last, and with them first."""
        window = self.window
        rows, wide = window.output
        first = self.convolution.batch * self.convolution.terms * rows * (1 if window.stride[1] == 1 else wide)
        return self.pixels * window.kernel[0], first

    @property
    def channels_first(self) -> bool:
        last, first = self._runs
        return first <= last

    @property
    def window(self) -> Window:
        return self.convolution.window

    @property
    def padded(self) -> List[int]:
        """Rows and columns of the images with their padding: what all windows reach."""
        window = self.window
        return [
            max((out - 1) * stride + (kernel - 1) * dilation + 1, head + image)
            for image, kernel, stride, dilation, head, out in zip(
                window.image, window.kernel, window.stride, window.dilation, window.head, window.output
            )
        ]

    @property
    def pixels(self) -> int:
        return self.convolution.batch * math.prod(self.window.output)

    @property
    def _padded_size(self) -> int:
        return self.convolution.batch * self.convolution.channels * math.prod(self.padded)

    @property
    def scratch(self) -> int:
        """Elements of the padded images, the columns and the products."""
        return self._padded_size + self.pixels * (self.convolution.terms + self.convolution.filters)

    def steps(self, call: Call) -> List[Step]:
        """All of the convolution, and what follows it."""
        return self._channels_first(call) if self.channels_first else self._channels_last(call)

    def _channels_first(self, call: Call) -> List[Step]:
        convolution, scratch, y = self.convolution, call.scratch[0], call.outputs[0]
        padded = shaped(scratch, convolution.batch, convolution.channels, *self.padded)
        columns = shaped(scratch[padded.size :], convolution.batch, convolution.terms, math.prod(self.window.output))
        windows = self._windows(padded.transpose(0, 2, 3, 1)).transpose(0, 5, 3, 4, 1, 2)
        flat = y.reshape(convolution.batch, convolution.filters, -1)
        return [
            *self._pad(call, padded),
            copy(columns.reshape(windows.shape), windows),
            multiply(call.inputs[1].reshape(convolution.filters, -1), columns, flat),
            *finish(call, flat, False),
        ]

    def _channels_last(self, call: Call) -> List[Step]:
        convolution, scratch = self.convolution, call.scratch[0]
        padded = shaped(scratch, convolution.batch, *self.padded, convolution.channels)
        columns = shaped(scratch[padded.size :], self.pixels, convolution.terms)
        products = shaped(scratch[padded.size + columns.size :], self.pixels, convolution.filters)
        matrix = call.packed("rows of taps", lambda: in_lines(_by_taps(call.inputs[1])))
        windows = self._windows(padded)
        return [
            *self._pad(call, padded.transpose(0, 3, 1, 2)),
            copy(columns.reshape(windows.shape), windows),
            multiply(columns, matrix, products),
            *self._end(call, products),
        ]

    def _pad(self, call: Call, padded: Array) -> List[Step]:
        """Copies X into (N, C, H + padding, W + padding), among zeros."""
        rows, wide = (slice(head, head + image) for head, image in zip(self.window.head, self.window.image))
        whole = copy(padded[:, :, rows, wide], call.inputs[0])
        return [copy(padded, ZERO), whole] if padded.size > call.inputs[0].size else [whole]

    def _windows(self, padded: Array) -> Array:
        """A view (N, rows, columns, kh, kw, C) of what lies under the kernel in (N, H, W, C)."""
        window, (image, down, across, channel) = self.window, padded.strides
        steps = [stride * size for stride, size in zip(window.stride, (down, across))]
        taps = [dilation * size for dilation, size in zip(window.dilation, (down, across))]
        shape = (padded.shape[0], *window.output, *window.kernel, padded.shape[3])
        return as_strided(padded, shape, (image, *steps, *taps, channel))

    def _end(self, call: Call, products: Array) -> List[Step]:
        """The bias while the channels are last, then the activation or a copy into Y, then what is left."""
        y, bias = call.outputs[0], bias_of(call)
        steps: List[Step] = []
        batch, filters = self.convolution.batch, self.convolution.filters
        if bias is not None:
            row = call.packed(
                f"bias of {self.pixels} pixels", lambda: in_lines(np.tile(bias, self.pixels).reshape(products.shape))
            )
            steps.append(partial(np.add, products, row, out=products))
        turned, whole = products.reshape(batch, -1, filters).swapaxes(1, 2), y.reshape(batch, filters, -1)
        tail, limits = Tail(call, whole, -2), limits_of(call.op)
        if addend_of(call) is None and limits:
            for bound, value in limits[:-1]:
                steps.append(partial(bound, products, level(value, products), out=products))
            bound, value = limits[-1]
            return [*steps, partial(bound, turned, level(value, turned), out=whole)]
        return [*steps, copy(whole, turned), *tail.steps(whole, (...,))]


def _by_taps(filters: Array) -> Array:
    """(kh * kw * C, M) from (M, C, kh, kw)."""
    matrix: Array = filters.transpose(2, 3, 1, 0).reshape(-1, len(filters))
    return matrix
