"""Rounds weights so that what layers compute on samples changes least, instead of each weight to the nearest integer.

Columns of a weight are rounded one after the other; the error of each is spread over those that are still to come, by
the inverse of the inputs' covariance (Frantar and Alistarh, "Optimal Brain Compression", 2022; Frantar et al., "GPTQ",
2022, algorithm 1, columns of large inputs first). A filter for which nearest rounding is better keeps that.

Where a bias can take off by how much rounding shifts the mean of a result, what is left alone may count as an error.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from optimize.quantization.calibration import GROUP_NBYTES, Sample
from optimize.quantization.calibration_cache import CalibrationCache
from optimize.quantization.covariances import Inputs, covariances
from optimize.quantization.filters import Filters, filters_of
from optimize.quantization.layers import layer_name
from optimize.quantization.packing.formats import Grid
from optimize.rewriting.program import Program
from optimize.rewriting.report import Progress, quiet
from runtime_arm.files import AnyPath
from runtime_arm.machine.memory import portions
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

MOST_TERMS = 2048  # of a filter; longer ones, of large matrices, would take minutes a layer
_DAMPING = 0.01  # of the mean of the covariance's diagonal
_COLUMNS = 128  # that are rounded before the rest hears of it


class Biases(Enum):
    """What biases do about the shifts of means that rounding makes: nothing; take them off; take them off, so that
    these do not count as errors. On integers, which shift means, too, the last is no better."""

    KEPT = "kept"
    CORRECTED = "corrected"
    COUNTED_ON = "counted on"


class Rounded(NamedTuple):
    """A rounded weight. steps: int8, of the weight's shape. gain: by how many dB the layer's noise is less. shift: what
    the bias has to take off, float64, one number for each filter; None where that was not asked for."""

    steps: Array
    grid: Grid
    gain: float
    shift: Optional[Array] = None


def round_by_data(
    program: Program,
    pair: Pair,
    samples: Sequence[Sample],
    grid_of: Callable[[str, Array], Optional[Grid]],
    biases: Biases,
    progress: Progress = quiet,
    folder: Optional[AnyPath] = None,
) -> Dict[str, Rounded]:
    """The rounded weight of each layer, by the layer's name, where that is better than nearest rounding.

    grid_of: by a layer's name and its weight; None for layers that are not to be rounded. biases: what those of
    layers that have one of their own do. Covariances of so many layers as ``GROUP_NBYTES`` hold are in memory at a
    time. folder: keeps the layers that are done, and lets a run go on.
    """
    layers: Dict[str, Filters] = {}
    grids: Dict[str, Grid] = {}
    weights: Dict[str, Array] = {}
    for op in program.net.op:
        filters = filters_of(program, op)
        value = None if filters is None else program.value(filters.weight)
        grid = None if value is None else grid_of(layer_name(op), value)
        if filters is not None and value is not None and grid is not None and _terms(filters) <= MOST_TERMS:
            layers[layer_name(op)], grids[layer_name(op)], weights[layer_name(op)] = filters, grid, value
    found: Dict[str, Rounded] = {}
    kept = CalibrationCache(folder, pair, samples)
    for group in portions({name: _nbytes(layer) for name, layer in layers.items()}, GROUP_NBYTES):
        words = ("rounding", biases, group, *(_digest(grids[name]) for name in group))
        before = kept.read(*words)
        part = {name: layers[name] for name in group} if not before else {}
        done: Dict[str, Any] = {"done": len(group)}
        for number, (name, met) in enumerate(covariances(pair, part, weights, samples, progress).items()):
            progress("round weights", number, len(part))
            can = biases if own_bias(program, part[name]) is not None else Biases.KEPT
            rounded = _rounded(part[name], weights[name], grids[name], met, can)
            if rounded is not None:
                place = group.index(name)
                done.update({f"{place} steps": rounded.steps, f"{place} gain": rounded.gain})
                done.update({} if rounded.shift is None else {f"{place} shift": rounded.shift})
        if part:
            kept.write(done, *words)
        for number, name in enumerate(group):
            arrays = before or done
            steps, shift = arrays.get(f"{number} steps"), arrays.get(f"{number} shift")
            if steps is not None:
                found[name] = Rounded(steps, grids[name], float(arrays[f"{number} gain"]), shift)
    return found


def own_bias(program: Program, layer: Filters) -> Optional[Array]:
    """The bias of a layer, one number for each filter, if nothing else knows it and the weight can change, too."""
    if layer.bias is None or len(program.readers(layer.bias)) > 1:
        return None
    if program.why_named(layer.bias) or program.why_named(layer.weight):
        return None
    bias = program.value(layer.bias)
    return bias if bias is not None and bias.shape == (layer.shape[0] * layer.shape[1],) else None


def corrected(program: Program, rounded: Mapping[str, Rounded]) -> Program:
    """The program in which biases take off what the rounded weights of their layers shift."""
    updates: Dict[str, Array] = {}
    for op in program.net.op:
        one, layer = rounded.get(layer_name(op)), filters_of(program, op)
        bias = None if layer is None else own_bias(program, layer)
        if one is not None and one.shift is not None and layer is not None and layer.bias and bias is not None:
            updates[layer.bias] = (bias - one.shift).astype(np.float32)
    weights = program.weights.changed(dict.fromkeys(updates)).changed(updates)
    return Program(program.net, weights, program.known_specs, program.outside)


def _digest(grid: Grid) -> str:
    return hashlib.sha256(np.ascontiguousarray(grid.scales).tobytes()).hexdigest()


def _terms(layer: Filters) -> int:
    return layer.shape[2] * layer.shape[3]


def _nbytes(layer: Filters) -> int:
    """Of a layer's covariance."""
    return 8 * layer.shape[0] * _terms(layer) ** 2


def _rounded(layer: Filters, weight: Array, grid: Grid, met: Inputs, biases: Biases) -> Optional[Rounded]:
    groups, count = layer.shape[:2]
    covariance = met.centred if biases == Biases.COUNTED_ON else met.products
    rows = layer.grouped(weight).reshape(groups, count, -1).astype(np.float64)
    scales = layer.grouped(np.broadcast_to(grid.scales, weight.shape)).reshape(rows.shape).astype(np.float64)
    nearest = np.clip(np.rint(rows / scales), grid.least, grid.most)
    try:
        steps = _by_columns(rows, scales, grid, covariance)
    except np.linalg.LinAlgError:
        return None
    before, after = (_noise(tried * scales - rows, covariance) for tried in (nearest, steps))
    better = after < before
    if not bool(better.any()):
        return None
    steps = np.where(better[..., np.newaxis], steps, nearest)
    gain = 10 * np.log10(max(before.sum(), 1e-300) / max(np.minimum(before, after).sum(), 1e-300))
    shift = np.einsum("gmk,gk->gm", steps * scales - rows, met.mean).reshape(-1)
    restored = layer.restored(steps, weight).astype(np.int8)
    return Rounded(restored, grid, float(gain), None if biases == Biases.KEPT else shift)


def _noise(errors: Array, covariance: Array) -> Array:
    """What errors of filters (groups, filters, K) add to what these compute, squared and summed: (groups, filters)."""
    return np.asarray((np.matmul(errors, covariance) * errors).sum(axis=2))


def _by_columns(rows: Array, scales: Array, grid: Grid, covariance: Array) -> Array:
    """The integers, in float64. All arrays are (groups, ...); columns of large inputs go first."""
    order = np.argsort(-np.einsum("gkk->gk", covariance), axis=1)
    left, scales = (np.take_along_axis(one, order[:, np.newaxis], 2) for one in (rows, scales))
    steps, inverse = np.empty_like(left), _inverse_root(covariance, order)
    terms = left.shape[2]
    for first in range(0, terms, _COLUMNS):
        last = min(first + _COLUMNS, terms)
        errors = np.empty((*left.shape[:2], last - first))
        for column in range(first, last):
            scale = scales[..., column]
            steps[..., column] = np.clip(np.rint(left[..., column] / scale), grid.least, grid.most)
            error = (left[..., column] - steps[..., column] * scale) / inverse[:, column, column, np.newaxis]
            left[..., column:last] -= error[..., np.newaxis] * inverse[:, np.newaxis, column, column:last]
            errors[..., column - first] = error
        left[..., last:] -= np.matmul(errors, inverse[:, first:last, last:])
    back = np.argsort(order, axis=1)
    return np.take_along_axis(steps, back[:, np.newaxis], 2)


def _inverse_root(covariance: Array, order: Array) -> Array:
    """The upper triangular root of the inverse of the damped covariance, its rows and columns in that order."""
    damped = np.take_along_axis(np.take_along_axis(covariance, order[:, :, np.newaxis], 1), order[:, np.newaxis], 2)
    mean = np.einsum("gkk->gk", damped).mean(axis=1)
    damped = damped + np.eye(damped.shape[1]) * (_DAMPING * mean + 1e-12)[:, np.newaxis, np.newaxis]
    return np.asarray(np.linalg.cholesky(np.linalg.inv(damped)).swapaxes(1, 2))
