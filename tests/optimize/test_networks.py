"""Well-known networks lose their foldable normalisations and separate activations, and compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import numpy as np
import pytest

from optimize import Report, optimize
from optimize.rewriting.report import operator_counts
from runtime_arm import Predictor
from runtime_arm.machine.caches import usual_block_nbytes
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import assert_same_network

pytest.importorskip("onnx", reason="exporting needs onnx")

from device_tests.host.networks import known as networks
from exporter import export
from exporter.bundle.random_inputs import random_inputs

SMALL = {"resnet50": 64, "mobilenet_v2": 64, "googlenet": 64, "densenet121": 64, "squeezenet1_1": 64, "unet": 64}

# The operators left in each network; operator types not listed occur at most once.
EXPECTED: Dict[str, Dict[str, int]] = {
    "resnet50": {"ConvRelu": 16, "armnet.FusedConv": 32, "Conv": 5},
    "mobilenet_v2": {"armnet.FusedConv": 45, "Conv": 7},
    "googlenet": {
        "ConvRelu": 19,
        "armnet.FusedConv": 36,
        "Conv": 2,
        "MaxPool": 11,
        "armnet.FusedMaxPool": 2,
        "Concat": 9,
    },
    "densenet121": {"ConvRelu": 58, "armnet.FusedBatchNorm": 62, "Conv": 62, "Concat": 58, "AveragePool": 4},
    "squeezenet1_1": {"ConvRelu": 7, "Conv": 12, "armnet.FusedConv": 14, "armnet.FusedMaxPool": 5},
    "unet": {"ConvRelu": 17, "ConvTranspose": 4, "Concat": 4, "MaxPool": 4},
}
# The number of convolutions that keep a bias: those followed by zero padding, ReLU6 or an operator that is not linear,
# the first one of all, and one whose shift would outweigh its results.
BIASED = {
    "resnet50": 1 + 16 + 1,
    "mobilenet_v2": 1 + 17 + 17,
    "googlenet": 3 + 2 * 9,
    "densenet121": 59,
    "squeezenet1_1": 19,
    "unet": 22,
}
SPLIT = {"squeezenet1_1": 7}  # convolutions of a concatenation that were split in two


@pytest.mark.parametrize("name", EXPECTED)
def test_the_operators_left_in_a_network(name: str) -> None:
    pair = export(networks.build(name, image_size=SMALL[name]))
    before, report = operator_counts(pair.predict_net), Report()
    result = optimize(pair, report=report)
    after = operator_counts(result.predict_net)
    assert {type: count for type, count in after.items() if count > 1} == EXPECTED[name], report
    layers = sum(before.get(type, 0) for type in ("Conv", "ConvTranspose", "FC"))
    left = sum(after.get(type, 0) for type in ("Conv", "ConvRelu", "armnet.FusedConv", "ConvTranspose", "FC"))
    assert left == layers + SPLIT.get(name, 0)
    assert not after.keys() & {"SpatialBN", "Relu", "Clip", "Add"}
    convolutions = [op for op in result.predict_net.op if "Conv" in op.type]
    assert sum(bool(op.input[2]) for op in convolutions if len(op.input) > 2) == BIASED[name]
    assert_same_network(pair, result, random_inputs(pair))
    assert optimize(result) == result


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_a_dynamic_batch_is_optimised_like_a_fixed_one(name: str) -> None:
    fixed = optimize(export(networks.build(name, image_size=64)))
    pair = export(networks.build(name, image_size=64, batch="batch"))
    result = optimize(pair)
    assert operator_counts(result.predict_net) == operator_counts(fixed.predict_net)
    for batch in (1, 3):
        feed = {"data": np.random.default_rng(batch).standard_normal((batch, 3, 64, 64)).astype(np.float32)}
        assert_same_network(pair, result, feed)


@pytest.mark.parametrize("name", ["resnet18", "densenet121"])
def test_caffe2_compatible(name: str) -> None:
    pair = export(networks.build(name, image_size=64), caffe2_compatible=True)
    result = optimize(pair, caffe2_compatible=True)
    counts = operator_counts(result.predict_net)
    assert not any(op.domain for op in result.predict_net.op)
    assert counts["ConvRelu"] >= 9
    assert counts.get("SpatialBN", 0) == {"resnet18": 0, "densenet121": 62}[name]
    assert_same_network(pair, result, random_inputs(pair))


def test_a_network_with_open_image_size_takes_any_size(shared: Path) -> None:
    """If sizes do not divide evenly, sums broadcast or are refused after optimising just as before."""
    pair = export(shared / "models/onnx/ppocr_mobile_v1.1_det/ch_mobile_v1.1_det.onnx")
    result = optimize(pair)
    assert operator_counts(result.predict_net)["armnet.FusedConv"] == 38
    for size in ((32, 32), (64, 96), (1, 1)):
        feed = {pair.inputs[0].name: np.random.default_rng(0).random((1, 3, *size), np.float32)}
        assert_same_network(pair, result, feed)


def test_a_net_whose_weights_are_missing_is_optimised_as_far_as_possible(shared: Path) -> None:
    """In structure-only nets the parameters are inputs, so nothing is folded, but activations are fused."""
    from runtime_arm.netdef import NetDef
    from runtime_arm.pair.pair import read_net

    net = read_net(shared / "models/caffe2/predict_only_models/resnet50_predict_net.pbtxt")
    pair = Pair.from_nets(NetDef(), net.replace(external_input=net.captures()))
    report = Report()
    result = optimize(pair, report=report)
    assert operator_counts(result.predict_net)["armnet.FusedBatchNorm"] > 30
    assert report.warnings


def test_the_arena_grows_by_at_most_one_block_of_scratch(shared: Path) -> None:
    for name in ("squeezenet_v1.1/squeezenet_v1.1", "ultraface/version-RFB-320_simplified"):
        pair = export(shared / f"models/onnx/{name}.onnx")
        with Predictor(pair, threads=1) as plain, Predictor(optimize(pair), threads=1) as optimised:
            most = plain.plan().arena_nbytes + usual_block_nbytes()
            assert optimised.plan().arena_nbytes <= most
