"""FFT: convolutions with large kernels as products of spectra, on overlapping tiles.

The output is cut into tiles of m x n outputs. A tile is computed from the pixels under it, placed on a circle of p x q
places, p >= m + kh - 1, on which a correlation is a product of spectra (``fft_transforms`` has the algebra; for
convolution layers Mathieu, Henaff and LeCun, arXiv:1312.5851; in tiles Vasilache et al., arXiv:1412.7580, section 6).
With all C channels and M filters, a tile takes 3 (p q + 1) / 2 multiplies a channel and filter, instead of m n kh kw.

A block of tiles passes through two buffers, in turns. Every transform is a product with a constant matrix that
reads windows of its operand where they lie, and writes its result transposed, as the next step wants it. The matrix
leaves out the padding, so nothing is gathered and nothing is padded:

    rows       S[q, columns, C, H]            = F[:, pixels] @ X[C, H, pixels]^T        for each tile column
    columns    T[rows, p, q, columns, C]      = F[:, pixels] @ S[..., pixels]^T         for each tile row
    split      V[3, frequencies, tiles, C]      sums and differences of T
    multiply   P[3, frequencies, tiles, M]    = V @ U a plane and frequency, U made once; V * U where C / group is 1
    join       T[rows, p, q, columns, M]        sums and differences of P
    columns    Q[rows, m, q, columns, M]      = F^-1 @ T
    rows       Y[M, rows, m, columns, n]      = Q^T @ F^-1, straight into the output, clipped at its edge

Then comes the epilogue. The sums of a spectrum meet every pixel of a tile, so an infinite pixel turns all outputs of
its tile into NaN.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.fft_tiles import FILTER_GROWTH, LARGEST_PERIOD, Block, Side, Tiling, best_tiling
from runtime_arm.engines.conv.fft_transforms import PLANES, Spectrum, basis, frequencies, inverse, transform_filters
from runtime_arm.engines.conv.operands import convolution_in, tile_refusal
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import conv, conv_relu, onnx_conv
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, multiply, shaped


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = tile_refusal(op, inputs)
    if reason is not None:
        return reason
    convolution = convolution_in(op, inputs)
    window = convolution.window
    if set(window.kernel) == {1}:
        return "the kernel must have more than one pixel"
    if min(convolution.batch, convolution.channels, convolution.filters, *window.image) == 0:
        return "there must be pixels, channels and filters"
    if best_tiling(convolution) is None:
        return (
            f"a kernel of {list(window.kernel)} pixels, dilated by {list(window.dilation)}, takes circles of more "
            f"than {LARGEST_PERIOD} places, or {FILTER_GROWTH} times the memory of the filters"
        )
    return None


def _tiling(op: OperatorDef, inputs: Specs) -> Tiling:
    tiling = best_tiling(convolution_in(op, inputs))
    assert tiling is not None
    return tiling


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return _tiling(op, inputs).work()


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    y = outputs[0]
    return [TensorSpec((_tiling(op, inputs).buffer_size(y.dtype.itemsize),), y.dtype)] * 2


@conv.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
@conv_relu.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
@onnx_conv.kernel("FFT", supports=supports, scratch=scratch, work=work, splits_work=True)
def fft(call: Call) -> Run:
    tiling = _tiling(call.op, call.in_specs)
    convolution = tiling.convolution
    filters = call.packed(
        f"fft {tiling.period}",
        lambda: transform_filters(tiling.period, convolution.window.dilation, convolution.group, call.inputs[1]),
    )
    middles: Dict[Sequence[int], List[Step]] = {}  # blocks of one size and of the same groups share their steps
    steps: List[Step] = []
    for block in call.mine(list(tiling.blocks(call.outputs[0].itemsize, call.workers))):
        passage = _Passage(call, tiling, block)
        kind = (*passage.extent, *block.groups, *block.filters)
        if kind not in middles:
            middles[kind] = list(passage.multiply(filters))
        steps += [*passage.transform(), *middles[kind], *passage.transform_back()]
    return in_turn(steps)


class _Passage:
    """One block on its way through the buffers."""

    def __init__(self, call: Call, tiling: Tiling, block: Block):
        self.call, self.tiling, self.block = call, tiling, block
        self.front, self.back = call.scratch[:2]
        self.group = block.groups[1] - block.groups[0]
        self.extent = (block.rows[1] - block.rows[0], block.columns[1] - block.columns[0])
        self.width = block.filters[1] - block.filters[0]
        self.channels, self.filters = self.group * tiling.depth, self.group * self.width

    def transform(self) -> Iterator[Step]:
        """From the image to the planes of its spectra, in the first buffer."""
        (p, q), (rows, columns), tiling = self.tiling.period, self.extent, self.tiling
        first = self.block.groups[0] * tiling.depth
        top, bottom = tiling.rows.pixels(self.block.rows[0])[0], tiling.rows.pixels(self.block.rows[1] - 1)[1]
        x = self.call.inputs[0][self.block.image, first : first + self.channels, top:bottom]
        lines = shaped(self.front, q, columns, self.channels, bottom - top)
        merged = (1, x.shape[0] * x.shape[1]) if x.flags.c_contiguous else x.shape[:2]
        for column in range(columns):
            matrix, pixels = self._reading(tiling.columns, self.block.columns[0] + column)
            target = lines[:, column].reshape(q, *merged).swapaxes(0, 1)
            yield _product(matrix, x[..., pixels].reshape(*merged, len(matrix.T)).swapaxes(1, 2), target)
        flat = lines.reshape(q * columns * self.channels, bottom - top).T
        spectra = shaped(self.back, rows, p, q * columns * self.channels)
        for row in range(rows):
            matrix, pixels = self._reading(tiling.rows, self.block.rows[0] + row)
            yield _product(matrix, flat[pixels.start - top : pixels.stop - top], spectra[row])
        planes = self._planes(self.front, self.channels)
        yield from Spectrum(tiling.period).split(self._real(self.back, self.channels), planes)

    def multiply(self, filters: Array) -> Iterator[Step]:
        """From the spectra of the pixels to those of the outputs, in the first buffer, to the outputs' columns."""
        (p, q), (rows, columns), tiling = self.tiling.period, self.extent, self.tiling
        u = filters[:, :, slice(*self.block.groups), :, slice(*self.block.filters)]
        shape = (*filters.shape[:2], rows * columns, self.group)
        pixels, outputs = shaped(self.front, *shape, tiling.depth), shaped(self.back, *shape, self.width)
        if tiling.depth == 1:
            yield partial(np.multiply, pixels, u.reshape(*u.shape[:2], 1, *u.shape[2::2]), out=outputs)
        else:
            yield multiply(pixels.swapaxes(2, 3), u, outputs.swapaxes(2, 3))
        planes = self._planes(self.back, self.filters)
        yield from Spectrum(tiling.period).join(planes, self._real(self.front, self.filters))
        back = inverse(p, tiling.rows.tile).T.astype(self.back.dtype)
        width = q * columns * self.filters
        yield multiply(back, shaped(self.front, rows, p, width), shaped(self.back, rows, tiling.rows.tile, width))

    def transform_back(self) -> Iterator[Step]:
        """From the outputs' columns, in the second buffer, to the outputs."""
        (rows, columns), tiling, tile = self.extent, self.tiling, self.tiling.rows.tile
        begin, left = self.block.rows[0] * tile, self.block.columns[0] * tiling.columns.tile
        end, right = (
            min(n * side.tile, side.output)
            for n, side in ((self.block.rows[1], tiling.rows), (self.block.columns[1], tiling.columns))
        )
        first = self.block.groups[0] * tiling.width + self.block.filters[0]
        filters = slice(first, first + self.filters)
        y = self.call.outputs[0][self.block.image, filters, begin:end, left:right]
        halves = shaped(self.back, rows, tile, tiling.period[1], columns, self.filters)
        whole, rest = divmod(end - begin, tile)
        matrix = inverse(tiling.period[1], tiling.columns.tile).astype(y.dtype)
        for column in range(columns):
            at = column * tiling.columns.tile
            target = y[..., at : at + tiling.columns.tile]
            outputs, half = matrix[:, : target.shape[2]], halves[:, :, :, column].swapaxes(2, 3)
            if whole:
                tiles = target[:, : whole * tile].reshape(self.filters, whole, tile, -1)
                yield multiply(half[:whole], outputs, tiles.transpose(1, 2, 0, 3))
            if rest:
                yield multiply(half[whole, :rest], outputs, target[:, whole * tile :].swapaxes(0, 1))
        yield from finish(
            self.call,
            y.reshape(len(y), -1) if y.shape[2] == tiling.columns.output else y.swapaxes(0, 1),
            False,
            filters,
        )

    def _reading(self, side: Side, tile: int) -> Tuple[Array, slice]:
        """The matrix that transforms the pixels of a tile of one dimension, and which these are."""
        begin, end = side.pixels(tile)
        origin = tile * side.tile - side.head
        return basis(side.period, range(begin - origin, end - origin)).astype(self.front.dtype), slice(begin, end)

    def _real(self, buffer: Array, depth: int) -> Array:
        """Real spectra of a block of tiles: (p, q, tile rows, tile columns * depth)."""
        (p, q), (rows, columns) = self.tiling.period, self.extent
        spectra: Array = shaped(buffer, rows, p, q, columns * depth).transpose(1, 2, 0, 3)
        return spectra

    def _planes(self, buffer: Array, depth: int) -> Array:
        """Their complex spectra: (3, frequencies, tile rows, tile columns * depth)."""
        (rows, columns), period = self.extent, self.tiling.period
        return shaped(buffer, PLANES, frequencies(period), rows, columns * depth)


def _product(matrix: Array, pixels: Array, out: Array) -> Step:
    """out = matrix @ pixels, also where there are none."""
    return multiply(matrix, pixels, out) if pixels.size else copy(out, ZERO)
