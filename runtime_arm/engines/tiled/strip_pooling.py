"""A max pool after a convolution, strip by strip, while the convolution's results are in the cache.

Where windows do not overlap, a pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m at the same
positions: the pixel of phase (py, px) is the largest of those of phases (s * py + ky, s * px + kx). The convolution's
results are in scratch memory, and only the pool's results are written.

The largest of several numbers stays the largest if one number is added to all of them, or all of them are limited. So
biases, ReLU and clipping may come after the pool, where there are fewer elements; the results are the same.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, Optional, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import limits_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.fused import MAX, activation_of
from runtime_arm.operators.pool.caffe2 import Pool
from runtime_arm.records import NamedTuple
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.steps import Step, copy


class Pooling(NamedTuple):
    """Windows of ``kernel`` pixels, no larger than ``stride``, which is the same for rows and columns."""

    kernel: Tuple[int, int]
    stride: int

    @classmethod
    def of(cls, pool: Pool) -> Optional[Pooling]:
        """What the pool does, if its windows neither overlap nor reach beyond the image; else None."""
        window = pool.window
        if pool.channels_last or window.ndim != 2 or window.stride[0] != window.stride[1]:
            return None
        if max(window.kernel) > window.stride[0] or set(window.dilation) != {1} or any(window.head):
            return None
        reach = ((o - 1) * s + k for o, s, k in zip(window.output, window.stride, window.kernel))
        inside = all(far <= size for far, size in zip(reach, window.image))
        return cls((window.kernel[0], window.kernel[1]), window.stride[0]) if inside else None

    @property
    def taps(self) -> int:
        """Pixels under a window."""
        return self.kernel[0] * self.kernel[1]

    def before(self, y: Tiles) -> Tiles:
        """The layout of the blob that is pooled into ``y``, as far as windows reach: the positions are the same."""
        return y._replace(
            height=y.height * self.stride,
            width=y.width * self.stride,
            tile=y.tile * self.stride,
            border=y.border * self.stride,
        )

    def after(self, x: Tiles) -> Tiles:
        """The layout of the pool's result for ``x``; the inverse of ``before``."""
        return x._replace(
            height=x.height // self.stride,
            width=x.width // self.stride,
            tile=x.tile // self.stride,
            border=x.border // self.stride,
        )

    def comes_first(self, op: OperatorDef) -> bool:
        """Whether the pool may come before what else follows the convolution's products."""
        activation = activation_of(op)
        return activation is None or activation.full_type == MAX or bool(limits_of(op))

    def steps(self, products: Array, results: Array) -> Iterator[Step]:
        """From planes (tile, tile, positions, channels), which are overwritten, to the pooled ones."""
        rows = products[:: self.stride]
        for ky in range(1, self.kernel[0]):
            yield partial(np.maximum, rows, products[ky :: self.stride], out=rows)
        first, *others = (rows[:, kx :: self.stride] for kx in range(self.kernel[1]))
        if not others:
            yield copy(results, first)
        for other in others:
            yield partial(np.maximum, first, other, out=results)
            first = results
