"""``quantize``: what is done to a pair, in which order.

Weights alone: the pair is optimised, then each layer's weight is packed. With integer activations: batch norms are
folded, layers equalized, ranges calibrated, weights rounded, the net is rewritten to integers, layers that stay float
are packed, and the result is optimised. Where the outputs are too noisy, the layers that spoil them most are found by
quantising them one at a time, and as few of them as possible compute on floats, with packed weights where that is
good enough.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, List, Mapping, Optional, Sequence

import optimize
from optimize.quantization.builders import AUTO, Build, Builder, Floats, Methods, integer_builder, weight_builder
from optimize.quantization.calibration import METHODS, Sample
from optimize.quantization.float_layers import Outputs, alone_ratios, choose_float_layers, one_alone
from optimize.quantization.judge import FEW, Demand, Judge
from optimize.quantization.narrow_constants import with_narrow_nets
from optimize.quantization.outliers import outlier_samples
from optimize.quantization.outputs import Measured, OutputNoise
from optimize.quantization.packing.formats import FLOAT32, check_format
from optimize.quantization.report import QuantizationReport
from optimize.quantization.samples import Samples, as_sequence, without
from optimize.quantization.swapped_colours import ENOUGH, lacking, of_few_colours
from optimize.quantization.table import ACTIVATIONS, DYNAMIC, Choice, Table
from optimize.rewriting.report import Progress, quiet
from optimize.short_names import with_short_names
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath
from runtime_arm.machine.memory import memory_for
from runtime_arm.pair.argument import require_pair
from runtime_arm.pair.pair import Pair

ROUNDINGS = ("data", "nearest")
RANKED_ON = 4  # samples: which layers make most noise is clear soon
GOOD_SNR = 25.0  # dB, unless something else is demanded: the error is a twentieth of the output


@memory_for("quantize")
def quantize(
    pair: Pair,
    samples: Optional[Samples] = None,
    weights: str = "int8",
    activations: Optional[str] = None,
    *,
    table: Optional[Table] = None,
    calibration: str = AUTO,
    per_tensor: bool = False,
    equalize: Optional[bool] = None,
    correct_biases: bool = True,
    rounding: str = "data",
    snr: Optional[float] = None,
    accept: Optional[Callable[[Pair], bool]] = None,
    folder: Optional[AnyPath] = None,
    report: Optional[QuantizationReport] = None,
    progress: Progress = quiet,
) -> Pair:
    """Returns an optimised pair of the same inputs and outputs that stores weights, or also computes, in fewer bits.

    What is made. weights: "int8", "float16", "bfloat16", "int4" or "palette" (see ``formats``). activations: None or
    "float32" for floats; "dynamic" for layers that quantise their inputs while the net runs; "int8" or "int16" for
    TensorFlow Lite's integer arithmetic. All but floats need int8 weights. table: for single layers, what they are
    stored and computed in (see ``table``). per_tensor: one scale per weight tensor in integer layers, as Caffe2 needs
    it, instead of one per filter.

    What it is made from. samples: typical inputs by name; a sequence is read one sample at a time. Quantising only the
    weights needs none. calibration: how ranges are chosen (see ``calibration``); "auto" takes the best of minmax,
    percentile and mse on samples that did not choose the ranges, and leaves out samples that are unlike the others (see
    ``outliers``). equalize: whether neighbouring integer layers first share their ranges (see ``equalize_layers``);
    None for whichever is clearly better on such samples. correct_biases: whether biases of integer layers are corrected
    for the shift of means that rounded weights cause. rounding: "data" rounds weights so that results on the samples
    change least (see ``round_by_data``), "nearest" rounds each by itself, as is always done without samples.

    How good it must be; layers stay float until it is. snr: the lowest signal-to-noise ratio of all outputs, in dB, on
    data like the samples (see ``judge``). accept: says whether a pair is good enough. Without ``snr``, ``accept``
    and ``table``, integer activations must reach 25 dB. ``-math.inf`` keeps all layers on integers, however noisy the
    outputs are.

    folder: files there keep the calibration, so that a run that was killed continues (see ``calibration_cache``).
    report: collects what was done to each layer. progress: as for ``optimize``.

    UsageError for options that contradict each other, a table that names no layer, samples that do not fit or are not
    finite, and demands that cannot be met.

    Examples:
        >>> import armnet
        >>> small = armnet.quantize(armnet.export("demo/digits.onnx"), None, weights="int8")
        >>> small.save("small")
    """
    require_pair(pair, "quantize")
    report = QuantizationReport() if report is None else report
    asked = _asked(weights, activations)
    table = dict(table or {})
    given = None if samples is None else as_sequence(samples, pair.inputs)
    asked_for = {choice.activations for choice in (asked, *table.values())}
    integers = not asked_for <= {FLOAT32, DYNAMIC}
    demanding = snr is not None or accept is not None
    _check_options(asked_for, calibration, rounding, lacks_samples=(integers or demanding) and not given)
    methods = Methods(calibration, per_tensor, equalize, correct_biases, rounding == "data", folder)
    if integers:
        assert given is not None
        if calibration == AUTO:
            given = _alike(pair, given, report, progress)
            methods = methods._replace(lacking=lacking(len(given)), swap_colours=of_few_colours(given))
        report.notes += _doubts(len(given))
        builder = integer_builder(pair, given, asked, table, methods, progress)
    else:
        builder = weight_builder(pair, given, asked, table, methods, progress)
    if integers and not (demanding or table):
        snr = GOOD_SNR
    instead = Floats(int16=True) if asked.activations == "int8" and not table else None
    result = _meeting(pair, builder, given, Demand(snr, accept), instead, report, progress)
    if asked_for != {FLOAT32}:
        result = optimize.optimize(result, progress=progress)
    return with_narrow_nets(with_short_names(result))


def _check_options(asked_for: AbstractSet[str], calibration: str, rounding: str, *, lacks_samples: bool) -> None:
    """UsageError for options that contradict each other or do not exist. asked_for: kinds of activations."""
    if lacks_samples:
        raise UsageError(
            "integer activations and demands on the outputs need samples, and there are none; "
            "give armnet quantize some with --data"
        )
    if {"int8", "int16"} <= asked_for:
        raise UsageError("a net computes on int8 or on int16 activations, and the table asks for both")
    if calibration not in (AUTO, *METHODS):
        raise UsageError(f"calibration can be {', '.join((AUTO, *METHODS))}; got {calibration!r}")
    if rounding not in ROUNDINGS:
        raise UsageError(f"weights can be rounded by {' or '.join(ROUNDINGS)}; got {rounding!r}")


def _doubts(count: int) -> List[str]:
    """What has to be said of results of so few samples."""
    if count >= ENOUGH:
        return []
    doubt = "the noise on other data is unknown" if count < FEW else "other data may give noisier outputs"
    return [f"the ranges come from only {count} sample(s), so {doubt}; a hundred different samples are better"]


def _alike(pair: Pair, samples: Sequence[Sample], report: QuantizationReport, progress: Progress) -> Sequence[Sample]:
    """The samples that are like the others. The report says which are not."""
    places = outlier_samples(pair, samples, progress)
    if places:
        numbers = ", ".join(str(place + 1) for place in places)
        report.notes.append(
            f"{len(places)} of {len(samples)} samples are left out (number {numbers}): their results inside the net "
            "are many times as large as those of the others; only --calibration auto leaves samples out"
        )
    return without(samples, places)


def _asked(weights: str, activations: Optional[str]) -> Choice:
    check_format(weights)
    activations = activations or FLOAT32
    if activations not in ACTIVATIONS:
        raise UsageError(f"activations can be {', '.join(ACTIVATIONS)}; got {activations!r}")
    if activations != FLOAT32 and weights != "int8":
        raise UsageError(f"{activations} activations take int8 weights, not {weights}")
    return Choice(weights, activations)


def _meeting(
    pair: Pair,
    builder: Builder,
    samples: Optional[Sequence[Sample]],
    demand: Demand,
    instead: Optional[Floats],
    report: QuantizationReport,
    progress: Progress,
) -> Pair:
    """The pair that is built with so few layers on floats, and of wider weights, that it is just good enough.

    instead: what is advised where half of the layers have to stay float and it is good enough with room, since weights
    are rounded otherwise for it.
    """
    said = list(report.notes)
    build = builder.build
    result = build(Floats(), report)
    if not samples:
        return result
    judge = Judge(pair, builder, samples, demand)
    report.output_snr, report.sure_snr = judge.told(Floats())
    rows = [row for row in report.layers if row.choice != Choice(FLOAT32, FLOAT32)]
    if judge.good(Floats()):
        if report.each_layer:
            _tell_alone(report, alone_ratios(one_alone(rows, _measuring(pair, build, samples), progress)))
        _warn(report, demand)
        return result
    outputs = Outputs(_measuring(pair, build, samples), judge.excess, judge.good, judge.roomy)
    found = choose_float_layers(rows, outputs, progress)
    if found is None:
        raise UsageError(f"the pair does not meet the demands even with all of its {len(rows)} layers in float")
    floats, alone = found
    report.layers.clear()
    report.notes[:] = said
    result = build(floats, report)
    report.output_snr, report.sure_snr = judge.told(floats)
    _tell_alone(report, alone)
    report.layers[:] = [
        row._replace(reason="it makes the outputs too noisy") if row.layer in floats.layers else row
        for row in report.layers
    ]
    report.notes.append(
        f"{len(floats.layers)} of {len(report.layers)} layers stay float; otherwise the worst output would have a "
        f"signal-to-noise ratio of {judge.ratio(Floats())}"
    )
    if instead is not None and 2 * len(floats.layers) >= len(report.layers) and judge.roomy(instead):
        report.notes.append("with --activations int16, few or no layers would stay float")
    asked, got = ({row.choice.activations for row in some} for some in (rows, report.layers))
    if asked != {FLOAT32} == got:
        report.notes.append(
            "no layer computes on integers: demand less of the outputs (a lower --snr or --must), or accept any "
            "noise (--snr none)"
        )
    _warn(report, demand)
    return result


def _measuring(pair: Pair, build: Build, samples: Sequence[Sample]) -> Callable[[Floats], Measured]:
    """What measures outputs on a few samples."""
    noise = OutputNoise(pair, samples, before_softmax=True, most=RANKED_ON)
    return lambda floats: noise.measured(build(floats, QuantizationReport()))


def _tell_alone(report: QuantizationReport, alone: Mapping[str, float]) -> None:
    """Says what each layer alone does to the outputs."""
    report.layers[:] = [row._replace(alone=alone.get(row.layer)) for row in report.layers]


def _warn(report: QuantizationReport, demand: Demand) -> None:
    """Says that the outputs are noisy, unless somebody has said how noisy they may be."""
    ratio = report.output_snr
    if ratio is not None and ratio < GOOD_SNR and demand == (None, None):
        report.notes.append(
            f"the worst output has a signal-to-noise ratio of {ratio:.1f} dB: check the pair's answers, or demand "
            f"{GOOD_SNR:g} dB (--snr {GOOD_SNR:g}), so that more layers stay float"
        )
