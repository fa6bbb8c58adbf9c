"""A first convolution and the max pool behind it, whose windows overlap, while the convolution's results are cached.

A pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m, see ``tiled_pool``. The windows of a row of
tiles reach into the row above or below. So the convolution's results lie in a window of rows that moves down the image:

    kept   o o o     the last rows of the block before, copied to the front
    block  x x x     what ``tiled_stem`` computes
           x x x     all rows of the pool whose windows end here are made, and the next block follows

What the convolution makes never leaves the cache, and takes no memory of the plan.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from runtime_arm.blocks import ranges
from runtime_arm.engines import tiled, tiled_pool
from runtime_arm.engines.pointwise import PASS
from runtime_arm.engines.steps import Step, copy, shaped
from runtime_arm.engines.tiled_epilogue import Landing, finish
from runtime_arm.engines.tiled_pool import Rows
from runtime_arm.engines.tiled_stem import Block, Stem, computed
from runtime_arm.kernel import Call, Kernel, Run, Specs, Work
from runtime_arm.layouts import Strip, Tiles
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv import Convolution
from runtime_arm.operators.geometry import Window
from runtime_arm.tensor import TensorSpec

FLOAT32 = np.dtype(np.float32)


class Moving(NamedTuple):
    """The rows of tiles of the convolution's results that a row of the pool's meets: from ``above`` to ``below``."""

    above: int
    below: int

    @classmethod
    def under(cls, window: Window, tile: int) -> Moving:
        """window: the pool's; tile: that of its results."""
        last = (tile - 1) * window.stride[0] + window.kernel[0] - 1 - window.head[0]
        return cls(-window.head[0] // (tile * window.stride[0]), last // (tile * window.stride[0]))

    @property
    def kept(self) -> int:
        """Rows that two rows of the pool have in common."""
        return self.below - self.above


def suits(window: Window, tile: int) -> bool:
    """Whether windows overlap by so little that one row of tiles is kept."""
    return window.stride == (2, 2) and set(window.dilation) == {1} and Moving.under(window, tile).kept == 1


def work(convolving: Work, window: Window, y: TensorSpec) -> Work:
    """The convolution, and passes over what is cached."""
    passes = window.stride[0] * (window.kernel[0] - 1) + window.kernel[1] - 1
    return convolving._replace(moves=convolving.moves + PASS * (passes - 1) * y.size)


def kernel(convolution: Convolution, window: Window, between: Tiles, y: Tiles, pool: OperatorDef) -> Kernel:
    """between: the layout of the convolution's results if they lay somewhere, y: that of the output. The operator is
    the convolution, with an activation that may come behind the pool, as its own, of ``pool``, does."""
    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return _scratch(_stem(convolution, between, FLOAT32, tiled.block_nbytes(op)), FLOAT32)

    def hints(op: OperatorDef) -> Sequence[str]:
        def blocks(nbytes: int) -> Sequence[object]:
            return _stem(convolution, between, FLOAT32, nbytes).blocks(1)

        return list(tiled.block_hints(op, blocks))

    return Kernel("IM2COL", partial(_bind, convolution=convolution, window=window, between=between, y=y, pool=pool),
                  scratch=scratch, shares=True, writes_slices=True, hints=hints)  # fmt: skip


def _stem(convolution: Convolution, between: Tiles, dtype: np.dtype, block: int) -> Stem:
    """block: bytes; there is more, for the largest part, the window, is written and read once."""
    return Stem(convolution, between, dtype.itemsize, block * 3 // 2, between.tile**2)


def _scratch(stem: Stem, dtype: np.dtype) -> Sequence[TensorSpec]:
    """The split image and the columns of a block, the window, and what the pool has between its passes."""
    between = stem.y
    split, columns, _ = stem.sizes()
    rows = (min(stem.high, between.rows) + 1) * between.pitch * between.channels  # one is kept
    return [TensorSpec((size,), dtype) for size in (split, columns, between.tile**2 * rows, between.tile * rows)]


def _bind(call: Call, convolution: Convolution, window: Window, between: Tiles, y: Tiles, pool: OperatorDef) -> Run:
    stem = _stem(convolution, between, FLOAT32, tiled.block_nbytes(call.op))
    moving = Moving.under(window, y.tile)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], y)
    rows = y.image_tiles((0, 0))[0]
    for image in range(y.batch):
        for part in call.mine(ranges(rows, -(-rows // call.workers))):
            for (begin, end), making in _made(call, stem, window, moving, y, image, part):
                steps += making
                if begin < end:
                    strip = Strip(image * y.rows + begin, image * y.rows + end, 0, y.pitch, y.pitch)
                    steps += [*finish(call, y, strip, []), *finish(call.of(pool), y, strip, []),
                              *tiled.clear(call, y, strip)]  # fmt: skip
    return tiled.in_turn(steps)


def _made(call: Call, stem: Stem, window: Window, moving: Moving, y: Tiles, image: int,
          part: Tuple[int, int]) -> Iterator[Tuple[Tuple[int, int], List[Step]]]:
    """Rows of the pool's results, block by block, and the steps that make them."""
    between, (done, end) = stem.y, part
    top, last = max(done + moving.above, 0), min(end + moving.below, between.image_tiles((0, 0))[0])
    height = min(stem.high, between.rows) + moving.kept
    memory = shaped(call.scratch[2], between.tile, between.tile, height, between.pitch, between.channels)
    buffer = shaped(call.scratch[3], between.tile, height, between.pitch, between.channels)
    target = Rows.of_image(call.outputs[0], y, image)
    for block in [Block(image, top + begin, top + stop) for begin, stop in ranges(last - top, stem.high)]:
        steps = list(computed(call, stem, block, _landings(memory[:, :, block.first - top : block.last - top])))
        ready = end if block.last == last else block.last - moving.below
        if done < ready:
            steps += tiled_pool.pooled(window, np.maximum, Rows(memory, top, between), buffer, target, (done, ready))
        kept = max(ready + moving.above, top)
        if block.last < last and kept > top:
            steps.append(copy(memory[:, :, : block.last - kept], memory[:, :, kept - top : block.last - top]))
        yield (done, ready), steps
        done, top = ready, kept


def _landings(products: Array) -> Iterator[Landing]:
    """products: (tile, tile, rows, pitch, M)."""
    for plane in np.ndindex(*products.shape[:2]):
        yield plane, [(slice(None), products[plane].reshape(-1, products.shape[-1]), [])]
