"""Texts that Caffe refuses are refused, and corner cases have Caffe's values: those of real Caffe 1.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")

from runtime_arm.errors import ExportError
from training.caffe import Net

PICTURE = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 7 } } }'
OTHER = 'layer { name: "x2" type: "Input" top: "x2" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 8 } } }'


def layer(type: str, param: str, tail: str = 'bottom: "x" top: "y"') -> str:
    return f'layer {{ name: "l" type: "{type}" {tail} {param} }}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (layer("ReLU", "propagate_down: true propagate_down: false"), "one propagate_down for each bottom"),
        (layer("ArgMax", "argmax_param { top_k: 0 }"), "top_k"),
        (layer("Exp", "exp_param { base: 0 }"), "base"),
        (layer("Log", "log_param { base: -2 }"), "base"),
        (layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 stride_h: 2 stride_w: 3 }"), "stride"),
        (layer("Pooling", "pooling_param { kernel_size: 2 pad_h: 1 }"), "pad"),
        (layer("Pooling", "pooling_param { global_pooling: true stride: 2 }"), "global_pooling"),
        (
            OTHER
            + layer(
                "Convolution",
                "convolution_param { num_output: 3 kernel_size: 3 }",
                'bottom: "x" bottom: "x2" top: "y" top: "y2"',
            ),
            "one shape",
        ),
    ],
)
def test_refused_as_in_caffe(text: str, reason: str) -> None:
    with pytest.raises(ExportError, match=reason):
        Net(PICTURE + text)


def test_a_gradient_of_a_blob_whose_shape_a_layer_in_place_changes_is_refused() -> None:
    net = Net("force_backward: true\n" + PICTURE + layer("Tile", "tile_param { tiles: 2 }", 'bottom: "x" top: "x"'))
    net.forward()
    with pytest.raises(ExportError, match="another shape"):
        net.backward()


def test_the_lower_bound_of_clip_counts_if_the_bounds_are_crossed() -> None:
    net = Net(PICTURE + layer("Clip", "clip_param { min: -0.5 max: -1 }"))
    given: Any = np.linspace(-2, 2, 252).reshape(2, 3, 6, 7)
    assert np.array_equal(net.forward(x=given)["y"], np.full((2, 3, 6, 7), -0.5))


def test_mvn_gives_four_dimensions() -> None:
    text = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 6 dim: 7 } } }'
    net = Net(text + layer("MVN", ""))
    assert net.forward(x=np.ones((3, 6, 7)))["y"].shape == (3, 6, 7, 1)


def test_blobs_and_layers_have_the_order_of_the_text() -> None:
    net = Net(PICTURE + layer("ReLU", "") + OTHER + layer("AbsVal", "", 'bottom: "x2" top: "z"'))
    assert list(net.blobs) == ["x", "y", "x2", "z"]
    assert [proto.type for proto in net.protos] == ["Input", "ReLU", "Input", "AbsVal"]


def test_fields_named_input_are_one_layer() -> None:
    text = 'input: "a" input: "b" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 '
    net = Net(text + "input_dim: 5 input_dim: 6 input_dim: 7 input_dim: 8 " + layer("ReLU", "", 'bottom: "a" top: "c"'))
    assert [(proto.name, list(proto.top)) for proto in net.protos] == [("input", ["a", "b"]), ("l", ["c"])]
    assert [net.blobs[name].shape for name in "ab"] == [(1, 2, 3, 4), (5, 6, 7, 8)]
