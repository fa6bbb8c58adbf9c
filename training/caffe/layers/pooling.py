"""Pooling and pyramids of pools. Padded pictures are read tap by tap, the same element of every window at once."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Tuple

import numpy as np

from exporter.caffe.net import title
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, layer

MAX, AVE = 0, 1
Pair = Tuple[int, int]


class Windows(NamedTuple):
    """A kernel over a picture, height and width: sizes, strides, pads, the number of windows, and dilations."""

    image: Pair
    kernel: Pair
    stride: Pair
    pad: Pair
    output: Pair
    dilation: Pair = (1, 1)

    def padded(self, x: Array, value: float) -> Array:
        """The picture with what is around it, as far as the windows reach."""
        ends = [max((out - 1) * s + (k - 1) * d + 1 - pad - n, 0) for n, k, s, pad, out, d in zip(*self)]
        around = [(0, 0)] * (x.ndim - 2) + list(zip(self.pad, ends))
        return np.pad(x, around, constant_values=value)

    def taps(self) -> Iterator[Tuple[slice, slice]]:
        """Where each element of the kernel lies in the padded picture, row by row."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                yield tuple(  # type: ignore[misc]
                    slice(at * d, at * d + (out - 1) * s + 1, s)
                    for at, out, s, d in zip((i, j), self.output, self.stride, self.dilation)
                )

    def inner(self, x: Array) -> Array:
        """A padded picture without its padding."""
        (top, left), (height, width) = self.pad, self.image
        return x[..., top : top + height, left : left + width]

    def counts(self) -> Array:
        """The number of pixels that AVE divides by: those in the picture and its stated padding."""
        lines: List[Array] = []
        for n, k, s, pad, out, _ in zip(*self):
            start = np.arange(out) * s - pad
            lines.append(np.minimum(start + k, n + pad) - start)
        counts: Array = np.multiply.outer(*lines).astype(np.float32)
        return counts


class Pool:
    """The largest or the mean element of every window. Of equal elements the first is the largest; a window that lies
    outside the picture has the least float32, as in Caffe."""

    def __init__(self, windows: Windows, mode: int):
        self.windows, self.mode = windows, mode

    def forward(self, x: Array) -> Array:
        windows = self.windows
        if self.mode == AVE:
            padded = windows.padded(x, 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray(sum(padded[..., i, j] for i, j in windows.taps()) / windows.counts())
        padded = windows.padded(x, -np.inf)
        best = np.full((*x.shape[:-2], *windows.output), np.finfo(np.float32).min, np.float32)
        self.winner = np.full(best.shape, -1, np.int32)
        for number, (i, j) in enumerate(windows.taps()):
            value = padded[..., i, j]
            better = value > best
            best = np.where(better, value, best)
            self.winner[better] = number
        return best

    def places(self) -> Array:
        """Where in its picture each maximum is, as one number."""
        windows = self.windows
        row, column = (
            np.arange(out).reshape(shape) * s - pad
            for out, shape, s, pad in zip(windows.output, ((-1, 1), (1, -1)), windows.stride, windows.pad)
        )
        width = windows.kernel[1]
        found = (row + self.winner // width) * windows.image[1] + column + self.winner % width
        return found.astype(np.float32)

    def backward(self, dy: Array) -> Array:
        windows = self.windows
        dx = windows.padded(np.zeros((*dy.shape[:-2], *windows.image), np.float32), 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = dy / windows.counts() if self.mode == AVE else dy
        for number, (i, j) in enumerate(windows.taps()):
            dx[..., i, j] += share if self.mode == AVE else share * (self.winner == number)
        return windows.inner(dx)


def windows_of(layer: Layer, x: Array) -> Windows:
    """The windows that pooling_param describes."""
    param, image = layer.param("pooling_param"), (x.shape[2], x.shape[3])
    for name in ("pad", "stride"):
        sides = [param.HasField(f"{name}_{side}") for side in "hw"]
        layer.require(
            not any(sides) or (all(sides) and not param.HasField(name)), f"needs {name}, or {name}_h and {name}_w"
        )
    if param.global_pooling:
        sized = any(param.HasField(f"kernel_{name}") for name in ("size", "h", "w"))
        layer.require(not sized, "global_pooling takes no size of a kernel")
        moved = any((param.pad, param.pad_h, param.pad_w)) or {param.stride, param.stride_h, param.stride_w} - {0, 1}
        layer.require(not moved, "global_pooling takes no pad and no stride")
        kernel, stride, pad = image, (1, 1), (0, 0)
    else:
        kernel = (param.kernel_size,) * 2 if param.HasField("kernel_size") else (param.kernel_h, param.kernel_w)
        stride = (param.stride_h, param.stride_w) if param.HasField("stride_h") else (param.stride,) * 2
        pad = (param.pad_h, param.pad_w) if param.HasField("pad_h") or param.HasField("pad_w") else (param.pad,) * 2
    layer.require(min(*kernel, *stride) > 0, f"kernel {kernel} and stride {stride} must be positive")
    layer.require(all(p < k for p, k in zip(pad, kernel)), f"the pad {pad} must be smaller than the kernel {kernel}")
    down = param.HasField("round_mode") and param.round_mode == 1
    output = [_count(*sizes, down) for sizes in zip(image, kernel, stride, pad)]
    layer.require(min(output) > 0, f"the kernel {kernel} is larger than the picture {image}")
    return Windows(image, kernel, stride, pad, (output[0], output[1]))


def _count(n: int, kernel: int, stride: int, pad: int, down: bool) -> int:
    room = n + 2 * pad - kernel
    count = (room // stride if down else -(-room // stride)) + 1
    return count - 1 if pad and (count - 1) * stride >= n + pad else count


@layer("Pooling")
class Pooling(Layer):
    def _pool(self, x: Array) -> Pool:
        mode = self.param("pooling_param").pool
        self.require(mode in (MAX, AVE), "stochastic pooling runs on GPUs alone")
        self.require(x.ndim == 4, "needs pictures (N, C, H, W)")
        self.require(mode == MAX or len(self.proto.top) == 1, "means have no places")
        return Pool(windows_of(self, x), mode)

    def forward(self, x: Array) -> List[Array]:
        self.pool = self._pool(x)
        return [self.pool.forward(x), *([self.pool.places()] if len(self.proto.top) > 1 else [])]

    def trial(self, x: Array) -> List[Array]:
        y = np.zeros((*x.shape[:-2], *self._pool(x).windows.output), np.float32)
        return [y] * max(1, min(len(self.proto.top), 2))

    def backward(self, dy: Array, *_: Array) -> Diffs:
        if self.pool.mode == MAX and (self.pool.winner < 0).any():
            raise ExportError(f"{title(self.proto)}: a window lies outside the picture, its maximum has no gradient")
        return [self.pool.backward(dy)]


@layer("SPP")
class SPP(Layer):
    """Pools of 1, 4, 16 ... windows, each flattened, one after the other."""

    def forward(self, x: Array) -> List[Array]:
        param, image = self.param("spp_param"), (x.shape[2], x.shape[3])
        self.pools: List[Pool] = []
        for level in range(param.pyramid_height):
            bins = 2**level
            kernel = (-(-image[0] // bins), -(-image[1] // bins))
            pad = ((kernel[0] * bins - image[0] + 1) // 2, (kernel[1] * bins - image[1] + 1) // 2)
            self.require(all(p < k for p, k in zip(pad, kernel)), f"{image} pixels cannot be divided into {bins} bins")
            count = [_count(*sizes, False) for sizes in zip(image, kernel, kernel, pad)]
            self.pools.append(Pool(Windows(image, kernel, kernel, pad, (count[0], count[1])), param.pool))
        tops = [pool.forward(x) for pool in self.pools]
        self.shapes = [y.shape for y in tops]
        flat = [y.reshape(len(x), -1) for y in tops]
        self.ends = np.cumsum([y.shape[1] for y in flat])[:-1]
        return [tops[0] if len(tops) == 1 else np.concatenate(flat, 1)]

    def backward(self, dy: Array) -> Diffs:
        parts = np.split(dy.reshape(len(dy), -1), self.ends, 1)
        found = [pool.backward(part.reshape(shape)) for pool, part, shape in zip(self.pools, parts, self.shapes)]
        return [np.asarray(sum(found))]
