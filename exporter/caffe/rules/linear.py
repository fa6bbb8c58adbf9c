"""Layers that multiply by, or select rows of, a weight matrix."""

from __future__ import annotations

import math

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


@rule("InnerProduct")
def inner_product(layer: Layer) -> None:
    """X, with its dimensions from the axis on flattened, times the weights (outputs, inputs)."""
    layer.counts()
    param = layer.param("inner_product_param")
    layer.require(param.num_output > 0, "num_output must be positive")
    axis, dims = layer.axis(param.axis), layer.dims()
    layer.require_blobs(1 + int(param.bias_term))
    known = dims is not None and None not in dims[axis:]
    inputs = math.prod(n for n in dims[axis:] if n is not None) if dims is not None and known else None
    shape = [inputs, param.num_output] if param.transpose else [param.num_output, inputs]
    weights = layer.trained(0, shape)
    table = layer.constant("w", np.ascontiguousarray(weights.T) if param.transpose else weights)
    bias = (
        layer.weight("b", 1, [param.num_output])
        if param.bias_term
        else layer.constant("b", np.zeros(param.num_output, np.float32))
    )
    layer.add("FC", [*layer.bottoms, table, bias], axis=axis)


@rule("Embed")
def embed(layer: Layer) -> None:
    """Rows of a table at indices that are whole numbers stored as floats."""
    layer.counts()
    param = layer.param("embed_param")
    layer.require(param.num_output > 0 and param.input_dim > 0, "num_output and input_dim must be positive")
    layer.require_blobs(1 + int(param.bias_term))
    names = [layer.weight("table", 0, [param.input_dim, param.num_output])]
    if param.bias_term:
        names.append(layer.weight("b", 1, [param.num_output]))
    layer.caffe("Embed", [*layer.bottoms, *names])
