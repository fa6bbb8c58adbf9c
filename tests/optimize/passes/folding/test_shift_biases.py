"""Biases are left out if the readers of the results can take them over."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from optimize.passes.folding.shift_biases import PASS
from optimize.rewriting.rewrite import Pass
from runtime_arm.engines.conv import bias_shifts
from tests.optimize.kinds import chained_blocks
from tests.optimize.nets import Outcome, applied, assert_keeps_numbers, assert_same_numbers

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


WEIGHTS: Dict[str, Any] = {
    "w": np.array([[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]], np.float32),
    "b": np.array([1, 2], np.float32),
    "c": np.array([10, 20], np.float32),
    "d": np.array([5, 6], np.float32),
    "one": np.ones(1, np.float32),
    "huge": np.full(2, 3e38, np.float32),
    "floor": np.array([[[1.0]], [[2.0]]], np.float32),
    "masking": np.array([0.1, -1e9], np.float32),
    "w3": normal(2, 2, 3, 3),
    "w1": normal(2, 1, 1, 1),
    "w4": normal(2, 4, 1, 1),
    "w_one": normal(1, 2, 1, 1),
    "f": normal(3, 2),
    "fb": normal(3),
    "fb_one": normal(1),
    "f4": normal(3, 8),
    "f_one": np.array([[1, 2, 3, 4, 5, 6, 7, 3e37]], np.float32),
    "f_two": np.array([[1, 2, 3, 4, 5, 6, 4e37, 3e37]], np.float32),
    "ft": np.ones((2, 3), np.float32),
}
SHAPES = {"x": (1, 2, 4, 4), "z": (1, 2, 4, 4)}
LIMIT = bias_shifts.MOST


@pytest.fixture(autouse=True)
def however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises the limit on the size of biases: those of these tests are easy to tell apart and outweigh the results."""
    monkeypatch.setattr(bias_shifts, "MOST", 1e6)


def net(*lines: str, outputs: str = "y") -> str:
    return "\n".join([f'net "": x, z, {", ".join(WEIGHTS)} -> {outputs}', *lines])


def shifted(*lines: str, outputs: str = "y") -> Outcome:
    """The outcome of the pass on the net; both compute the same."""
    outcome = applied(PASS, net(*lines, outputs=outputs), WEIGHTS, SHAPES)
    feeds = {name: normal(*shape) for name, shape in SHAPES.items()}
    assert_same_numbers(outcome.before, outcome.after, feeds, terms=100, layers=2)
    return outcome


def biases(outcome: Outcome) -> List[str]:
    """The biases of the operators that have one."""
    return [op.input[2] for op in outcome.after.predict_net.op if len(op.input) > 2 and op.input[2]]


def test_a_relu_becomes_a_floor() -> None:
    outcome = shifted("ConvRelu(x, w, b) -> a  kernel=1", "ConvRelu(a, w, c) -> y  kernel=1")
    assert outcome.text == [
        'armnet.FusedConv(x, w, "", "", a_floor) -> a_shifted  kernel=1  activation="onnx.Max"',
        "ConvRelu(a_shifted, w, y_bias) -> y  kernel=1",
    ]
    assert outcome.weight("a_floor").tolist() == [[[-1]], [[-2]]]
    assert outcome.weight("y_bias").tolist() == [10 + 1 + 2 * 2, 20 + 3 + 4 * 2]


def test_without_an_activation_no_floor_is_needed() -> None:
    outcome = shifted("Conv(x, w, b) -> a  kernel=1", "armnet.FusedConv(z, w, c, a) -> y  kernel=1")
    assert outcome.text == [
        "Conv(x, w) -> a_shifted  kernel=1",
        "armnet.FusedConv(z, w, y_bias, a_shifted) -> y  kernel=1",
    ]
    assert outcome.weight("y_bias").tolist() == [11, 22]


def test_a_floor_is_shifted_as_well() -> None:
    outcome = shifted(
        'armnet.FusedConv(x, w, b, "", floor) -> a  kernel=1  activation="onnx.Max"', "Conv(a, w, c) -> y  kernel=1"
    )
    assert outcome.weight("a_floor").reshape(-1).tolist() == [0, 0]
    assert biases(outcome) == ["y_bias"]


def test_in_a_chain_of_residual_blocks_only_the_last_block_ends_with_a_bias() -> None:
    blocks = ["ConvRelu(x, w, b) -> a0  kernel=1"]
    for number in range(1, 5):
        blocks += [
            f"ConvRelu(a{number - 1}, w, c) -> m{number}  kernel=1",
            f"ConvRelu(m{number}, w3, d) -> n{number}  kernel=3  pad=1",
            f'armnet.FusedConv(n{number}, w, b, a{number - 1}) -> a{number}  kernel=1  activation="Relu"',
        ]
    outcome = shifted(*blocks, "Copy(a4) -> y")
    assert [name.split("_")[0] for name in biases(outcome)] == ["m1", "m2", "m3", "m4", "a4"]
    assert sum(op.get_str("activation", "") == "onnx.Max" for op in outcome.after.predict_net.op) == 4 + 4


def test_linear_bottlenecks() -> None:
    outcome = shifted(
        "Conv(x, w, b) -> a  kernel=1",
        'armnet.FusedConv(a, w, c) -> m  kernel=1  activation="Clip"  min=0.0  max=6.0',
        "armnet.FusedConv(m, w, d, a) -> e  kernel=1",
        'armnet.FusedConv(e, w, c) -> y  kernel=1  activation="Clip"  min=0.0  max=6.0',
    )
    assert biases(outcome) == ["m_bias", "y_bias"]


@pytest.mark.parametrize(
    "pool",
    [
        "MaxPool(j) -> p  kernel=3  stride=2  legacy_pad=3",
        "MaxPool(j) -> p  kernel=3  pad=1",
        "AveragePool(j) -> p  kernel=2  stride=2",
        "AveragePool(j) -> p  global_pooling=1",
    ],
)
def test_through_a_concatenation_and_a_pool(pool: str) -> None:
    outcome = shifted(
        "ConvRelu(x, w, b) -> a  kernel=1",
        "ConvRelu(z, w, c) -> e  kernel=1",
        "Concat(a, e) -> j, s  axis=1",
        pool,
        "ConvRelu(p, w4, d) -> y  kernel=1",
        "Copy(s) -> t",
        outputs="y, t",
    )
    assert biases(outcome) == ["y_bias_1"]


def test_other_parts_of_a_concatenation_are_not_shifted() -> None:
    outcome = shifted("ConvRelu(x, w, b) -> a  kernel=1", "DepthConcat(z, a) -> j, s", "Conv(j, w4, d) -> y  kernel=1")
    assert biases(outcome) == ["y_bias"]


@pytest.mark.parametrize("layer", ["FC(p, f, fb) -> y", "FCTransposed(p, ft, fb) -> y"])
def test_into_a_fully_connected_layer(layer: str) -> None:
    outcome = shifted("ConvRelu(x, w, b) -> a  kernel=1", "AveragePool(a) -> p  global_pooling=1", layer)
    assert biases(outcome) == ["y_bias"]


def test_into_a_fully_connected_layer_of_several_pixels() -> None:
    outcome = shifted("ConvRelu(x, w, b) -> a  kernel=1", "MaxPool(a) -> p  kernel=2  stride=2", "FC(p, f4, fb) -> y")
    assert biases(outcome) == ["y_bias"]


def test_into_groups_and_windows() -> None:
    outcome = shifted(
        "ConvRelu(x, w, b) -> a  kernel=1",
        "Conv(a, w1, c) -> y  kernel=1  group=2",
        "Conv(a, w3, d) -> u  kernel=3  dilation=1",
        outputs="y, u",
    )
    assert biases(outcome) == ["y_bias", "u_bias"]


def test_a_depthwise_convolution_is_shifted_as_others_are() -> None:
    outcome = shifted("ConvRelu(x, w1, b) -> a  kernel=1  group=2", "Conv(a, w, c) -> y  kernel=1")
    assert biases(outcome) == ["y_bias"]


def test_a_convolution_that_reads_and_adds_it_takes_over_both() -> None:
    outcome = shifted("Conv(x, w, b) -> a  kernel=1", "armnet.FusedConv(a, w, c, a) -> y  kernel=1")
    assert outcome.weight("y_bias").tolist() == [10 + 5 + 1, 20 + 11 + 2]


def test_a_convolution_without_a_bias_passes_the_shift_on() -> None:
    outcome = shifted("Conv(x, w, b) -> a  kernel=1", "ConvRelu(a, w) -> e  kernel=1", "Conv(e, w, c) -> y  kernel=1")
    assert biases(outcome) == ["y_bias"]
    assert outcome.weight("e_floor").reshape(-1).tolist() == [-5, -11]


@pytest.mark.parametrize(
    ("lines", "outputs", "reason"),
    [
        (["ConvRelu(a, w, c) -> y  kernel=1"], "y, a", "'a' is an output of the net"),
        (["Conv(a, w3, c) -> y  kernel=3  pad=1"], "y", "pads with zeros"),
        (["Conv(a, w, c) -> y  kernel=1", "Conv(a, w3, c) -> u  kernel=3  pad=1"], "y, u", "pads with zeros"),
        (["Conv(a, w3, c) -> y  kernel=3  legacy_pad=2"], "y", "pads with zeros"),
        (["AveragePool(a) -> p  kernel=3  pad=1", "Conv(p, w, c) -> y  kernel=1"], "y", "pads with zeros"),
        (
            ['armnet.FusedMaxPool(a) -> p  kernel=2  activation="Relu"', "Conv(p, w, c) -> y  kernel=1"],
            "y",
            "needs the results themselves",
        ),
        (["Sigmoid(a) -> y"], "y", "needs the results themselves"),
        (["AveragePool(a) -> p  kernel=2  stride=2", "FC(p, f_one, fb_one) -> y"], "y", "outweighs the others"),
        (["AveragePool(a) -> p  kernel=2  stride=2", "FC(p, f_two, fb_one) -> y"], "y", "outweighs the others"),
        (["Conv(x, a, c) -> y  kernel=4"], "y", "not a constant float"),
        (["Conv(a, z, c) -> y  kernel=4"], "y", "not a constant float"),
        (['Conv(a, w, c) -> y  kernel=1  control_input=["a"]'], "y", "knows 'a' by name"),
        (["Concat(a, z) -> j, s  axis=2", "Conv(j, w, c) -> y  kernel=1"], "y", "does not join channels"),
        (["Conv(a, w) -> y  kernel=1"], "y", "'y' is an output of the net"),
        (["Conv(a, w) -> e  kernel=1", "Conv(e, w3, c) -> y  kernel=3  pad=1"], "y", "pads with zeros"),
        (
            ["AveragePool(a) -> p  global_pooling=1", "armnet.FusedConv(z, w, c, p) -> y  kernel=1"],
            "y",
            "of different shapes",
        ),
        (["armnet.FusedConv(z, w_one, one, a) -> y  kernel=1"], "y", "of different shapes"),
        (["armnet.FusedConv(one_pixel, w, c, a) -> y  kernel=1"], "y", None),
        (["ConvTranspose(a, w, c) -> y  kernel=1"], "y", "needs the results themselves"),
        (["Conv(a, w, huge) -> y  kernel=1"], "y", None),
    ],
)
def test_the_bias_stays_if_a_reader_cannot_take_it_over(lines: List[str], outputs: str, reason: Any) -> None:
    before = ["AveragePool(x) -> one_pixel  global_pooling=1", "ConvRelu(x, w, b) -> a  kernel=1"]
    outcome = applied(PASS, net(*before, *lines, outputs=outputs), WEIGHTS, SHAPES)
    assert bool(outcome.report.steps) == (reason is None)
    assert reason is None or any(reason in one for one in outcome.reasons), outcome.reasons


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ('armnet.FusedConv(x, w, b) -> a  kernel=1  activation="Clip"  max=6.0', "ends with Clip"),
        ("ConvRelu(x, w, z) -> a  kernel=1", "not a constant float"),
        ("ConvRelu(x, w, one) -> a  kernel=1", "one number for each output"),
        ("ConvRelu(x, w, huge) -> a  kernel=1", "the bias outweighs the results"),
        ('armnet.FusedConv(x, w, b, "", g) -> a  kernel=1  activation="onnx.Max"', "'g' is not constant"),
        ("armnet.FusedConv(x, w, b, g) -> a  kernel=1", "of different shapes"),
    ],
)
def test_a_bias_that_cannot_be_shifted_stays(first: str, reason: str) -> None:
    text = net("Reshape(z_pool) -> g, old  shape=[2, 1, 1]", first, "Conv(a, w, c) -> y  kernel=1")
    text = text.replace("\nReshape", "\nAveragePool(z) -> z_pool  global_pooling=1\nReshape", 1)
    outcome = applied(PASS, text, WEIGHTS, SHAPES)
    assert not outcome.report.steps
    assert any(reason in one for one in outcome.reasons), outcome.reasons


def test_one_refusal_does_not_affect_others() -> None:
    outcome = shifted(
        "ConvRelu(x, w, b) -> a  kernel=1",
        "Conv(a, w, c) -> y  kernel=1",
        "ConvRelu(z, w, b) -> e  kernel=1",
        "Conv(e, w3, c) -> u  kernel=3  pad=1",
        outputs="y, u",
    )
    assert len(outcome.report.steps) == 1


def test_a_long_chain_takes_one_step_per_layer() -> None:
    lines = ["Conv(x, w, b) -> a0  kernel=1"]
    lines += [f"ConvRelu(a{number}, w, b) -> a{number + 1}  kernel=1" for number in range(8)]
    outcome = applied(PASS, net(*lines, "Copy(a8) -> y"), WEIGHTS, SHAPES)
    assert len(outcome.report.steps) == 8


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [chained_blocks], terms=100, layers=2)


def test_after_other_passes_random_nets_compute_the_same() -> None:
    from optimize.pipeline import ALL, MERGING

    passes: List[Pass] = [one for one in ALL if one is not MERGING]
    assert_keeps_numbers(passes, [chained_blocks], terms=100, layers=2)
    assert PASS in passes


def test_existing_names_are_not_reused() -> None:
    text = net(
        "ConvRelu(x, w, b) -> a  kernel=1", "MaxPool(a) -> a_shifted  kernel=2", "Conv(a_shifted, w, c) -> y  kernel=1"
    )
    outcome = applied(PASS, text, WEIGHTS, SHAPES)
    names = [name for op in outcome.after.predict_net.op for name in op.output]
    assert len(set(names)) == 3


def test_a_bias_that_masks_a_channel_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bias_shifts, "MOST", LIMIT)
    outcome = shifted("ConvRelu(x, w, masking) -> a  kernel=1", "Conv(a, w, c) -> y  kernel=1")
    assert not outcome.report.steps
    assert "the bias outweighs the results" in outcome.reasons


def test_shifts_do_not_grow_from_layer_to_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bias_shifts, "MOST", LIMIT)
    width, deep = 64, 30
    weights = {f"w{i}": normal(width, width, 1, 1) * np.float32(1.41 / 8) for i in range(deep)}
    biases = {f"b{i}": normal(width) * np.float32(0.1) for i in range(deep)}
    layers = [f"ConvRelu({f'a{i - 1}' if i else 'x'}, w{i}, b{i}) -> a{i}  kernel=1" for i in range(deep)]
    text = "\n".join([f'net "": x, {", ".join([*weights, *biases])} -> a{deep - 1}', *layers])
    outcome = applied(PASS, text, {**weights, **biases}, {"x": (1, width, 4, 4)})
    assert outcome.report.steps
    assert_same_numbers(outcome.before, outcome.after, {"x": normal(1, width, 4, 4)}, terms=100, layers=2)
