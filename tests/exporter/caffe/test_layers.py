"""Caffe's layers where parameters and tops are unusual, exported and in training; the results are Caffe's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, NamedTuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from training.caffe import Net


class Case(NamedTuple):
    layer: str
    inputs: Dict[str, Any]
    tops: Dict[str, Any]


def f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


IMAGE = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
SCORES = f32(3, 1, 2, 5, 0, 4).reshape(2, 3)
CASES = [
    Case('type: "SPP" bottom: "x" top: "y" spp_param { pyramid_height: 1 }', {"x": IMAGE}, {"y": [[[[3]], [[7]]]]}),
    Case(
        'type: "SigmoidCrossEntropyLoss" bottom: "x" bottom: "t" top: "y" loss_param { ignore_label: 0 }',
        {"x": f32(0, 0, 0).reshape(1, 3), "t": f32(0, 0.5, 1).reshape(1, 3)},
        {"y": np.log(2)},
    ),
    Case(
        'type: "Accuracy" bottom: "x" bottom: "t" top: "y" top: "classes"',
        {"x": SCORES, "t": f32(0, 2)},
        {"y": 0.5, "classes": [1, 0, 0]},
    ),
    Case(
        'type: "Pooling" bottom: "x" top: "y" pooling_param { pool: AVE kernel_size: 1 stride: 3 }',
        {"x": np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)},
        {"y": [[[[1, 4, -0.0], [16, 19, -0.0], [-0.0, -0.0, 0]]]]},
    ),
    Case(
        'type: "Pooling" bottom: "x" top: "y" pooling_param { pool: AVE kernel_size: 2 stride: 3 }',
        {"x": np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)},
        {"y": [[[[3.5, 6.5, np.nan], [21.5, 24.5, np.nan], [np.nan] * 3]]]},
    ),
]


def text_of(case: Case) -> str:
    inputs = [
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        f"{' '.join(f'dim: {n}' for n in value.shape)} }} }} }}"
        for name, value in case.inputs.items()
    ]
    return "\n".join([*inputs, f'layer {{ name: "l" {case.layer} }}'])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.layer.split('"')[1])
def test_they_compute_what_caffe_computes(case: Case, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(text_of(case))
    with Predictor(export(tmp_path / "net.prototxt")) as predictor:
        exported = predictor.run(case.inputs)
    trained = Net(text_of(case)).forward(**case.inputs)
    for results in (exported, trained):
        assert set(results) == set(case.tops)
        for name, wanted in case.tops.items():
            assert_close(results[name], np.asarray(wanted, np.float32), what=name)


X = {"x": SCORES}
PAIR = {"x": SCORES, "t": f32(0, 2)}
GAINS = {**PAIR, "h": np.eye(3, dtype=np.float32).reshape(1, 1, 3, 3)}
REFUSED = [
    Case('type: "AbsVal" bottom: "x" top: "x"', X, {}),
    Case('type: "SoftmaxWithLoss" bottom: "x" bottom: "t" top: "y" top: "p"', PAIR, {}),
    Case('type: "SoftmaxWithLoss" bottom: "x" bottom: "t" top: "y" top: "p" loss_weight: 1', PAIR, {}),
    Case('type: "InfogainLoss" bottom: "x" bottom: "t" bottom: "h" top: "y" top: "p"', GAINS, {}),
    Case('type: "Accuracy" bottom: "x" bottom: "t" top: "y" accuracy_param { top_k: 4 }', PAIR, {}),
    Case('type: "Eltwise" bottom: "x" top: "y"', X, {}),
    Case(
        'type: "BatchNorm" bottom: "x" top: "y" batch_norm_param { use_global_stats: false }',
        {"x": f32(1, 2, 3)},
        {},
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.layer.split('"')[1])
def test_what_caffe_refuses_is_refused(case: Case, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(text_of(case))
    with pytest.raises(ArmnetError, match="layer 'l'"):
        export(tmp_path / "net.prototxt")
    with pytest.raises(ArmnetError, match="layer 'l'"):
        Net(text_of(case)).forward(**case.inputs)


def test_gains_have_no_gradient() -> None:
    text = text_of(Case('type: "InfogainLoss" bottom: "x" bottom: "t" bottom: "h" top: "y"', GAINS, {}))
    net = Net("force_backward: true\n" + text)
    net.forward(**GAINS)
    with pytest.raises(ArmnetError, match="gains have no gradient"):
        net.backward()


def test_bins_of_padding_alone_are_refused_in_training() -> None:
    case = Case('type: "SPP" bottom: "x" top: "y" spp_param { pyramid_height: 3 }', {"x": f32(*[1] * 9)}, {})
    case = case._replace(inputs={"x": case.inputs["x"].reshape(1, 1, 3, 3)})
    with pytest.raises(ArmnetError, match="cannot be divided"):
        Net(text_of(case)).forward(**case.inputs)


def test_outputs_are_in_the_order_of_their_names() -> None:
    assert Net(text_of(CASES[2])).outputs == ["classes", "y"]


@pytest.mark.parametrize("type", ["Dropout", "ReLU"])
def test_a_layer_in_place_on_the_input_may_be_the_whole_net(type: str, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(text_of(Case(f'type: "{type}" bottom: "x" top: "x"', X, {})))
    with Predictor(export(tmp_path / "net.prototxt")) as predictor:
        np.testing.assert_array_equal(predictor.run([SCORES])["x"], SCORES)
