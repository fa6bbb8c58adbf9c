"""Cross-layer equalisation: divides channels where they are written and multiplies them where they are read.

The divisors bring the filters that write a channel, and the columns of the weights that read it, to the same share of
their weights' ranges (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019,
section 4.1), a class of channels at a time (see ``channels``), by turns until nothing moves much. The net computes the
same, but for float32's rounding.

A limit such as ReLU6's is no obstacle where it is proven never to be reached, before and after: the channel comes from
a layer that reads numbers between known bounds, and the sum of all products stays below the limit.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import numpy as np

from optimize.quantization.channels import Channels
from optimize.quantization.filters import Filters
from optimize.quantization.layers import layer_name
from optimize.rewriting.program import Program
from runtime_arm.netdef import Array

_ROUNDS = 10
_MOST = 256.0  # by which a channel is divided or multiplied
_TINY = 1e-9  # of a weight's range: what counts as no weight at all


def equalized(program: Program) -> Tuple[Program, List[str]]:
    """The program with equalised layers, and their names."""
    channels = Channels(program)
    divisors = _divisors(program, channels)
    updates: Dict[str, Array] = {}
    changed = []
    for layer in channels.layers:
        by_input, by_output = _of(channels, layer, divisors)
        weight = program.value(layer.weight)
        assert weight is not None
        if bool(np.all(by_input == 1) and np.all(by_output == 1)):
            continue
        scaled = layer.grouped(weight) * by_input / by_output
        updates[layer.weight] = layer.restored(scaled.astype(np.float32), weight)
        bias = program.value(layer.bias) if layer.bias else None
        if layer.bias and bias is not None:
            updates[layer.bias] = (bias / by_output.reshape(-1)).astype(np.float32)
        changed.append(layer_name(layer.op))
    weights = program.weights.changed(dict.fromkeys(updates)).changed(updates)
    return Program(program.net, weights, program.known_specs, program.outside), changed


def _of(channels: Channels, layer: Filters, divisors: Array) -> Tuple[Array, Array]:
    """The divisors of channels that a layer reads, (groups, 1, channels, 1), and writes, (groups, filters, 1, 1)."""
    groups, count, depth, _ = layer.shape
    x, y = channels.classes(layer.op.input[0]), channels.classes(layer.op.output[0])
    return divisors[x].reshape(groups, 1, depth, 1), divisors[y].reshape(groups, count, 1, 1)


def _divisors(program: Program, channels: Channels) -> Array:
    """What each class of channels is divided by, float64."""
    fixed, least = channels.fixed, _least(program, channels)
    divisors = np.ones(len(fixed))
    magnitudes = []
    for layer in channels.layers:
        weight = program.value(layer.weight)
        assert weight is not None
        magnitudes.append(np.abs(layer.grouped(weight)).max(axis=3, keepdims=True).astype(np.float64))
    for _ in range(_ROUNDS):
        written, read = np.zeros((2, len(fixed)))
        for layer, magnitude in zip(channels.layers, magnitudes):
            by_input, by_output = _of(channels, layer, divisors)
            scaled = magnitude * by_input / by_output
            scaled /= max(float(scaled.max(initial=0)), np.finfo(np.float64).tiny)
            np.maximum.at(written, channels.classes(layer.op.output[0]), scaled.max(axis=(2, 3)).reshape(-1))
            np.maximum.at(read, channels.classes(layer.op.input[0]), scaled.max(axis=(1, 3)).reshape(-1))
        moved = ~fixed & (written > _TINY) & (read > _TINY)
        divisors[moved] = np.clip(divisors[moved] * np.sqrt(written[moved] / read[moved]), 1 / _MOST, _MOST)
        limited = least > 0
        divisors[limited] = np.clip(divisors[limited], least[limited], 1)
    return divisors


def _least(program: Program, channels: Channels) -> Array:
    """The least divisor of each class with which no limit cuts anything off; 1 where it may, 0 without a limit."""
    least = np.zeros(len(channels.fixed))
    layers = {layer.op.output[0]: layer for layer in channels.layers}
    for op in channels.limits:
        classes, most = channels.classes(op.input[0]), op.get_float("max")
        bound = _bound(program, layers.get(op.input[0]))
        safe = np.ones(len(classes)) if bound is None else np.where(bound <= most, np.maximum(bound, 0) / most, 1)
        np.maximum.at(least, classes, np.maximum(safe, 1 / _MOST))
    return least


def _bound(program: Program, layer: Optional[Filters]) -> Optional[Array]:
    """The most that each channel of a layer can become, float64; None if what it reads has no known bounds."""
    writer = None if layer is None else program.writer(layer.op.input[0])
    if layer is None or writer is None or not _is_limit(program, writer):
        return None
    weight, bias = program.value(layer.weight), program.value(layer.bias) if layer.bias else None
    assert weight is not None
    most = program.net.op[writer].get_float("max")
    sums = np.maximum(layer.grouped(weight).astype(np.float64), 0).sum(axis=(2, 3)).reshape(-1) * most
    return np.asarray(sums if bias is None else sums + bias)


def _is_limit(program: Program, place: int) -> bool:
    op = program.net.op[place]
    return op.full_type == "Clip" and op.has("max") and op.get_float("min", -1.0) == 0.0
