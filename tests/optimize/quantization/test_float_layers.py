"""Layers whose weights become wider are those that take few bytes for the noise that they make."""

from __future__ import annotations

import math
from functools import partial
from typing import AbstractSet, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize import quantize
from optimize.quantization.builders import Floats
from optimize.quantization.float_layers import Found, Outputs, by_excess, by_noise, choose_float_layers
from optimize.quantization.judge import ROOM
from optimize.quantization.outputs import Measured
from optimize.quantization.report import LayerReport
from optimize.quantization.table import Choice
from optimize.rewriting.report import quiet
from runtime_arm import Predictor
from tests.optimize.nets import pair_of

NOISE = {"large": (1e-3, 1e-3), "small": (1e-3, 8e-4), "quiet": (2e-4, 1e-5), "loud": (5e-3, 1e-4)}  # integers, int8
NBYTES = {"large": 100_000, "small": 1_000, "quiet": 50_000, "loud": 20_000}
NARROW = {"float16": 1e-7, "float32": 0.0}


def ratio(floats: Floats, activations: str) -> float:
    """The noise of all layers adds up. What is no float computes as was asked for."""
    noise = 1e-12
    for layer, (integers, packed) in NOISE.items():
        asked = integers if activations == "int8" else packed
        noise += asked if layer not in floats.layers else packed if layer in floats.packed else NARROW[floats.wide]
    return -10 * math.log10(noise)


def found(least: float, activations: str = "int8") -> Found:
    rows: List[LayerReport] = [
        LayerReport(layer, Choice("int8", activations), nbytes, nbytes // 4, 40.0) for layer, nbytes in NBYTES.items()
    ]
    of = partial(ratio, activations=activations)
    outputs = Outputs(
        lambda floats: Measured(of(floats), {"y": 10 ** (-of(floats) / 10)}),
        lambda floats: {"y": max(0.0, 1 - 10 ** ((of(floats) - least) / 10))},
        lambda floats: of(floats) >= least,
        lambda floats: of(floats) >= least + ROOM,
    )
    result = choose_float_layers(rows, outputs, quiet)
    assert result is not None
    assert of(result.floats) >= least
    return result


def wider(floats: Floats) -> AbstractSet[str]:
    return floats.layers - floats.packed


def test_all_weights_stay_packed_where_that_is_enough() -> None:
    floats = found(25.0).floats
    assert floats.layers == floats.packed == {"loud"}
    assert next(iter(found(25.0).alone)) == "loud"


def test_the_layer_of_few_bytes_becomes_wider_and_not_the_one_of_as_much_noise() -> None:
    floats = found(29.0).floats
    assert wider(floats) == {"small"}
    assert floats.wide == "float16"


def test_layers_of_packed_weights_go_back_to_integers_where_that_does_no_harm() -> None:
    floats = found(28.5).floats
    assert wider(floats) == {"small"}
    assert floats.packed == {"loud"}


@pytest.mark.parametrize(("least", "wide", "layers"), [(30.0, "float16", {"large"}), (65.0, "float32", set(NOISE))])
def test_weights_alone_become_wider(least: float, wide: str, layers: AbstractSet[str]) -> None:
    floats = found(least, activations="float32").floats
    assert floats.wide == wide
    assert floats.layers >= layers


def test_what_cannot_be_reached_is_none() -> None:
    rows = [LayerReport("only", Choice("int8", "int8"), 4, 1, 40.0)]
    nothing = Outputs(lambda floats: Measured(0.0, {}), lambda floats: {}, lambda floats: False, lambda floats: False)
    assert choose_float_layers(rows, nothing, quiet) is None


def test_noise_in_an_output_that_is_good_enough_makes_no_weight_wider() -> None:
    noise = {"loud": {"good": 1.0, "bad": 0.1}, "small": {"good": 0.0, "bad": 0.2}, "large": {"good": 0.0, "bad": 0.7}}
    nbytes = {"loud": 100, "small": 100, "large": 1000}
    assert by_excess(noise, {"good": 0.0, "bad": 0.2}, nbytes) == ["small", "loud", "large"]
    assert by_excess(noise, {"good": 0.9, "bad": 0.2}, nbytes)[0] == "loud"
    assert by_excess(noise, {"good": 0.0, "bad": 0.9}, nbytes) == ["small", "loud", "large"]
    nbytes["large"] = 200
    assert by_excess(noise, {"good": 0.0, "bad": 0.9}, nbytes)[0] == "large"
    assert by_noise(noise, nbytes) == ["loud", "large", "small"]


@pytest.mark.parametrize(("nbytes", "expected"), [(90, {"loud"}), (110, {"one", "two"})])
def test_the_order_that_needs_fewer_bytes_is_gone_on_with(nbytes: int, expected: AbstractSet[str]) -> None:
    """0.3 of the noise has to go. The loud layer makes most for each byte, and more than that."""
    shares = {"loud": 0.6, "one": 0.2, "two": 0.1, "large": 0.1}
    sizes = {"loud": nbytes, "one": 40, "two": 60, "large": 1000}
    rows = [LayerReport(layer, Choice("int8", "float32"), size, size // 4, 40.0) for layer, size in sizes.items()]
    calls: List[Floats] = []

    def noise(floats: Floats) -> float:
        return sum(share for layer, share in shares.items() if layer in floats.packed or layer not in floats.layers)

    def good(floats: Floats) -> bool:
        return noise(floats) < 0.7001

    def measured(floats: Floats) -> Measured:
        calls.append(floats)
        return Measured(-noise(floats), {"y": noise(floats)})

    outputs = Outputs(measured, lambda floats: {"y": 0.3}, good, good)
    result = choose_float_layers(rows, outputs, quiet)
    assert result is not None
    assert wider(result.floats) == expected
    assert len(calls) == len(rows), "layers of packed weights alone are measured once"


@pytest.mark.parametrize(
    ("nbytes", "layers", "wide"), [(20, {"a", "b"}, {"a", "b"}), (40, {"a", "b", "c", "d"}, {"a"})]
)
def test_a_few_more_wider_weights_are_taken_where_layers_then_compute_on_integers(
    nbytes: int, layers: AbstractSet[str], wide: AbstractSet[str]
) -> None:
    """Noise of 0.96 is good enough, and of 0.75 leaves room. With b packed, no other layer can be on integers; without,
    all others can."""
    noise = {"a": (0.4, 0.4), "b": (0.3, 0.25), "c": (0.45, 0.35), "d": (0.42, 0.35)}  # integers, int8
    sizes = {"a": 10, "b": nbytes, "c": 500, "d": 500}
    rows = [LayerReport(layer, Choice("int8", "int8"), size, size // 4, 40.0) for layer, size in sizes.items()]

    def of(floats: Floats) -> float:
        return sum(
            integers if layer not in floats.layers else packed if layer in floats.packed else 0.0
            for layer, (integers, packed) in noise.items()
        )

    outputs = Outputs(
        lambda floats: Measured(-of(floats), {"y": of(floats)}),
        lambda floats: {"y": 0.3},
        lambda floats: of(floats) <= 0.96,
        lambda floats: of(floats) <= 0.75,
    )
    result = choose_float_layers(rows, outputs, quiet)
    assert result is not None
    assert (result.floats.layers, wider(result.floats)) == (layers, wide)


def test_floats_that_no_layer_on_integers_reads_are_not_quantised() -> None:
    """A network of TensorFlow Lite first moves the channels of its input. Where the first layer computes on floats,
    eight bits there would be noise for nothing."""
    text = """net "last": x, w, v -> y
        Transpose(x) -> first  axes=[0, 3, 1, 2]
        Conv(first, w) -> a  kernel=3
        Conv(a, v) -> y  kernel=3"""
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "v": (4, 8, 3, 3)}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    pair = pair_of(text, values, {"x": (1, 12, 12, 3)})
    samples = [{"x": rng.standard_normal((1, 12, 12, 3)).astype(np.float32)} for _ in range(4)]
    whole, float32 = Choice("int8", "int8"), Choice("float32", "float32")
    for first, second, quantised in ((whole, whole, ["x"]), (float32, whole, ["a"]), (float32, float32, [])):
        small = quantize(pair, samples, activations="int8", table={"Conv a": first, "Conv y": second})
        assert [op.input[0] for op in small.predict_net.op if op.type == "Quantize"] == quantised
    with Predictor(pair, threads=1) as one, Predictor(small, threads=1) as other:
        assert_close(one.run(samples[0])["y"], other.run(samples[0])["y"], terms=3 * 9 + 8 * 9)
