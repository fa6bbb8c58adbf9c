"""IM2COL of small images in few calls: if all columns stay in the cache, the calls take longer than their work.

    padded     (N, H + padding, W + padding, C)    zeros, and X with the channels last
    columns    (N, outputs, kh, kw, C)             one copy of all windows: pixels of a row are neighbours
    Y          (N, M, outputs) = (columns @ W)^T   then bias, addend and activation

It takes 6 calls; a copy for each tap takes 2 or 3 per tap. BLAS is faster at wide rows than at wide columns of few
pixels; so large products (N * outputs, M) are transposed by the passes that follow. A max pool after the products comes
before that: the channels are last in rows and columns of pixels. With few channels the copies have no long runs; then

    padded     (N, C, H + padding, W + padding)    X itself, if there is no padding
    columns    (N, C, kh, kw, outputs)             runs as long as a row of outputs
    Y          (N, M, outputs) = W @ columns
"""

from __future__ import annotations

import math
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime_arm.engines.conv.epilogue import Activation, addend_of
from runtime_arm.engines.conv.operands import bias_of, convolution_in
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import level
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_lines, into, multiply, shaped

MOST = 1 << 17  # elements of the columns: half a second-level cache
TURNING = 10**6  # multiplies up to which BLAS turns the products round in no more time, having no need to pack
REPEATED = 1 << 13  # elements of a blob whose bias is repeated for all pixels, or whose padding has its own memory
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
        constant = all(spec is None or spec.value is not None for spec in [*inputs[1:3], *inputs[4:]])
        fits = 0 < pixels * convolution.terms <= MOST and 0 < pixels * convolution.filters <= BLOCK
        return SmallColumns(convolution) if plain and constant and fits else None

    @property
    def is_tiny(self) -> bool:
        """Whether no other way can be faster, because of its calls."""
        return min(self._runs) <= FEW_RUNS and self.multiplies <= TINY and self.window.kernel != (1, 1)

    @property
    def multiplies(self) -> int:
        return self.pixels * self.convolution.terms * self.convolution.filters

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
    def _padded_in_scratch(self) -> int:
        """Elements that the padded images take of the scratch memory: none, if they have memory of their own."""
        return 0 if self._padded_size <= REPEATED else self._padded_size

    @property
    def scratch(self) -> int:
        """Elements of the padded images, the columns and the products."""
        return self._padded_in_scratch + self.pixels * (self.convolution.terms + self.convolution.filters)

    def can_pool(self, y: TensorSpec) -> bool:
        """Whether pooling into ``y`` fits into the memory of the columns and takes few calls."""
        largest = self.convolution.batch * self.convolution.filters * y.shape[2] * (self.window.output[1] + y.shape[3])
        return self.is_tiny and not self.channels_first and largest <= self.pixels * self.convolution.terms

    def steps(self, call: Call) -> List[Step]:
        """All of the convolution, and what follows it."""
        return self._channels_first(call) if self.channels_first else self._channels_last(call)

    def _channels_first(self, call: Call) -> List[Step]:
        convolution, whole = self.convolution, self._whole(call)
        steps, padded = self._pad(call)
        columns = shaped(self._columns(call), convolution.batch, convolution.terms, math.prod(self.window.output))
        windows = self._windows(padded).transpose(0, 5, 3, 4, 1, 2)
        return [
            *steps,
            copy(columns.reshape(windows.shape), windows),
            multiply(call.inputs[1].reshape(convolution.filters, -1), columns, whole),
            *_finish(call, whole, whole),
        ]

    def _channels_last(self, call: Call) -> List[Step]:
        whole, matrix = self._whole(call), self._matrix(call)
        steps, columns, products = self._gathered(call)
        if self.multiplies <= TURNING:
            by_image = columns.reshape(len(whole), -1, self.convolution.terms)
            return [*steps, multiply(matrix.T, by_image.swapaxes(1, 2), whole), *_finish(call, whole, whole)]
        turned = products.reshape(len(whole), -1, self.convolution.filters).swapaxes(1, 2)
        return [*steps, multiply(columns, matrix, products), *_finish(call, whole, turned)]

    def pooled_steps(self, call: Call, kernel: Sequence[int], stride: int) -> List[Step]:
        """The same with a max pool between the products and what follows them, for which ``can_pool`` must hold.

        It comes while the channels are last: rows of an image, and then columns, are long runs or at least whole
        pixels. Windows neither overlap nor reach beyond the image.
        """
        whole, filters = self._whole(call), self.convolution.filters
        steps, columns, products = self._gathered(call)
        image = products.reshape(self.convolution.batch, *self.window.output, filters)
        down, across = call.outputs[0].shape[2:]
        rows = shaped(columns.reshape(-1), len(image), down, image.shape[2], filters)
        pixels = shaped(columns.reshape(-1)[rows.size :], len(image), down, across, filters)
        lines = [image[:, k::stride][:, :down] for k in range(kernel[0])]
        steps += [multiply(columns, self._matrix(call), products), *_largest(lines, rows)]
        steps += _largest([rows[:, :, k::stride][:, :, :across] for k in range(kernel[1])], pixels)
        return [*steps, *_finish(call, whole, pixels.reshape(len(image), -1, filters).swapaxes(1, 2))]

    def _gathered(self, call: Call) -> Tuple[List[Step], Array, Array]:
        """The steps that fill the columns, a row for each pixel; those columns, and room for products after them."""
        steps, padded = self._pad(call)
        buffer, windows = self._columns(call), self._windows(padded)
        columns = shaped(buffer, self.pixels, self.convolution.terms)
        products = shaped(buffer[columns.size :], self.pixels, self.convolution.filters)
        return [*steps, copy(columns.reshape(windows.shape), windows)], columns, products

    def _matrix(self, call: Call) -> Array:
        matrix: Array = call.packed("rows of taps", lambda: in_lines(_by_taps(call.inputs[1])))
        return matrix

    def _whole(self, call: Call) -> Array:
        """Y as (N, M, pixels)."""
        whole: Array = call.outputs[0].reshape(self.convolution.batch, self.convolution.filters, -1)
        return whole

    def _columns(self, call: Call) -> Array:
        """The scratch memory behind the padded images."""
        behind: Array = call.scratch[0][self._padded_in_scratch :]
        return behind

    def _pad(self, call: Call) -> Tuple[List[Step], Array]:
        """The steps that copy X among zeros, and the result, a view (N, H + padding, W + padding, C).

        Where it is small, it has memory of its own, whose zeros stay.
        """
        batch, channels, stays = self.convolution.batch, self.convolution.channels, not self._padded_in_scratch
        shape = (batch, channels, *self.padded) if self.channels_first else (batch, *self.padded, channels)
        if stays:
            memory = call.packed(f"padded {shape}", lambda: np.zeros(shape, call.scratch[0].dtype))
        else:
            memory = shaped(call.scratch[0], *shape)
        padded: Array = memory.transpose(0, 2, 3, 1) if self.channels_first else memory
        heads = self.window.head  # negative where Caffe2's SAME leaves pixels out
        rows, wide = (slice(max(head, 0), head + image) for head, image in zip(heads, self.window.image))
        image = call.inputs[0][:, :, max(-heads[0], 0) :, max(-heads[1], 0) :]
        whole = copy(padded[:, rows, wide].transpose(0, 3, 1, 2), image)
        return [whole] if stays or padded.size == image.size else [copy(memory, ZERO), whole], padded

    def _windows(self, padded: Array) -> Array:
        """A view (N, rows, columns, kh, kw, C) of the pixels under the kernel in (N, H, W, C)."""
        window, (image, down, across, channel) = self.window, padded.strides
        steps = [stride * size for stride, size in zip(window.stride, (down, across))]
        taps = [dilation * size for dilation, size in zip(window.dilation, (down, across))]
        shape = (padded.shape[0], *window.output, *window.kernel, padded.shape[3])
        return as_strided(padded, shape, (image, *steps, *taps, channel))


def _largest(parts: Sequence[Array], out: Array) -> Iterator[Step]:
    """out = the largest of the parts, element by element."""
    first, *others = parts
    if not others:
        yield copy(out, first)
    for other in others:
        yield into(np.maximum, first, other, out)
        first = out


def _finish(call: Call, whole: Array, products: Array) -> List[Step]:
    """Bias, addend and activation. whole: Y as (N, M, pixels). products: of the same shape, perhaps turned round, which
    the first of the passes undoes.

    The numbers of each channel are repeated for all of its pixels, because short rows take several times as long.
    """
    tail = Activation(call, whole, 1)
    bias, addend = bias_of(call), addend_of(call)
    passes: List[Tuple[np.ufunc, Array]] = []
    if bias is not None:
        passes.append((np.add, _repeated(call, "bias", bias, whole)))
    if addend is not None:
        passes.append((np.add, addend.reshape(whole.shape)))
    if tail.floor is not None:
        passes.append((np.maximum, _repeated(call, "floor", tail.floor, whole)))
    passes += [(bound, level(value, whole)) for bound, value in tail.limits]
    steps: List[Step] = []
    for ufunc, operand in passes:
        steps.append(into(ufunc, products, operand, whole))
        products = whole
    if products is not whole:
        steps.append(copy(whole, products))
    return steps if tail.floor is not None or tail.limits else [*steps, *tail.steps(whole, (...,))]


def _repeated(call: Call, name: str, vector: Array, like: Array) -> Array:
    """One number a channel, for all pixels of ``like``, (N, M, pixels)."""
    stretched: Array = np.broadcast_to(vector.reshape(-1, 1), like.shape)
    if like.size > REPEATED:
        return stretched
    repeated: Array = call.packed(f"{name} for {like.shape}", lambda: in_lines(stretched))
    return repeated


def _by_taps(filters: Array) -> Array:
    """(kh * kw * C, M) from (M, C, kh, kw)."""
    matrix: Array = filters.transpose(2, 3, 1, 0).reshape(-1, len(filters))
    return matrix
