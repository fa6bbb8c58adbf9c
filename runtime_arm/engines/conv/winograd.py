"""WINOGRAD: 3x3 convolutions of stride 1, 4 or 2.25 multiplies per output instead of 9, F(2x2, 3x3) and F(4x4, 3x3).

The output is cut into tiles of m x m pixels; each needs the (m + r - 1) x (m + r - 1) pixels of X around it, r taps a
dimension (Lavin and Gray, arXiv:1509.09308, algorithm 1). A block of tiles passes through two buffers, in turns:

    gather     D[py, px, C, tiles]      pixel (m * ty + py - head, m * tx + px - head), zero in the padding
    transform  V = B^T D B              a product with a small matrix for each of the first two axes
    multiply   M[f] = U[f] @ V[f]       for each of the (m + r - 1)^2 frequencies f, (M, C) @ (C, tiles); U is made once
    transform  Y = A^T M A              m * m pixels a tile
    scatter    into the output, clipped at its edge, then the epilogue

Weights that change, in training, are transformed in each run, in their own precision.

Blocks are cut in both directions, so the buffers are bounded for images of any size. F(2x2, 5x5) and F(4x4,
5x5), 9 and 4 multiplies instead of 25, run only if they are asked for: FFT takes 3.7 and rounds less than both.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.gemm import SMALL_PRODUCT
from runtime_arm.engines.conv.operands import changes, convolution_in, tile_refusal
from runtime_arm.engines.conv.pointwise import STRIDED, weight_cost
from runtime_arm.engines.conv.winograd_transforms import (
    TAPS,
    amplification,
    transform_filters,
    transform_multiplies,
    transforms,
)
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, conv, conv_relu, onnx_conv
from runtime_arm.records import NamedTuple
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.engine_preferences import open_variants, wanted_engines
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, in_turn, margins, multiply, shaped


class Variant(NamedTuple):
    """F(rows x columns, taps x taps)."""

    rows: int
    columns: int
    taps: int

    @property
    def name(self) -> str:
        return f"f{self.rows}x{self.columns}_{self.taps}x{self.taps}"


# Tiles that are not square are for some layers between blobs in tiles, see ``planar/winograd.py`` and, for a stride of
# 2, ``planar/pairs.py`` and ``stem_winograd.py``; others run by square ones.
VARIANTS = {
    one.name: one
    for one in (
        Variant(2, 2, 3),
        Variant(4, 4, 3),
        Variant(6, 6, 3),
        Variant(2, 2, 5),
        Variant(4, 4, 5),
        Variant(2, 4, 3),
        Variant(1, 2, 3),
        Variant(4, 1, 7),
    )
}
SQUARE_TAPS = {one.taps for one in VARIANTS.values() if min(one[:2]) > 1}  # of kernels that square tiles serve
BLOCK_NBYTES = 2 << 20  # of V and M together; smaller blocks make short runs, larger ones leave the second-level cache
LEAST_PANEL = 32  # filters; below, the calls cost more than the packing
WORTHWHILE = 0.95  # of the direct cost; a smaller gain is within the error of the estimate, and costs accuracy
CHANGED = 40  # multiplies for each number of U, if it is made in each run (measured at 128 and 256 channels: 35 to 42)
LEAST_CHANGING = 32  # channels and filters, if the weights change
MOST_AMPLIFICATION = 300  # of rounding errors, unless a variant is asked for: a dozen layers stay within 1e-4


class Block(NamedTuple):
    """Tiles that are computed at once: of one image, begin and end of tile rows and tile columns."""

    image: int
    rows: Tuple[int, int]
    columns: Tuple[int, int]

    @property
    def extent(self) -> Tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]


class Tiling:
    """A convolution cut into tiles, and these into blocks."""

    def __init__(self, convolution: Convolution, tile: int, itemsize: int):
        window = convolution.window
        self.convolution = convolution
        self.tile = tile
        self.taps = window.kernel[0]
        self.reach = tile + self.taps - 1  # pixels under a tile, in one dimension
        rows, columns = (-(-size // tile) for size in window.output)
        kernel, ones, stride = (self.reach,) * 2, (1, 1), (tile, tile)
        self.window = Window(window.image, kernel, stride, ones, window.head, window.tail, (rows, columns))
        depth = convolution.channels + convolution.filters
        most = max(1, BLOCK_NBYTES // (self.reach**2 * depth * itemsize))
        self._wide = max(1, min(columns, most))
        self._high = max(1, most // self._wide)

    def blocks(self, workers: int = 1) -> Iterator[Block]:
        """Each worker gets as many blocks, if there are enough tiles."""
        rows, columns = self.window.output
        for image in range(self.convolution.batch):
            for row in ranges(rows, self._high, workers):
                for column in ranges(columns, self._wide):
                    yield Block(image, row, column)

    @property
    def filter_size(self) -> int:
        """Elements of U."""
        return self.reach**2 * self.convolution.channels * self.convolution.filters

    def buffers(self) -> List[int]:
        """Elements of the scratch buffers: two, which take turns."""
        tiles = max((rows * columns for rows, columns in (block.extent for block in self.blocks())), default=0)
        widest = self.reach * tiles * max(self.convolution.channels, self.convolution.filters)
        return [self.reach * widest] * 2


def tile_work(convolution: Convolution, tile: int, changing: bool = False) -> Work:
    """What F(tile x tile, r x r) takes for an r x r convolution of stride 1. changing: the weights do."""
    taps = convolution.window.kernel[0]
    reach = tile + taps - 1
    rows, columns = (-(-size // tile) for size in convolution.window.output)
    tiles, channels, filters = convolution.batch * rows * columns, convolution.channels, convolution.filters
    products = reach**2 * channels * filters * (tiles + weight_cost())
    moves = STRIDED * tiles * (reach**2 * channels + tile**2 * filters)
    transforming = tiles * transform_multiplies(tile, tile, channels, filters, taps)
    transforming += CHANGED * reach**2 * channels * filters * changing
    return Work(products + transforming, moves, amplification(tile, tile, taps))


def open_tiles(op: OperatorDef, taps: int = TAPS) -> List[int]:
    """The square tiles that the operator leaves open for this many taps; the least exact one, and those for more than 3
    taps, are open only if it asks for them."""
    if taps != TAPS and not wanted_engines(op).get("WINOGRAD"):
        return []
    known = (VARIANTS[variant] for variant in open_variants(op, "WINOGRAD", tuple(VARIANTS)))
    tiles = list(dict.fromkeys(one.rows for one in known if one.taps == taps and min(one[:2]) > 1))
    exact = [tile for tile in tiles if amplification(tile, tile, taps) <= MOST_AMPLIFICATION]
    return exact or tiles


def choose_tile(op: OperatorDef, convolution: Convolution, changing: bool = False) -> int:
    """The cheapest tile that the operator leaves open; a larger one, which is less exact, must be WORTHWHILE."""
    tiles = open_tiles(op, convolution.window.kernel[0])
    best = min(tiles)
    for tile in sorted(tiles):
        if tile_work(convolution, tile, changing).time < WORTHWHILE * tile_work(convolution, best, changing).time:
            best = tile
    return best


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    convolution = convolution_in(op, inputs)
    work = tile_work(convolution, choose_tile(op, convolution, changes(inputs)), changes(inputs))
    wanted = VARIANTS.get(wanted_engines(op).get("WINOGRAD", ""))  # may round more elsewhere than here
    error = work.error if wanted is None else max(work.error, amplification(*wanted))
    return work._replace(moves=work.time / WORTHWHILE - work.multiplies, error=error)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    reason = tile_refusal(op, inputs)
    if reason is not None:
        return reason
    convolution = convolution_in(op, inputs)
    window = convolution.window
    if window.kernel[0] != window.kernel[1] or window.kernel[0] not in SQUARE_TAPS:
        return f"the kernel must be 3x3, or 5x5 by name, got {list(window.kernel)}"
    if not open_tiles(op, window.kernel[0]):
        return f"no variant for a kernel of {list(window.kernel)} is asked for, or left open"
    if set(window.dilation) != {1}:
        return f"the dilation must be 1, got {list(window.dilation)}"
    if convolution.group != 1:
        return f"there must be one group, got {convolution.group}"
    return changing_refusal(convolution) if changes(inputs) else None


def changing_refusal(convolution: Convolution) -> Optional[str]:
    """Why a convolution of weights that change cannot run; None if it can."""
    least = min(convolution.channels, convolution.filters)
    if least < LEAST_CHANGING:
        return f"weights that change must be of {LEAST_CHANGING} channels and filters at least, got {least}"
    return None


def _tiling(op: OperatorDef, inputs: Specs) -> Tiling:
    x, convolution = inputs[0], convolution_in(op, inputs)
    assert x is not None
    return Tiling(convolution, choose_tile(op, convolution, changes(inputs)), x.dtype.itemsize)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Two buffers that take turns; U, if the weights change."""
    tiling = _tiling(op, inputs)
    sizes = [*tiling.buffers(), *([tiling.filter_size] if changes(inputs) else [])]
    return [TensorSpec((size,), outputs[0].dtype) for size in sizes]


@conv.kernel("WINOGRAD", supports=supports, scratch=scratch, work=work, variants=tuple(VARIANTS), splits_work=True)
@conv_relu.kernel("WINOGRAD", supports=supports, scratch=scratch, work=work, variants=tuple(VARIANTS), splits_work=True)
@onnx_conv.kernel("WINOGRAD", supports=supports, scratch=scratch, work=work, variants=tuple(VARIANTS), splits_work=True)
def winograd(call: Call) -> Run:
    tiling = _tiling(call.op, call.in_specs)
    w = call.inputs[1]
    if changes(call.in_specs):
        filters = shaped(call.scratch[2], tiling.reach**2, *w.shape[:2])
        return in_turn([transform_step(tiling, w, filters), *tile_steps(call, tiling, filters)])
    name = Variant(tiling.tile, tiling.tile, tiling.taps).name
    filters = call.packed(name, lambda: transform_filters(tiling.tile, tiling.tile, w))
    return in_turn(tile_steps(call, tiling, filters))


def transform_step(tiling: Tiling, w: Array, filters: Array, turned: bool = False) -> Step:
    """U = G w G^T, (frequencies, M, C), of the filters (M, C, r, r), or of the flipped ones."""
    once = transforms(tiling.tile, tiling.taps).filter
    both = np.kron(once, once).astype(w.dtype)
    both = np.ascontiguousarray(both[:, ::-1]) if turned else both
    return multiply(both, w.reshape(-1, tiling.taps**2).T, filters.reshape(len(both), -1))


def tile_steps(call: Call, tiling: Tiling, filters: Array) -> List[Step]:
    """Convolves input 0 with the filters U into output 0, by the first two buffers."""
    filtering: Dict[int, List[Step]] = {}  # by the number of tiles: blocks of one size share their steps
    steps: List[Step] = []
    for block in call.mine(list(tiling.blocks(call.workers))):
        tiles = block.extent[0] * block.extent[1]
        if tiles not in filtering:
            filtering[tiles] = list(_filter(call.scratch, tiling, filters, tiles))
        steps += [*_gather(call, tiling, block), *filtering[tiles], *_scatter(call, tiling, block)]
    return steps


def _filter(scratch: Sequence[Array], tiling: Tiling, filters: Array, tiles: int) -> Iterator[Step]:
    """From the pixels under the tiles, in the first buffer, to those of the tiles, in the second."""
    channels, width, tile, reach = tiling.convolution.channels, tiling.convolution.filters, tiling.tile, tiling.reach
    front, back = scratch[:2]
    output, _, before = (matrix.astype(front.dtype) for matrix in transforms(tile, tiling.taps))
    pixels, spectrum = (shaped(buffer, reach, reach, channels * tiles) for buffer in (front, back))
    yield multiply(before, pixels.swapaxes(0, 1), spectrum.swapaxes(0, 1))
    yield multiply(before, spectrum, pixels)
    products = shaped(back, reach, reach, width * tiles)
    yield _products(filters, pixels.reshape(reach**2, channels, tiles), products.reshape(reach**2, width, tiles))
    half, y = shaped(front, tile, reach, width * tiles), shaped(back, tile, tile, width * tiles)
    yield multiply(output, products.swapaxes(0, 1), half.swapaxes(0, 1))
    yield multiply(output, half, y)


def _gather(call: Call, tiling: Tiling, block: Block) -> Iterator[Step]:
    """Copies the pixels under the tiles into the first buffer: (reach, reach, C, tile rows, tile columns)."""
    x = call.inputs[0][block.image]
    pixels = shaped(call.scratch[0], tiling.reach, tiling.reach, x.shape[0], *block.extent)
    for phase in np.ndindex(tiling.reach, tiling.reach):
        rows = tiling.window.overlap(0, phase[0], *block.rows)
        columns = tiling.window.overlap(1, phase[1], *block.columns)
        target = pixels[phase]
        if rows is None or columns is None:
            yield copy(target, ZERO)
            continue
        yield copy(target[:, rows.out, columns.out], x[:, rows.image, columns.image])
        for margin in margins(target, (rows.out, columns.out)):
            yield copy(margin, ZERO)


def _products(filters: Array, spectrum: Array, out: Array) -> Step:
    """out = filters @ spectrum a frequency, cut into panels of filters that BLAS multiplies without packing."""
    frequencies, width, channels = filters.shape
    most = SMALL_PRODUCT // (channels * spectrum.shape[-1])
    panel = max((n for n in range(LEAST_PANEL, min(most, width) + 1) if width % n == 0), default=width)
    shape = (frequencies, width // panel, panel)
    return multiply(filters.reshape(*shape, channels), spectrum[:, None], out.reshape(*shape, spectrum.shape[-1]))


def _scatter(call: Call, tiling: Tiling, block: Block) -> Iterator[Step]:
    """Copies the pixels from the second buffer, (m, m, M, tile rows, tile columns), to the output; finishes them."""
    tile, output = tiling.tile, tiling.convolution.window.output
    pixels = shaped(call.scratch[1], tile, tile, tiling.convolution.filters, *block.extent)
    begin, end = block.rows[0] * tile, min(block.rows[1] * tile, output[0])
    left, right = block.columns[0] * tile, min(block.columns[1] * tile, output[1])
    y = call.outputs[0][block.image, :, begin:end, left:right]
    for phase in np.ndindex(tile, tile):
        target = y[:, phase[0] :: tile, phase[1] :: tile]
        yield copy(target, pixels[phase][:, : target.shape[1], : target.shape[2]])
    whole_rows = right - left == output[1]
    yield from finish(call, y.reshape(y.shape[0], -1) if whole_rows else y.swapaxes(0, 1), False)
