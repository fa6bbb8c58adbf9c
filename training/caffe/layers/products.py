"""Layers that multiply by weights. Convolutions run on the runtime's kernels, forwards and backwards."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from exporter.caffe.net import title
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, layer
from training.caffe.layers.operation import Operation
from training.caffe.layers.pooling import Windows


class _Sliding(Layer):
    """What convolution_param says of a kernel over N dimensions."""

    def geometry(self, ndim: int) -> Dict[str, List[int]]:
        """Kernel, strides, pads and dilations, one number a dimension."""
        param = self.param("convolution_param")
        sizes = {
            "kernels": self._sizes(param.kernel_size, param, "kernel", ndim, None),
            "strides": self._sizes(param.stride, param, "stride", ndim, 1),
            "pads": self._sizes(param.pad, param, "pad", ndim, 0),
            "dilations": self._sizes(param.dilation, param, "", ndim, 1),
        }
        self.require(min(sizes["kernels"] + sizes["strides"] + sizes["dilations"]) > 0, "sizes must be positive")
        return sizes

    def _sizes(self, given: Sequence[int], param: Any, name: str, ndim: int, default: Optional[int]) -> List[int]:
        if name and (param.HasField(f"{name}_h") or param.HasField(f"{name}_w")):
            self.require(not len(given), f"{name}_h and {name}_w are given beside a size for all dimensions")
            self.require(ndim == 2, f"{name}_h and {name}_w are for two dimensions")
            return [int(getattr(param, f"{name}_h")), int(getattr(param, f"{name}_w"))]
        self.require(len(given) in (0, 1, ndim), f"{name or 'dilation'} needs one number or {ndim}")
        self.require(len(given) > 0 or default is not None, "the kernel has no size")
        return [int(n) for n in given] * (ndim if len(given) == 1 else 1) or [default or 0] * ndim


class _Convolving(_Sliding):
    """Each bottom by itself, with the same parameters. Dimensions before the channels count as one batch."""

    def setup(self, *bottoms: Array) -> None:
        param, x = self.param("convolution_param"), bottoms[0]
        self.at = self.axis(param.axis, x.ndim)
        channels, group, outputs = x.shape[self.at], param.group, param.num_output
        self.require(x.ndim - self.at >= 2, "needs a picture after the channels")
        fits = group > 0 and outputs > 0 and channels % group == 0 == outputs % group
        self.require(fits, f"{channels} channels and {outputs} outputs do not fit {group} groups")
        sizes = self.geometry(x.ndim - self.at - 1)
        self.add_blob((*self.filters(channels, outputs, group), *sizes["kernels"]), param.weight_filler)
        if param.bias_term:
            self.add_blob((outputs,), param.bias_filler)
        self.make_operations({**sizes, "pads": sizes["pads"] * 2, "group": group})

    def filters(self, channels: int, outputs: int, group: int) -> List[int]:
        """The first two dimensions of the weights."""
        raise NotImplementedError

    def make_operations(self, arguments: Dict[str, Any]) -> None:
        """Make the operations of both passes from Conv's arguments."""
        raise NotImplementedError

    def _check(self, bottoms: Sequence[Array]) -> None:
        self.require(len({x.shape for x in bottoms}) == 1, "its bottoms must have one shape")

    def forward(self, *bottoms: Array) -> List[Array]:
        self._check(bottoms)
        self.bottoms = [x.reshape(-1, *x.shape[self.at :]) for x in bottoms]
        self.outer = [x.shape[: self.at] for x in bottoms]
        self.shapes = [x.shape for x in bottoms]
        tops = [self.run(x, *(blob.data for blob in self.blobs))[0] for x in self.bottoms]
        return [y.reshape(*outer, *y.shape[1:]) for y, outer in zip(tops, self.outer)]

    def trial(self, *bottoms: Array) -> List[Array]:
        self._check(bottoms)
        rows = [x.reshape(-1, *x.shape[self.at :]) for x in bottoms]
        tops = [self.run.trial(x, *(blob.data for blob in self.blobs))[0] for x in rows]
        return [y.reshape(*x.shape[: self.at], *y.shape[1:]) for x, y in zip(bottoms, tops)]

    def backward(self, *diffs: Array) -> Diffs:
        found: List[Array] = []
        for x, shape, given in zip(self.bottoms, self.shapes, diffs):
            dy = given.reshape(-1, *given.shape[self.at :])
            weights, dx = self.gradients(x, dy)
            self.blobs[0].diff[...] += weights
            if len(self.blobs) > 1:
                self.blobs[1].diff[...] += dy.sum((0, *range(2, dy.ndim)))
            found.append(dx.reshape(shape))
        return found

    run: Operation

    def gradients(self, x: Array, dy: Array) -> Sequence[Array]:
        """Those of the weights and of the bottom."""
        raise NotImplementedError


@layer("Convolution")
class Convolution(_Convolving):
    def filters(self, channels: int, outputs: int, group: int) -> List[int]:
        return [outputs, channels // group]

    def make_operations(self, arguments: Dict[str, Any]) -> None:
        self.run = Operation("Conv", 1, **arguments)
        self.run_back = Operation("ConvGradient", 2, no_bias=1, **arguments)

    def gradients(self, x: Array, dy: Array) -> Sequence[Array]:
        return self.run_back(x, self.blobs[0].data, dy)


@layer("Deconvolution")
class Deconvolution(_Convolving):
    """A convolution the other way round: its gradient is a convolution."""

    def filters(self, channels: int, outputs: int, group: int) -> List[int]:
        return [channels, outputs // group]

    def make_operations(self, arguments: Dict[str, Any]) -> None:
        strides, dilations = arguments["strides"], arguments["dilations"]
        pads, group = arguments["pads"], arguments["group"]
        self.run = Operation("ConvTranspose", 1, "onnx", strides=strides, pads=pads, dilations=dilations, group=group)
        self.run_back = Operation("Conv", 1, **arguments)
        self.weights_back = Operation("ConvGradient", 2, no_bias=1, **arguments)

    def gradients(self, x: Array, dy: Array) -> Sequence[Array]:
        weights = self.blobs[0].data
        return [self.weights_back(dy, weights, x)[0], *self.run_back(dy, weights)]


@layer("InnerProduct")
class InnerProduct(Layer):
    def setup(self, x: Array) -> None:
        param = self.param("inner_product_param")
        depth = int(np.prod(x.shape[self.axis(param.axis, x.ndim) :]))
        shape = (depth, param.num_output) if param.transpose else (param.num_output, depth)
        self.add_blob(shape, param.weight_filler)
        if param.bias_term:
            self.add_blob((param.num_output,), param.bias_filler)

    def _rows(self, x: Array) -> Array:
        at = self.axis(self.param("inner_product_param").axis, x.ndim)
        rows = x.reshape(int(np.prod(x.shape[:at])), -1)
        self.require(rows.shape[1] in self.blobs[0].shape, f"the input has {rows.shape[1]} values a row")
        return rows

    def _top(self, x: Array, y: Array) -> List[Array]:
        param = self.param("inner_product_param")
        return [y.reshape(*x.shape[: self.axis(param.axis, x.ndim)], param.num_output)]

    def forward(self, x: Array) -> List[Array]:
        param, weights = self.param("inner_product_param"), self.blobs[0].data
        self.shape, self.rows = x.shape, self._rows(x)
        y = self.rows @ (weights if param.transpose else weights.T)
        if param.bias_term:
            y = y + self.blobs[1].data
        return self._top(x, y)

    def trial(self, x: Array) -> List[Array]:
        return self._top(x, np.zeros((len(self._rows(x)), self.param("inner_product_param").num_output), np.float32))

    def backward(self, dy: Array) -> Diffs:
        param = self.param("inner_product_param")
        rows, weights = dy.reshape(len(self.rows), -1), self.blobs[0]
        weights.diff[...] += self.rows.T @ rows if param.transpose else rows.T @ self.rows
        if param.bias_term:
            self.blobs[1].diff[...] += rows.sum(0)
        return [(rows @ (weights.data.T if param.transpose else weights.data)).reshape(self.shape)]


@layer("Embed")
class Embed(Layer):
    """A row of the weights for each index."""

    def setup(self, x: Array) -> None:
        param = self.param("embed_param")
        self.add_blob((param.input_dim, param.num_output), param.weight_filler)
        if param.bias_term:
            self.add_blob((param.num_output,), param.bias_filler)

    def forward(self, x: Array) -> List[Array]:
        self.index = x.astype(np.int64)
        rows = self.blobs[0].data
        self.require(bool(((self.index >= 0) & (self.index < len(rows))).all()), "an index is out of range")
        y = rows[self.index]
        return [y + self.blobs[1].data if len(self.blobs) > 1 else y]

    def backward(self, dy: Array) -> Diffs:
        if any(self.propagate):
            raise ExportError(f"{title(self.proto)}: indices have no gradient")
        np.add.at(self.blobs[0].diff, self.index, dy)
        if len(self.blobs) > 1:
            self.blobs[1].diff[...] += dy.reshape(-1, dy.shape[-1]).sum(0)
        return [None]


@layer("Im2col")
class Im2col(_Sliding):
    """The pixels of every window as channels."""

    def forward(self, x: Array) -> List[Array]:
        sizes = self.geometry(2)
        image = (x.shape[2], x.shape[3])
        kernel, stride, pad, dilation = (
            (n[0], n[1]) for n in (sizes["kernels"], sizes["strides"], sizes["pads"], sizes["dilations"])
        )
        count = [(n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, p, d in zip(image, kernel, stride, pad, dilation)]
        self.windows = Windows(image, kernel, stride, pad, (count[0], count[1]), dilation)
        padded = self.windows.padded(x, 0)
        columns = np.stack([padded[..., i, j] for i, j in self.windows.taps()], 2)
        return [columns.reshape(len(x), -1, *count)]

    def backward(self, dy: Array) -> Diffs:
        taps = self.windows.kernel[0] * self.windows.kernel[1]
        columns = dy.reshape(len(dy), -1, taps, *self.windows.output)
        dx = self.windows.padded(np.zeros((*columns.shape[:2], *self.windows.image), np.float32), 0)
        for number, (i, j) in enumerate(self.windows.taps()):
            dx[..., i, j] += columns[:, :, number]
        return [self.windows.inner(dx)]
