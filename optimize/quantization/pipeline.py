"""``quantize``: what is done to a pair, in which order.

Weights alone: the pair is optimised, then each layer's weight is packed. With integer activations: batch norms are
folded, ranges are calibrated, the net is rewritten to integers, layers that stay float are packed, and the result is
optimised. Where a signal-to-noise ratio is demanded, the layers that spoil it most are found
by quantising them one at a time, and as few of them as possible stay float.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

import optimize
from optimize import pipeline
from optimize.quantization.calibration import METHODS, Sample, calibrated
from optimize.quantization.dynamic import hybrid_layers
from optimize.quantization.formats import FLOAT32, check_format
from optimize.quantization.integers import blobs_to_calibrate, to_integers
from optimize.quantization.layers import Layer, layer_name, layers_of
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.pack_weights import pack_weights
from optimize.quantization.report import LayerReport, QuantizationReport
from optimize.quantization.samples import Samples, as_sequence
from optimize.quantization.sensitivity import least_float
from optimize.quantization.table import ACTIVATIONS, DYNAMIC, Choice, Table, check_layers
from optimize.rewriting.program import Program
from optimize.rewriting.report import Progress, Report, quiet
from optimize.rewriting.subnets import run_passes_everywhere
from runtime_arm.errors import UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair

FOLDING = (*pipeline.COMPOSING, *pipeline.PORTABLE)
REMOVING = (pipeline.TIDYING,)
Build = Callable[[AbstractSet[str], QuantizationReport], Pair]


def quantize(
    pair: Pair,
    samples: Optional[Samples] = None,
    weights: str = "int8",
    activations: Optional[str] = None,
    *,
    table: Optional[Table] = None,
    calibration: str = "minmax",
    per_tensor: bool = False,
    snr: Optional[float] = None,
    accept: Optional[Callable[[Pair], bool]] = None,
    report: Optional[QuantizationReport] = None,
    progress: Progress = quiet,
) -> Pair:
    """Returns an optimised pair of the same inputs and outputs, with weights, and perhaps activations, of fewer bits.

    samples: inputs by name, typical ones; a sequence is read one sample at a time. Weights alone need none.
    weights: "int8", "float16", "bfloat16", "int4" or "palette" (see ``formats``). activations: None or "float32" for
    floats; "dynamic" for layers that quantise what they read while the net runs, "int8" or
    "int16" for TensorFlow Lite's integer arithmetic throughout, all with int8 weights. table: what single layers are
    stored and computed in (see ``table``), by layer. calibration: how ranges are chosen (see ``calibration``).
    per_tensor: weights of integer layers have one scale, as Caffe2 wants it, not one for each filter. snr: the
    least signal-to-noise ratio of all outputs, in dB; layers stay float until it is reached. accept: whether a pair is
    good enough; layers stay float until it is. report: collects what was done to each layer. progress: as for
    ``optimize``.

    UsageError for options that contradict each other, a table that names no layer, samples that do not fit or are not
    finite, and what is demanded that cannot be reached.

    Examples:
        >>> import armnet
        >>> small = armnet.quantize(armnet.export("demo/digits.onnx"), None, weights="int8")
        >>> small.save("small")
    """
    report = QuantizationReport() if report is None else report
    asked = _asked(weights, activations)
    table = dict(table or {})
    given = None if samples is None else as_sequence(samples, pair.inputs)
    asked_for = {choice.activations for choice in (asked, *table.values())}
    integers = not asked_for <= {FLOAT32, DYNAMIC}
    demanding = snr is not None or accept is not None
    if (integers or demanding) and not given:
        raise UsageError("integer activations, and what is demanded of the pair, need samples, and there are none")
    if calibration not in METHODS:
        raise UsageError(f"calibration can be {', '.join(METHODS)}; got {calibration!r}")
    if {"int8", "int16"} <= asked_for:
        raise UsageError("a net computes on int8 or on int16 activations, and the table asks for both")
    if integers:
        assert given is not None
        build = _integer_builder(pair, given, asked, table, calibration, per_tensor, progress)
    else:
        build = _weight_builder(pair, asked, table, DYNAMIC in asked_for, progress)
    result = _within(pair, build, given, _Demand(snr, accept), report, progress)
    return optimize.optimize(result, progress=progress) if asked_for != {FLOAT32} else result


def _asked(weights: str, activations: Optional[str]) -> Choice:
    check_format(weights)
    activations = activations or FLOAT32
    if activations not in ACTIVATIONS:
        raise UsageError(f"activations can be {', '.join(ACTIVATIONS)}; got {activations!r}")
    if activations != FLOAT32 and weights != "int8":
        raise UsageError(f"{activations} activations take int8 weights, not {weights}")
    return Choice(weights, activations)


def _chooser(asked: Choice, table: Table, floats: AbstractSet[str]) -> Callable[[str], Choice]:
    return lambda layer: Choice(FLOAT32, FLOAT32) if layer in floats else table.get(layer, asked)


def _weight_builder(pair: Pair, asked: Choice, table: Table, dynamic: bool, progress: Progress) -> Build:
    """With layers of dynamic range, these are found before others are fused into them."""
    small = pair if dynamic else optimize.optimize(pair, progress=progress)
    program = Program.of(small)
    if dynamic:
        program = run_passes_everywhere(program, FOLDING, Report(), progress=progress)
    check_layers(table, [layer.name for layer in layers_of(program)])

    def build(floats: AbstractSet[str], report: QuantizationReport) -> Pair:
        return _packed(program, _chooser(asked, table, floats), report.layers).pair(small)

    return build


def _packed(program: Program, choose: Callable[[str], Choice], done: List[LayerReport]) -> Program:
    """The program with its layers of floats in fewer bits, and those of dynamic range on integers."""
    passes = [hybrid_layers(choose, done), pack_weights(choose, done), *REMOVING]
    return run_passes_everywhere(program, passes, Report())


def _integer_builder(
    pair: Pair,
    samples: Sequence[Sample],
    asked: Choice,
    table: Table,
    calibration: str,
    per_tensor: bool,
    progress: Progress,
) -> Build:
    program = run_passes_everywhere(Program.of(pair), FOLDING, Report(), progress=progress)
    folded = program.pair(pair)
    layers = {layer.name: layer for layer in layers_of(program, least=1)}
    check_layers(table, layers)
    measured = calibrated(folded, blobs_to_calibrate(program), samples, calibration, progress)

    def build(floats: AbstractSet[str], report: QuantizationReport) -> Pair:
        choose = _chooser(asked, table, floats)

        def wanted(op: OperatorDef) -> bool:
            return choose(layer_name(op)).activations not in (FLOAT32, DYNAMIC)

        wide = "int16" in {choice.activations for choice in (asked, *table.values())}
        result, kept = to_integers(program, folded, measured, wanted, np.int16 if wide else np.int8, per_tensor)
        packed: List[LayerReport] = []
        result = _packed(Program.of(result), lambda name: _of_floats(choose(name)), packed).pair(result)
        report.layers += _rows(program, layers, choose, {layer_name(op): reason for op, reason in kept}, packed)
        report.notes += [f"{op.signature()} stays float: {why}" for op, why in kept if layer_name(op) not in layers]
        return result

    return build


def _of_floats(choice: Choice) -> Choice:
    """What becomes of a layer that has no form on integers."""
    return choice if choice.activations == DYNAMIC else Choice(choice.weights, FLOAT32)


def _rows(
    program: Program,
    layers: Mapping[str, Layer],
    choose: Callable[[str], Choice],
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
    return rows


class _Demand(NamedTuple):
    """What a pair must keep: a signal-to-noise ratio, and whatever ``accept`` looks at."""

    snr: Optional[float]
    accept: Optional[Callable[[Pair], bool]]

    def met(self, pair: Pair, noise: OutputNoise) -> bool:
        """Whether a pair keeps it."""
        return (self.snr is None or noise.of(pair) >= self.snr) and (self.accept is None or self.accept(pair))


def _within(
    pair: Pair,
    build: Build,
    samples: Optional[Sequence[Sample]],
    demand: _Demand,
    report: QuantizationReport,
    progress: Progress,
) -> Pair:
    """The pair that is built with the fewest float layers with which it is good enough."""
    result = build(frozenset(), report)
    if not samples:
        return result
    noise = OutputNoise(pair, samples)
    report.output_snr = noise.of(result)
    if demand.met(result, noise):
        return result
    layers = [row.layer for row in report.layers if row.choice != Choice(FLOAT32, FLOAT32)]

    def built(kept: AbstractSet[str]) -> Pair:
        return build(kept, QuantizationReport())

    floats = least_float(
        layers, lambda kept: noise.of(built(kept)), lambda kept: demand.met(built(kept), noise), progress
    )
    report.layers.clear()
    report.notes.clear()
    result = build(floats, report)
    report.output_snr = noise.of(result)
    report.layers[:] = [
        row._replace(reason=row.reason or "it spoils the outputs") if row.layer in floats else row
        for row in report.layers
    ]
    return result
