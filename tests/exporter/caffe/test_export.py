"""Caffe nets: real networks, encodings of weights, inference parts of training nets, undeclared sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close, assert_each_close
from exporter import export
from exporter.support import support
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.exporter.caffe.models import caffemodel, net, pair_of

REAL = {
    "lenet_armnn": ("lenet_armnn/lenet", "lenet_armnn/lenet_iter_9000"),
    "mtcnn_det1": ("mtcnn/det1", "mtcnn/det1"),
    "mtcnn_det2": ("mtcnn/det2", "mtcnn/det2"),
    "mtcnn_det3": ("mtcnn/det3", "mtcnn/det3"),
    "squeezenet_v1.0_decoded": (
        "squeezenet_v1.0_deepcompressed/SqueezeNet_deploy",
        "squeezenet_v1.0_deepcompressed/SqueezeNet_v1.0_decoded",
    ),
    "ultraface_RFB": ("ultraface/RFB-320", "ultraface/RFB-320"),
    "ultraface_slim": ("ultraface/slim-320", "ultraface/slim-320"),
}
RELATIVE_ERROR = 1e-4  # of the output's largest magnitude
CONVOLUTION = """layer { name: "c" type: "Convolution" bottom: "x" top: "c"
                 convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }"""
RANDOM = np.random.default_rng(0)
WEIGHTS = {"c": [RANDOM.standard_normal((4, 3, 3, 3)), RANDOM.standard_normal(4)]}


@pytest.mark.parametrize("name", REAL)
def test_a_network_reproduces_its_reference(shared: Path, name: str) -> None:
    prototxt, model = REAL[name]
    pair = export(shared / f"models/caffe/{prototxt}.prototxt", shared / f"models/caffe/{model}.caffemodel")
    reference = dict(np.load(shared / f"models/references/caffe_{name}.npz"))
    x = next(value for key, value in reference.items() if key.startswith("in"))
    wanted = {key: value for key, value in reference.items() if not key.startswith("in")}
    with Predictor(pair) as predictor:
        results = predictor.run([x])
    for key, value in wanted.items():
        result = results[key] if key in results else next(iter(results.values()))
        assert result.size == value.size, key
        assert np.abs(result.reshape(-1) - value.reshape(-1)).max() <= RELATIVE_ERROR * np.abs(value).max(), key


@pytest.mark.parametrize(
    "path",
    [
        "mobilenet_prototxts/mobilenet_deploy",
        "mobilenet_prototxts/mobilenet_v2_deploy",
        "mobilenet_ssd_prototxt/deploy",
        "squeezenet_prototxts/train_val",
    ],
)
def test_every_layer_of_a_network_without_weights_is_known(shared: Path, path: str) -> None:
    rows = support(str(shared / f"models/caffe/{path}.prototxt"))
    assert len(rows) > 3
    assert [row for row in rows if row.problem] == []


@pytest.mark.parametrize("form", [{}, {"double": True}, {"v1": True}])
def test_weights_in_every_form(tmp_path: Path, form: Dict[str, bool]) -> None:
    x = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
    results = [
        Predictor(pair_of(tmp_path, net(CONVOLUTION), caffemodel(WEIGHTS, **options))).run([x])["c"]
        for options in ({}, form)
    ]
    np.testing.assert_array_equal(*results)


def test_weights_in_the_old_form_have_four_dimensions(tmp_path: Path) -> None:
    text = net('layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 5 } }')
    table, bias = RANDOM.standard_normal((5, 192)), RANDOM.standard_normal(5)
    x = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)
    pair = pair_of(tmp_path, text, caffemodel({"f": [table, bias]}, legacy=True))
    expected = (x.reshape(2, -1) @ table.T + bias).astype(np.float32)
    assert_close(Predictor(pair).run([x])["f"], expected, terms=193)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (5, 3, 8, 8), (2, 3, 15, 6)])
def test_batch_and_picture_sizes_are_open_whatever_is_declared(tmp_path: Path, shape: Any) -> None:
    layers = [
        CONVOLUTION,
        'layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 3 stride: 2 } }',
        'layer { name: "s" type: "Softmax" bottom: "p" top: "s" }',
    ]
    pair = pair_of(tmp_path, net(*layers), WEIGHTS)
    assert pair.inputs[0].shape == (None, 3, None, None)
    assert pair.meta["preprocessing"] == {"resize": [8, 8]}
    result = Predictor(pair).run([np.ones(shape, np.float32)])["s"]
    assert result.shape == (shape[0], 4, *[-(-(n - 3) // 2) + 1 for n in shape[2:]])
    assert_each_close(result.sum(1), np.ones((len(result), *result.shape[2:])), terms=4)


TRAINING = """
layer { name: "d" type: "Data" top: "x" top: "label" include { phase: TRAIN } }
layer { name: "d" type: "Data" top: "x" top: "label" include { phase: TEST } }
layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 3 bias_term: false } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "f" bottom: "label" top: "loss" }
layer { name: "acc" type: "Accuracy" bottom: "f" bottom: "label" top: "acc" include { phase: TEST } }
"""
TABLE = {"f": [np.eye(3)]}


def test_a_training_net_loses_layers_that_need_labels(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, TRAINING, TABLE)
    assert ([info.name for info in pair.inputs], [info.name for info in pair.outputs]) == (["x"], ["f"])
    np.testing.assert_array_equal(Predictor(pair).run([np.eye(3, dtype=np.float32)])["f"], np.eye(3))


def test_losses_are_kept_on_request(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, TRAINING, TABLE, keep_losses=True)
    assert [info.name for info in pair.inputs] == ["x", "label"]
    results = Predictor(pair).run([10 * np.eye(3, dtype=np.float32), np.array([0, 1, 0], np.float32)])
    assert list(results) == ["loss", "acc"]
    assert results["acc"] == np.float32(2 / 3)


def test_outputs_of_in_place_layers_keep_their_names(tmp_path: Path) -> None:
    layers = [
        'layer { name: "a" type: "Power" bottom: "x" top: "y" power_param { shift: -1 } }',
        'layer { name: "r" type: "ReLU" bottom: "y" top: "y" }',
        'layer { name: "b" type: "Power" bottom: "y" top: "y" power_param { scale: 2 } }',
    ]
    pair = pair_of(tmp_path, net(*layers, dims=[4]))
    np.testing.assert_array_equal(Predictor(pair).run([np.array([0, 1, 2, 3], np.float32)])["y"], [0, 0, 2, 4])


@pytest.mark.parametrize(("threshold", "found"), [(0.5, 1), (0.7, 2)])
def test_ssd_finds_boxes(tmp_path: Path, threshold: float, found: int) -> None:
    """Two boxes that overlap by 0.6."""
    text = net(
        'layer { name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "p" prior_box_param { min_size: 4 '
        "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }",
        'layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 1 dim: 16 } } }',
        'layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 1 dim: 8 } } }',
        'layer { name: "d" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "p" top: "d" '
        f"detection_output_param {{ num_classes: 2 code_type: CENTER_SIZE nms_param {{ nms_threshold: {threshold} }} "
        "confidence_threshold: 0.5 keep_top_k: 10 } }",
        dims=[1, 1, 2, 2],
    )
    pair = pair_of(tmp_path, text)
    confidence = np.array([[0.1, 0.9, 0.2, 0.8, 0.9, 0.1, 0.9, 0.1]], np.float32)
    feeds = {"x": np.zeros((1, 1, 2, 2), np.float32), "l": np.zeros((1, 16), np.float32), "c": confidence}
    with Predictor(pair) as predictor:
        rows = predictor.run(feeds)["d"]
        nothing = predictor.run({**feeds, "c": np.zeros((1, 8), np.float32)})["d"]
    wanted = [[0, 1, 0.9, -0.75, -0.75, 1.25, 1.25], [0, 1, 0.8, -0.25, -0.75, 1.75, 1.25]][:found]
    assert_each_close(rows[0, 0], wanted)
    np.testing.assert_array_equal(nothing, [[[[0, -1, -1, -1, -1, -1, -1]]]])


@pytest.mark.parametrize(
    ("text", "blobs", "rule"),
    [
        (net(CONVOLUTION), None, r"layer 'c' \(Convolution\): needs 2 trained blobs"),
        (net(CONVOLUTION), {"c": [np.zeros((4, 2, 3, 3)), np.zeros(4)]}, r"layer 'c' .*blob 0 has the shape \[4, 2, "),
        (net(CONVOLUTION), {"c": [np.zeros((4, 3, 3, 3))]}, "layer 'c' .*needs 2 blobs, the caffemodel has 1"),
        (
            net('layer { name: "n" type: "Nothing" bottom: "x" top: "y" }'),
            None,
            r"layer 'n' \(Nothing\): .*no such layer",
        ),
        (
            net('layer { name: "n" type: "ReLU" bottom: "z" top: "y" }'),
            None,
            "layer 'n' .*bottom 'z' is not written by any earlier layer",
        ),
        (net('layer { name: "n" type: "ReLU" bottom: "x" top: "x" top: "z" }'), None, "takes 1 tops, got 2"),
        (net(), None, "computes nothing"),
    ],
)
def test_refusals_name_file_layer_and_blob(tmp_path: Path, text: str, blobs: Any, rule: str) -> None:
    with pytest.raises(ExportError, match=rule) as caught:
        pair_of(tmp_path, text, blobs)
    assert str(caught.value).startswith(str(tmp_path / "net.prototxt"))
    assert "\n" not in str(caught.value)


def test_bnll_does_not_overflow(tmp_path: Path) -> None:
    """BNLLForward in Caffe's bnll_layer.cpp adds log(1 + exp(-x)) to a positive x."""
    pair = pair_of(tmp_path, net('layer { name: "y" type: "BNLL" bottom: "x" top: "y" }', dims=(1, 3)))
    with Predictor(pair) as predictor:
        y = predictor.run([np.array([[100.0, 0.0, -200.0]], np.float32)])["y"]
    assert y.tolist() == [[100.0, np.log(np.float32(2)), 0.0]]


def test_a_net_whose_state_is_train_runs_in_that_phase(tmp_path: Path) -> None:
    layers = [
        'layer { name: "b" type: "BatchNorm" bottom: "x" top: "b" phase: TEST }',
        'layer { name: "d" type: "Dropout" bottom: "b" top: "d" dropout_param { dropout_ratio: 0.25 } }',
        'layer { name: "t" type: "ReLU" bottom: "x" top: "t" include { phase: TRAIN } }',
        'layer { name: "s" type: "TanH" bottom: "x" top: "s" include { phase: TEST } }',
    ]
    x = RANDOM.standard_normal((4, 3, 8, 8)).astype(np.float32)
    statistics = {"b": [np.zeros(3), np.ones(3), np.ones(1)]}
    normalised = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
    for state, expected in (("", x), ("state { phase: TRAIN }\n", normalised)):
        with Predictor(pair_of(tmp_path, state + net(*layers), statistics)) as predictor:
            results = predictor.run([x], keep=["b"])
        assert_close(results["b"], expected, terms=x[:, 0].size, amplification=2)  # both sides round
        assert set(results) == {"b", "d", "t" if state else "s"}
        dropped = results["d"] == 0
        assert dropped.any() == bool(state)
        assert_each_close(results["d"][~dropped], (results["b"] / (0.75 if state else 1))[~dropped])


@pytest.mark.parametrize(
    "sharing", ["Reshape|reshape_param { shape { dim: 0 dim: -1 } }", "Flatten|", "Concat|", "Slice|"]
)
def test_a_layer_in_place_changes_all_blobs_that_have_one_memory_in_caffe(tmp_path: Path, sharing: str) -> None:
    kind, param = sharing.split("|")
    pair = pair_of(
        tmp_path,
        net(
            'layer { name: "doubled" type: "Power" bottom: "x" top: "doubled" power_param { scale: 2 } }',
            f'layer {{ name: "other" type: "{kind}" bottom: "doubled" top: "other" {param} }}',
            'layer { name: "relu" type: "ReLU" bottom: "other" top: "other" }',
            'layer { name: "tripled" type: "Power" bottom: "doubled" top: "tripled" power_param { scale: 3 } }',
            dims=(1, 3, 4, 4),
        ),
    )
    x = np.arange(-24, 24, dtype=np.float32).reshape(1, 3, 4, 4)
    with Predictor(pair) as predictor:
        results = predictor.run([x])
    assert_each_close(results["tripled"], 3 * np.maximum(2 * x, 0), what="tripled")
    assert_each_close(results["other"].reshape(-1), np.maximum(2 * x, 0).reshape(-1), what="other")


@pytest.mark.parametrize("kind", ["Split", "Flatten"])
def test_a_layer_in_place_changes_results_that_have_its_memory_in_caffe(tmp_path: Path, kind: str) -> None:
    layers = [
        f'layer {{ name: "one" type: "{kind}" bottom: "x" top: "one" }}',
        f'layer {{ name: "other" type: "{kind}" bottom: "x" top: "other" }}',
        'layer { name: "relu" type: "ReLU" bottom: "other" top: "other" }',
        'layer { name: "doubled" type: "Power" bottom: "one" top: "one" power_param { scale: 2 } }',
    ]
    x = np.arange(-24, 24, dtype=np.float32).reshape(1, 3, 4, 4)
    with Predictor(pair_of(tmp_path, net(*layers, dims=x.shape))) as predictor:
        results = predictor.run([x])
    assert sorted(results) == ["one", "other"]
    for name, result in results.items():
        assert_each_close(result.reshape(-1), 2 * np.maximum(x, 0).reshape(-1), what=name)
