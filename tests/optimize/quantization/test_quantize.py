"""quantize: weights alone, integers throughout, mixtures of both, and what is refused."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Mapping, Sequence

import numpy as np
import pytest

from optimize import optimize, quantize
from optimize.quantization import QuantizationReport, builders, pipeline
from optimize.quantization.outputs import OutputNoise
from optimize.quantization.packing.formats import FORMATS
from optimize.quantization.table import Choice
from runtime_arm import Predictor
from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of

NET = """
    net "small": x, w1, b1, w2, w3, b3, w4, b4 -> probabilities, features
    Conv(x, w1, b1) -> a  kernel=3 pad=1
    Relu(a) -> r
    Conv(r, w2) -> b  kernel=3 pad=1 group=8
    Clip(b) -> s  min=0.0 max=6.0
    MaxPool(s) -> c  kernel=2 stride=2
    Conv(c, w3, b3) -> d  kernel=1
    Add(c, d) -> e
    AveragePool(e) -> f  global_pooling=1
    Flatten(f) -> features
    FC(features, w4, b4) -> g
    Softmax(g) -> probabilities
"""
SHAPES = {"x": (1, 3, 16, 16)}


def weights() -> Dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "w3": (8, 8, 1, 1), "b3": (8,)}
    shapes.update({"w4": (40, 8), "b4": (40,)})
    return {name: (rng.standard_normal(shape) / 3).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def pair() -> Pair:
    return pair_of(NET, weights(), SHAPES)


def samples(count: int, seed: int = 0) -> List[Dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


def types(pair: Pair) -> List[str]:
    return [op.full_type for op in pair.predict_net.op]


def snr(original: Pair, quantised: Pair) -> float:
    return OutputNoise(original, samples(8, seed=1)).of(quantised)


@pytest.mark.parametrize(("weights", "least"), [("float16", 55), ("bfloat16", 35), ("int8", 35), ("int4", 12)])
def test_weights_alone_stay_packed_and_answers_close(pair: Pair, weights: str, least: float) -> None:
    report = QuantizationReport()
    small = quantize(pair, None, weights, report=report)
    packed = [row for row in report.layers if row.choice.weights == weights]
    assert packed
    assert all(row.nbytes < 0.6 * row.nbytes_before for row in packed)
    assert snr(pair, small) > least
    again = optimize(small)
    assert sum("Unpack" in one or "Half" in one or "Dequantize" in one for one in types(again)) == len(packed)


def test_layers_are_packed_whose_picture_sizes_are_open() -> None:
    """Of sizes that do not fit the layer it could not tell the shape of its result."""
    text = 'net "open": x, w, b -> y\n FC(x, w, b) -> s\n Relu(s) -> y'
    values = {"w": np.ones((40, 3 * 8 * 8), np.float32), "b": np.zeros(40, np.float32)}
    report = QuantizationReport()
    small = quantize(pair_of(text, values, {"x": (None, 3, None, None)}), None, report=report)
    assert "onnx.DequantizeLinear" in types(small)
    assert [row.choice.weights for row in report.layers] == ["int8"]


@pytest.mark.parametrize("weights", FORMATS)
def test_packed_pairs_are_saved_and_loaded(pair: Pair, weights: str, tmp_path: object) -> None:
    small = quantize(pair, None, weights)
    small.save(f"{tmp_path}/small")
    loaded = Pair.load(f"{tmp_path}/small")
    feed = samples(1)[0]
    with Predictor(small, threads=1) as one, Predictor(loaded, threads=1) as other:
        for name, value in one.run(feed).items():
            np.testing.assert_array_equal(other.run(feed)[name], value)


def test_integers_run_from_the_first_convolution_to_the_last_layer(pair: Pair) -> None:
    report = QuantizationReport()
    small = quantize(pair, samples(16), activations="int8", report=report)
    found = types(small)
    assert found.count("tflite.QuantizedConv") == 3
    assert "tflite.QuantizedFullyConnected" in found
    assert "tflite.QuantizedMaxPool" in found
    assert "tflite.QuantizedAdd" in found
    assert not {"Conv", "ConvRelu", "FC", "MaxPool", "Clip", "Relu"} & set(found)
    assert found.count("tflite.Quantize") == 1
    assert snr(pair, small) > 28
    assert report.output_snr is not None
    assert report.output_snr > 28


def test_inputs_and_outputs_stay_what_they_are(pair: Pair) -> None:
    small = quantize(pair, samples(4), activations="int8")
    assert small.inputs == pair.inputs
    assert list(small.predict_net.external_output) == list(pair.predict_net.external_output)
    assert {info.name: info.dtype for info in small.outputs} == {info.name: info.dtype for info in pair.outputs}


@pytest.mark.parametrize("calibration", ["auto", "minmax", "percentile", "mse", "entropy"])
def test_every_calibration_gives_close_answers(pair: Pair, calibration: str) -> None:
    assert snr(pair, quantize(pair, samples(16), activations="int8", calibration=calibration)) > 20


def test_samples_are_read_one_at_a_time_and_may_be_an_iterator(pair: Pair) -> None:
    def drawn() -> Iterator[Dict[str, np.ndarray]]:
        yield from samples(4)

    once, listed = quantize(pair, drawn(), activations="int8"), quantize(pair, samples(4), activations="int8")
    assert once.predict_net.to_text() == listed.predict_net.to_text()


def test_a_sequence_need_not_know_slices(pair: Pair) -> None:
    class Bare(Sequence[Dict[str, np.ndarray]]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: Any) -> Any:
            return samples(8)[index + 0]

    bare, listed = quantize(pair, Bare(), activations="int8"), quantize(pair, samples(8), activations="int8")
    assert bare.init_net.to_bytes() == listed.init_net.to_bytes()


def test_a_ratio_is_reached_by_keeping_the_fewest_layers_in_float(pair: Pair) -> None:
    report, all_int8 = QuantizationReport(), QuantizationReport()
    quantize(pair, samples(8), activations="int8", report=all_int8)
    assert all_int8.output_snr is not None
    wanted = all_int8.output_snr + 3
    mixed = quantize(pair, samples(8), activations="int8", snr=wanted, report=report)
    assert report.output_snr is not None
    assert report.output_snr >= wanted
    floats = [row for row in report.layers if row.choice.activations == "float32"]
    assert 0 < len(floats) < len(report.layers)
    assert all(row.reason for row in floats)
    assert not any("no layer computes on integers" in note for note in report.notes)
    assert {"tflite.QuantizedConv", "tflite.Dequantize"} & set(types(mixed))


def test_int16_is_advised_where_it_keeps_layers_on_integers(pair: Pair) -> None:
    narrow, wide, few = QuantizationReport(), QuantizationReport(), QuantizationReport()
    quantize(pair, samples(16), activations="int8", snr=49.0, report=narrow)
    assert sum(row.choice.activations == "float32" for row in narrow.layers) >= len(narrow.layers) / 2
    assert any("with --activations int16, few or no layers would stay float" in note for note in narrow.notes)
    quantize(pair, samples(16), activations="int16", snr=49.0, report=wide)
    assert {row.choice.activations for row in wide.layers} == {"int16"}
    quantize(pair, samples(16), activations="int8", snr=40.0, report=few)
    assert any("1 of 4 layers stay float" in note for note in few.notes)
    assert not any("int16" in note for note in few.notes)


def test_each_layer_alone_is_measured_where_none_stays_float(pair: Pair) -> None:
    """As for the page of ``armnet quantize``. Whatever is quantised alone does less than all together."""
    for options in ({"activations": "int8", "snr": -math.inf}, {"weights": "int4"}):
        report, plain = QuantizationReport(each_layer=True), QuantizationReport()
        quantize(pair, samples(4), report=report, **options)  # type: ignore[arg-type]
        quantize(pair, samples(4), report=plain, **options)  # type: ignore[arg-type]
        assert report.output_snr is not None
        assert all(row.alone is not None and row.alone > report.output_snr for row in report.layers)
        assert [row._replace(alone=None) for row in report.layers] == plain.layers


def test_layers_that_compute_on_floats_keep_int8_weights_where_that_is_enough() -> None:
    """The blob in the middle is too wide for eight bits; the weights are not."""
    text = """net "wide": x, w1, up, w2, down -> y
        Conv(x, w1, up) -> a  kernel=3
        Conv(a, w2, down) -> y  kernel=3"""
    rng = np.random.default_rng(0)
    w1, w2 = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 3, 3, 3), (8, 16, 3, 3)))
    values = {"w1": w1, "up": np.full(16, 1000, np.float32), "w2": w2, "down": -1000 * w2.sum(axis=(1, 2, 3))}
    wide = pair_of(text, values, SHAPES)
    for demand, formats in ((25, {"int8"}), (70, {"float32"})):
        report = QuantizationReport()
        small = quantize(wide, samples(8), activations="int8", snr=demand, report=report)
        floats = [row for row in report.layers if row.choice.activations == "float32"]
        assert floats
        assert {row.choice.weights for row in floats} == formats
        assert snr(wide, small) > demand - 2


def offset() -> Pair:
    """A net whose middle blob is about 1,000, of which eight bits leave nothing of what matters."""
    text = """net "offset": x, w1, up, w2, down -> y
        Conv(x, w1, up) -> a  kernel=1
        Conv(a, w2, down) -> y  kernel=1"""
    identity = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    values = {"w1": identity, "up": np.full(3, 1000, np.float32), "w2": identity, "down": np.full(3, -1000, np.float32)}
    return pair_of(text, values, SHAPES)


def test_outputs_that_would_be_noise_keep_layers_in_float() -> None:
    report = QuantizationReport()
    mixed = quantize(offset(), samples(4), activations="int8", report=report)
    assert snr(offset(), mixed) > 25
    assert any("layers stay float; otherwise the worst output" in note for note in report.notes)
    assert any("no layer computes on integers" in note and "--snr none" in note for note in report.notes)
    report = QuantizationReport()
    taken = quantize(offset(), samples(4), activations="int8", snr=-math.inf, report=report)
    assert snr(offset(), taken) < 10
    assert not any("no layer computes on integers" in note for note in report.notes)


def test_a_noisy_output_is_reported_unless_it_was_asked_for(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    report = QuantizationReport()
    quantize(pair, samples(4), activations="int8", report=report)
    table = {report.layers[0].layer: report.layers[0].choice}
    monkeypatch.setattr(pipeline, "GOOD_SNR", 100.0)
    nothing, asked, accepted = {"table": table}, {"snr": -math.inf}, {"accept": lambda candidate: True}
    cases: List[Any] = [(nothing, True), (asked, False), (accepted, False)]
    for options, warned in cases:
        report = QuantizationReport()
        quantize(pair, samples(4), activations="int8", report=report, **options)
        assert any("check the pair's answers" in note for note in report.notes) == warned


@pytest.mark.parametrize(
    ("ratios", "chosen"),
    [
        ({"minmax": (4.0, 11.0), "mse": (4.0, 16.0)}, "mse"),  # what one half lacks makes all ways equally bad on it
        ({"minmax": (4.0, 11.0), "mse": (5.0, 13.0)}, "minmax"),
        ({"minmax": (-30.0, 11.0), "mse": (0.0, 14.0)}, "minmax"),
        ({"minmax": (11.7, 28.5), "mse": (10.9, 34.2)}, "minmax"),  # what is cut off matters on one half
    ],
)
def test_ways_are_judged_by_both_halves_of_the_samples_together(
    pair: Pair, ratios: Mapping[str, Sequence[float]], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Net:
        def ranges(self, methods: Sequence[str], part: Sequence[int]) -> Dict[str, str]:
            return {method: method for method in methods}

        def build(self, method: str, *others: object) -> str:
            return method

    class Noise:
        def __init__(self, original: Pair, part: Sequence[int], before_softmax: bool):
            self.half = part[0] // 2

        def of(self, method: str) -> float:
            return ratios[method][self.half]

    monkeypatch.setattr(builders, "OutputNoise", Noise)
    nets: Any = [Net()]
    assert builders._best(nets, list(ratios), pair, [0, 1, 2, 3])[1] == chosen


@pytest.mark.parametrize("calibration", ["mse", "auto"])
def test_a_few_samples_of_large_numbers_do_not_spoil_the_others(pair: Pair, calibration: str) -> None:
    odd = [{"x": sample["x"] * 300} for sample in samples(2, seed=3)]
    cut, whole = (
        quantize(pair, [*samples(30), *odd], activations="int8", snr=-math.inf, calibration=one)
        for one in (calibration, "minmax")
    )
    judged = OutputNoise(pair, samples(8, seed=1))
    assert judged.of(cut) > judged.of(whole) + 10


def test_ranges_are_whole_unless_others_are_clearly_better_on_samples_that_did_not_choose_them(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "lacking", lambda count: 0.0)
    auto, whole = (
        quantize(pair, samples(16), activations="int8", calibration=one, equalize=False) for one in ("auto", "minmax")
    )
    assert auto.init_net.to_bytes() == whole.init_net.to_bytes()
    assert auto.predict_net.to_bytes() == whole.predict_net.to_bytes()


def test_layers_stay_float_until_the_pair_is_accepted(pair: Pair) -> None:
    report = QuantizationReport()
    seen: List[int] = []

    def accept(candidate: Pair) -> bool:
        seen.append(types(candidate).count("tflite.QuantizedConv"))
        return seen[-1] <= 1

    mixed = quantize(pair, samples(4), activations="int8", accept=accept, report=report)
    assert seen[0] > 1
    assert types(mixed).count("tflite.QuantizedConv") <= 1
    floats = [row for row in report.layers if row.choice.activations == "float32"]
    assert 0 < len(floats) < len(report.layers)
    assert all(row.reason for row in floats)
    with pytest.raises(UsageError, match="does not meet the demands even with all of its 4 layers"):
        quantize(pair, samples(4), activations="int8", accept=lambda candidate: False)


def test_an_operator_whose_second_output_is_an_output_stays_float() -> None:
    text = """net "shapes": x, w, b -> y, old
        Conv(x, w, b) -> a  kernel=1
        Reshape(a) -> y, old  shape=[3, -1]"""
    values = {"w": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "b": np.ones(3, np.float32)}
    small = quantize(pair_of(text, values, SHAPES), samples(2), activations="int8")
    with Predictor(small, threads=1) as predictor:
        assert predictor.run(samples(1)[0])["old"].tolist() == [1, 3, 16, 16]


def test_a_table_decides_for_its_layers(pair: Pair) -> None:
    report = QuantizationReport()
    table = {"FC g": Choice("float16", "float32")}
    small = quantize(pair, samples(4), activations="int8", table=table, report=report)
    assert "tflite.QuantizedFullyConnected" not in types(small)
    assert "HalfToFloat" in types(small)
    assert {row.layer: row.choice for row in report.layers}["FC g"] == table["FC g"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"weights": "int3"}, "weights can be"),
        ({"activations": "int7"}, "activations can be"),
        ({"activations": "int8", "weights": "int4", "samples": samples(1)}, "take int8 weights"),
        ({"activations": "int8"}, "need samples"),
        ({"activations": "int8", "samples": []}, "need samples"),
        ({"activations": "int8", "samples": samples(1), "calibration": "guess"}, "calibration can be"),
        ({"activations": "int8", "samples": [{"y": 1}]}, "sample 1 has no input 'x'"),
        ({"activations": "int8", "samples": samples(1)[0]}, "put it into a list"),
        ({"table": {"Conv z": Choice("int8", "float32")}}, "no layer of this net"),
        ({"snr": 30.0}, "need samples"),
        ({"accept": bool}, "need samples"),
        ({"activations": "int8", "samples": [{"x": np.full((1, 3, 16, 16), np.nan, np.float32)}]}, "not finite"),
    ],
)
def test_mistakes_are_named(pair: Pair, options: dict, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        quantize(pair, **options)


def test_constant_activations_are_quantised_without_a_division_by_zero(pair: Pair) -> None:
    zeros = [{"x": np.zeros((1, 3, 16, 16), np.float32)}]
    small = quantize(pair, zeros, activations="int8")
    with Predictor(small, threads=1) as predictor:
        assert all(np.isfinite(value).all() for value in predictor.run(zeros[0]).values())


@pytest.mark.parametrize("calibration", ["auto", "minmax", "percentile", "mse", "entropy"])
def test_scores_that_a_mask_makes_infinite_stay_floats(calibration: str) -> None:
    rng = np.random.default_rng(2)
    values = {name: rng.standard_normal((20, 20)).astype(np.float32) / 4 for name in "wv"}
    mask = np.triu(np.full((20, 20), -np.inf, np.float32), 1)
    net = 'net "masked": x, w, m, v -> y\n MatMul(x, w) -> s\n Add(s, m) -> t\n Softmax(t) -> p\n MatMul(p, v) -> y'
    pair = pair_of(net, {**values, "m": mask}, {"x": (20, 20)})
    feeds = [{"x": rng.standard_normal((20, 20)).astype(np.float32)} for _ in range(12)]
    report = QuantizationReport()
    small = quantize(pair, feeds, activations="int8", snr=-math.inf, calibration=calibration, report=report)
    assert any("Add(s, m) -> t stays float: its range is not known" in note for note in report.notes)
    assert types(small).count("tflite.QuantizedFullyConnected") == 2
    assert OutputNoise(pair, feeds).of(small) > 20


def test_a_filter_of_almost_nothing_keeps_its_bias() -> None:
    """Its scale would be so small that no int32 holds the bias in its steps."""
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((8, 3, 1, 1)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    w[3:6] *= np.float32(1e-20)
    net = pair_of('net "n": x, w, b -> y\n Conv(x, w, b) -> y  kernel=1', {"w": w, "b": b}, {"x": (1, 3, 4, 4)})
    feeds = [{"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)} for _ in range(4)]
    small = quantize(net, feeds, activations="int8", snr=-math.inf)
    assert "tflite.QuantizedConv" in types(small)
    wanted, found = numbers(net, feeds[0])["y"], numbers(small, feeds[0])["y"]
    assert np.abs(found - wanted)[:, 3:6].max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("behind", ["Relu(a) -> r", "Clip(a) -> r  min=0.0 max=6.0", "onnx.HardSwish(a) -> r"])
def test_a_layer_that_is_silent_does_not_spoil_what_reads_it(behind: str, activations: str) -> None:
    rng = np.random.default_rng(3)
    values = {"w": rng.standard_normal((4, 3, 1, 1)) / 9, "v": rng.standard_normal((2, 4, 1, 1))}
    values.update(b=np.full(4, -99.0), c=np.array([0.2, -0.3]))
    text = f'net "n": x, w, b, v, c -> y\n Conv(x, w, b) -> a  kernel=1\n {behind}\n Conv(r, v, c) -> y  kernel=1'
    constants = {name: value.astype(np.float32) for name, value in values.items()}
    net = pair_of(text, constants, {"x": (1, 3, 4, 4)})
    feeds = [{"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)} for _ in range(4)]
    small = quantize(net, feeds, activations=activations, snr=-math.inf)
    assert types(small).count("tflite.QuantizedConv") == 2
    np.testing.assert_allclose(numbers(small, feeds[0])["y"], numbers(net, feeds[0])["y"], rtol=1e-4)
