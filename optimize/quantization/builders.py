"""How a pair of fewer bits is built, given the layers that stay float; what does not depend on these is done once."""

from __future__ import annotations

import math
from functools import cached_property, partial
from statistics import fmean
from typing import AbstractSet, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

import optimize
from optimize import pipeline
from optimize.quantization.calibration import Calibration, Sample, calibrated
from optimize.quantization.distinct_layers import with_distinct_layers
from optimize.quantization.dynamic import hybrid_layers
from optimize.quantization.equalize_layers import equalized
from optimize.quantization.headroom import with_headroom
from optimize.quantization.integers import blobs_to_calibrate, to_integers
from optimize.quantization.integers.net import Precision
from optimize.quantization.integers.products import product_scales
from optimize.quantization.layers import Layer, layer_name, layers_of
from optimize.quantization.narrow_constants import with_half_constants
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.pack_weights import pack_weights
from optimize.quantization.packing.formats import FLOAT32, Grid, grid_of
from optimize.quantization.report import CORRECTED, EQUALIZED, ROUNDED, LayerReport, QuantizationReport
from optimize.quantization.round_by_data import Biases, Rounded, corrected, round_by_data
from optimize.quantization.samples import without
from optimize.quantization.swapped_colours import WithSwappedColours
from optimize.quantization.table import DYNAMIC, Choice, Table, check_layers
from optimize.rewriting.program import Program
from optimize.rewriting.report import Progress, Recorder
from optimize.rewriting.subnets import run_passes_everywhere
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

FOLDING = (*pipeline.COMPOSING, *pipeline.PORTABLE)
REMOVING = (pipeline.TIDYING,)
AUTO = "auto"
TRIED = ("minmax", "percentile", "mse")  # ways to choose ranges, where nobody says which
PARTS = 4  # of the samples, each of which judges what the others make
ALIKE = 0.5  # dB, which say nothing
MARGIN = 2.0  # dB by which another way must be better than min-max without equalising: what samples say varies as much
Choose = Callable[[str], Choice]


class Floats(NamedTuple):
    """The layers that compute on floats whatever was asked for. packed: those of them whose weights are nevertheless
    stored as was asked for. wide: what the others' weights are stored as. int16: whether what was asked for on int8
    computes on int16."""

    layers: AbstractSet[str] = frozenset()
    packed: AbstractSet[str] = frozenset()
    wide: str = FLOAT32
    int16: bool = False


Build = Callable[[Floats, QuantizationReport], Pair]


class Trial(NamedTuple):
    """How a pair is built of most samples, and the others, which have no say in that."""

    build: Build
    others: Sequence[Sample]


class Builder(NamedTuple):
    """How a pair is built of all samples, and, to judge what it makes of others, without each part of them."""

    build: Build
    trials: Callable[[], List[Trial]]


class Methods(NamedTuple):
    """How what is asked for is done. See ``quantize``. lacking: for which share of the samples another one
    is missing, where ranges make up for that. swap_colours: the inputs whose colours are swapped for it."""

    calibration: str
    per_tensor: bool
    equalize: Optional[bool]
    correct_biases: bool
    round_by_data: bool
    folder: Optional[AnyPath] = None
    lacking: float = 0.0
    swap_colours: Sequence[str] = ()


def chooser(asked: Choice, table: Table, floats: Floats) -> Choose:
    """What each layer is stored and computed in."""

    def choose(layer: str) -> Choice:
        choice = table.get(layer, asked)
        if layer not in floats.layers:
            return choice._replace(activations="int16") if floats.int16 and choice.activations == "int8" else choice
        return Choice(choice.weights if layer in floats.packed else floats.wide, FLOAT32)

    return choose


# Weights alone, and dynamic range


def weight_builder(
    pair: Pair,
    samples: Optional[Sequence[Sample]],
    asked: Choice,
    table: Table,
    methods: Methods,
    progress: Progress,
) -> Builder:
    """With layers of dynamic range, these are found before others are fused into them."""
    dynamic = DYNAMIC in {choice.activations for choice in (asked, *table.values())}
    small = pair if dynamic else optimize.optimize(pair, progress=progress)
    program = Program.of(small)
    if dynamic:
        program = run_passes_everywhere(program, FOLDING, Recorder(progress=progress))
    program = with_distinct_layers(program)
    check_layers(table, [layer.name for layer in layers_of(program, within=True)])
    original = program.pair(small)

    def of(samples: Optional[Sequence[Sample]]) -> Build:
        choose = chooser(asked, table, Floats())
        rounded = _rounded_alone(program, original, samples or (), choose, methods, progress)
        return lambda floats, report: _packed(program, chooser(asked, table, floats), report.layers, rounded).pair(
            small
        )

    return Builder(of(samples), lambda: [Trial(of(most), others) for most, others in _parts(samples or (), PARTS)])


def _rounded_alone(
    program: Program, pair: Pair, samples: Sequence[Sample], choose: Choose, methods: Methods, progress: Progress
) -> Dict[Tuple[str, str], Rounded]:
    """Weights of layers that compute on floats, rounded by the samples, by format and layer."""
    if not samples or not methods.round_by_data:
        return {}
    axes = {layer.name: layer.axis for layer in layers_of(program) if choose(layer.name).activations == FLOAT32}

    def grid(layer: str, weight: Array) -> Optional[Grid]:
        return grid_of(choose(layer).weights, weight, axes[layer]) if layer in axes else None

    biases = Biases.COUNTED_ON if methods.correct_biases else Biases.KEPT
    found = round_by_data(program, pair, samples, grid, biases, progress, methods.folder)
    return {(choose(layer).weights, layer): one for layer, one in found.items()}


def _packed(
    program: Program, choose: Choose, done: List[LayerReport], rounded: Mapping[Tuple[str, str], Rounded]
) -> Program:
    """The program with its layers of floats in fewer bits, and those of dynamic range on integers."""
    packed = {layer: one for (weights, layer), one in rounded.items() if choose(layer) == Choice(weights, FLOAT32)}
    program = run_passes_everywhere(corrected(program, packed), [hybrid_layers(choose, done)], Recorder())
    program = run_passes_everywhere(program, [pack_weights(choose, done, rounded), *REMOVING], Recorder())
    return with_half_constants(program, choose)


# Integers throughout


def integer_builder(
    pair: Pair,
    samples: Sequence[Sample],
    asked: Choice,
    table: Table,
    methods: Methods,
    progress: Progress,
) -> Builder:
    """Where nobody says how ranges are chosen, or whether layers are equalized, each way is tried on each half of the
    samples and judged on the other half: ranges that leave out what is rare look good on the samples that they were
    taken from. All samples then choose the ranges.
    """
    examples = {name: np.asarray(value).shape for name, value in samples[0].items()}
    program = run_passes_everywhere(Program.of(pair, examples=examples), FOLDING, Recorder(progress=progress))
    program = with_distinct_layers(program)
    check_layers(table, [layer.name for layer in layers_of(program, least=1, within=True)])
    nets: List[Tuple[Program, Sequence[str]]] = [] if methods.equalize else [(program, ())]
    if methods.equalize is not False:
        other, changed = equalized(program)
        nets += [(other, changed)] if changed or not nets else []
    tried = TRIED if methods.calibration == AUTO else (methods.calibration,)
    integer_nets = [_IntegerNet(one, pair, changed, samples, asked, table, methods, progress) for one, changed in nets]
    ways = [(net, method) for net in integer_nets for method in tried]
    net, method = ways[0] if len(ways) == 1 else _best(integer_nets, tried, program.pair(pair), samples)

    def of(net: _IntegerNet) -> Build:
        return partial(net.build, net.ranges([method])[method])

    parts = _parts(samples, PARTS)
    return Builder(of(net), lambda: [Trial(of(net.by(most)), others) for most, others in parts])


def _parts(samples: Sequence[Sample], count: int) -> List[Tuple[Sequence[Sample], Sequence[Sample]]]:
    """The samples without each of so many parts of them, and that part; nothing if they are too few. Neighbours, which
    are often alike, are in the same part."""
    if len(samples) < 2 * count:
        return []
    ends = [len(samples) * part // count for part in range(count + 1)]
    return [(without(samples, range(*ends_of)), samples[slice(*ends_of)]) for ends_of in zip(ends, ends[1:])]


def _best(
    nets: Sequence[_IntegerNet], methods: Sequence[str], original: Pair, samples: Sequence[Sample]
) -> Tuple[_IntegerNet, str]:
    """The net and the method that do best on both halves together, and on neither worse than the first way; below 0 dB
    all is noise.

    Where the half that chose the ranges lacks what the other holds, all ways are equally bad: so the worse half does
    not decide alone.
    """
    parts = [half for _, half in _parts(samples, 2)] or [samples]
    noises = [OutputNoise(original, part, before_softmax=True) for part in parts]

    def ratios(net: _IntegerNet) -> Iterator[List[float]]:
        measured = [net.ranges(methods, part) for part in parts]
        for method in methods:
            built = [net.build(ranges[method], Floats(), QuantizationReport()) for ranges in measured]
            yield [max(noise.of(one), 0.0) for noise, one in zip(noises, reversed(built))]

    first, *others = [one for net in nets for one in ratios(net)]
    gains = [0.0]
    for other in others:
        worse = any(one < least - ALIKE for one, least in zip(other, first))
        gains.append(-math.inf if worse else fmean(other) - fmean(first) - MARGIN)
    return [(net, method) for net in nets for method in methods][int(np.argmax(gains))]


class _IntegerNet:
    """A net that is to compute on integers. changed: the layers that are equalized."""

    def __init__(
        self,
        program: Program,
        pair: Pair,
        changed: Sequence[str],
        samples: Sequence[Sample],
        asked: Choice,
        table: Table,
        methods: Methods,
        progress: Progress,
    ):
        self._program, self._pair, self._changed = program, program.pair(pair), changed
        self._methods, self._progress = methods, progress
        self._samples, self._asked, self._table = self._varied(samples), asked, table

    def by(self, samples: Sequence[Sample]) -> _IntegerNet:
        """The same by other samples."""
        others = samples, self._asked, self._table, self._methods, self._progress
        return _IntegerNet(self._program, self._pair, self._changed, *others)

    def _varied(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        methods = self._methods
        return WithSwappedColours(samples, methods.swap_colours, methods.lacking) if methods.swap_colours else samples

    @cached_property
    def _precision(self) -> Precision:
        """With weights that are rounded by the samples, if that is asked for. What biases take off counts as no error
        with int16; int8 shifts means, too."""
        rounded: Dict[str, Rounded] = {}
        wide = "int16" in {choice.activations for choice in (self._asked, *self._table.values())}
        if self._methods.round_by_data:
            taken_off = Biases.COUNTED_ON if wide else Biases.CORRECTED
            biases = taken_off if self._methods.correct_biases else Biases.KEPT
            rounded = round_by_data(
                self._program, self._pair, self._samples, self._grid, biases, self._progress, self._methods.folder
            )
        dtype = np.dtype(np.int16 if wide else np.int8)
        return Precision(dtype, self._methods.per_tensor, self._methods.correct_biases, rounded)

    @cached_property
    def _stored(self) -> Dict[Tuple[str, str], Rounded]:
        """The weights as layers that compute on floats may store them."""

        def choose(layer: str) -> Choice:
            return _of_floats(self._table.get(layer, self._asked))

        return _rounded_alone(self._program, self._pair, self._samples, choose, self._methods, self._progress)

    @cached_property
    def _layers(self) -> Dict[str, Layer]:
        return {layer.name: layer for layer in layers_of(self._program, least=1)}

    def _grid(self, layer: str, weight: Array) -> Optional[Grid]:
        """What a layer's weight is rounded to; None for layers of floats."""
        if layer not in self._layers or not _on_integers(self._table.get(layer, self._asked)):
            return None
        axis = self._layers[layer].axis
        rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
        scales = product_scales(rows, self._methods.per_tensor)
        return Grid(scales.reshape([-1 if at == axis else 1 for at in range(weight.ndim)]), -127, 127)

    def ranges(self, methods: Sequence[str], samples: Optional[Sequence[Sample]] = None) -> Dict[str, Calibration]:
        """What the net's blobs hold on its samples, or on others, by method."""
        blobs, varied = blobs_to_calibrate(self._program), self._samples if samples is None else self._varied(samples)
        found = calibrated(self._pair, blobs, varied, methods, self._progress, self._methods.folder)
        widened = partial(with_headroom, program=self._program, lacking=self._methods.lacking)
        return {method: one._replace(ranges=widened(one.ranges)) for method, one in found.items()}

    def build(self, measured: Calibration, floats: Floats, report: QuantizationReport) -> Pair:
        """The pair with these ranges."""
        precision = self._precision._replace(dtype=np.dtype(np.int16)) if floats.int16 else self._precision
        choose = chooser(self._asked, self._table, floats)
        integers = to_integers(
            self._program, self._pair, measured, lambda op: _on_integers(choose(layer_name(op))), precision
        )
        packed: List[LayerReport] = []
        kept = {layer_name(op): reason for op, reason in integers.kept}
        stored = self._stored if kept.keys() & self._layers.keys() else {}
        result = _packed(Program.of(integers.pair), lambda name: _of_floats(choose(name)), packed, stored).pair(
            integers.pair
        )
        for row in _rows(self._program, self._layers, choose, kept, packed):
            on_integers = row.layer in integers.noise
            steps = [EQUALIZED] if row.layer in self._changed else []
            steps += [CORRECTED] if on_integers and self._methods.correct_biases else []
            steps += [ROUNDED] if on_integers and row.layer in precision.rounded else row.steps
            snr = integers.noise.get(row.layer, row.snr)
            report.layers.append(row._replace(snr=snr, steps=tuple(steps)))
        report.notes += [
            f"{op.signature()} stays float: {why}" for op, why in integers.kept if layer_name(op) not in self._layers
        ]
        return result


def _on_integers(choice: Choice) -> bool:
    return choice.activations not in (FLOAT32, DYNAMIC)


def _of_floats(choice: Choice) -> Choice:
    """What becomes of a layer that has no form on integers."""
    return choice if choice.activations == DYNAMIC else Choice(choice.weights, FLOAT32)


def _rows(
    program: Program,
    layers: Mapping[str, Layer],
    choose: Choose,
    kept: Mapping[str, str],
    packed: Sequence[LayerReport],
) -> List[LayerReport]:
    """A line for each layer. kept: why some compute on floats. packed: what was done to the weights of those."""
    floats = {row.layer: row for row in packed}
    rows = []
    for name, layer in layers.items():
        spec = program.weights.spec(layer.weight)
        assert spec is not None
        if name not in kept:
            rows.append(LayerReport(name, choose(name), spec.nbytes, spec.size, None))
        else:
            unpacked = LayerReport(name, Choice(FLOAT32, FLOAT32), spec.nbytes, spec.nbytes, None)
            row = floats.get(name, unpacked)
            rows.append(row._replace(reason=row.reason or kept[name]))
    return [*rows, *(row for row in packed if row.layer not in layers)]  # those inside branches and bodies
