"""A max pool behind a convolution, strip by strip, while the convolution's results are cached.

Where windows do not overlap, a pool of stride s makes tiles of m x m pixels from tiles of s * m x s * m at the same
positions: pixel (py, px) of a tile is the largest of the planes s * py + ky, s * px + kx. What the convolution makes
lies in scratch, and the pool's results are what is written.

The largest of several numbers stays the largest whatever is added to all of them, and behind limits; so biases, ReLU
and clipping come behind the pool, for fewer elements. They make the same numbers there.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import limits_of
from runtime_arm.engines.tiled.epilogue import Landing, Pass, finish
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.fused.fused import MAX, activation_of
from runtime_arm.operators.pool.caffe2 import Pool
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.steps import Step, copy, shaped


class Pooling(NamedTuple):
    """Windows of ``kernel`` pixels, no larger than ``stride``, the same for rows and columns."""

    kernel: Tuple[int, int]
    stride: int

    @classmethod
    def of(cls, pool: Pool) -> Optional[Pooling]:
        """What the pool does, if its windows neither overlap nor reach beyond the image."""
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
        return self.kernel[0] * self.kernel[1]

    def before(self, y: Tiles) -> Tiles:
        """What is pooled, as far as it is seen: tiles whose positions are those of ``y``, the pool's results."""
        return y._replace(
            height=y.height * self.stride,
            width=y.width * self.stride,
            tile=y.tile * self.stride,
            border=y.border * self.stride,
        )

    def after(self, x: Tiles) -> Tiles:
        """The pool's results, where ``x`` is what is before them."""
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
        """From planes (tiles, tiles, positions, channels), which are overwritten, to those of the results."""
        rows = products[:: self.stride]
        for ky in range(1, self.kernel[0]):
            yield partial(np.maximum, rows, products[ky :: self.stride], out=rows)
        first, *others = (rows[:, kx :: self.stride] for kx in range(self.kernel[1]))
        if not others:
            yield copy(results, first)
        for other in others:
            yield partial(np.maximum, first, other, out=results)
            first = results

    def landings(
        self, call: Call, y: Tiles, strip: Strip, passes: Sequence[Pass], channels: slice, buffer: Array
    ) -> Iterator[Landing]:
        """For kernels that make plane by plane: the products of the windows of one plane of output 0, in layout ``y``,
        at a time."""
        width = call.outputs[0][..., channels].shape[-1]
        products = shaped(buffer, *self.kernel, strip.size, width)
        for py, px in np.ndindex(y.tile, y.tile):
            part = slice(py, py + 1), slice(px, px + 1), slice(None)
            for ky, kx in np.ndindex(*self.kernel):
                then = (
                    list(finish(call, y, strip, passes, products, channels, part, pooling=self))
                    if ((ky + 1, kx + 1) == self.kernel)
                    else []
                )
                plane = py * self.stride + ky, px * self.stride + kx
                yield plane, [(slice(None), products[ky, kx], then)]
