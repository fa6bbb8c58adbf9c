"""Layers of Caffe's forks without recorded runs, compared with NumPy: SegNet, PSPNet, SENet, regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.exporter.caffe.models import net, pair_of
from tests.support.operands import random


def layer(type: str, bottoms: str, tops: str = "y", **parameters: str) -> str:
    """A layer as text; its parameters are given like ``bn_param="eps: 1"``."""
    blobs = " ".join([*(f'bottom: "{name}"' for name in bottoms.split()), *(f'top: "{name}"' for name in tops.split())])
    given = " ".join(f"{name} {{ {text} }}" for name, text in parameters.items())
    return f'layer {{ name: "{tops.split()[0]}" type: "{type}" {blobs} {given} }}'


def input_layer(name: str, *dims: int) -> str:
    shape = " ".join(f"dim: {n}" for n in dims)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {shape} }} }} }}'


def run(folder: Path, text: str, feeds: Dict[str, Any], blobs: Any = None) -> Any:
    with Predictor(pair_of(folder, text, blobs)) as predictor:
        return predictor.run(feeds)["y"]


def test_batch_normalisation_with_trained_statistics(tmp_path: Path) -> None:
    x, scale, shift, mean, variance = random((2, 3, 4, 5)), *(random((1, 3, 1, 1), seed) for seed in (1, 2, 3, 4))
    variance = np.abs(variance)
    y = run(
        tmp_path,
        net(layer("BN", "x", bn_param="eps: 0.5 frozen: true"), dims=(1, 3, 4, 5)),
        {"x": x},
        {"y": [scale, shift, mean, variance]},
    )
    assert_close(y, scale * (x - mean) / np.sqrt(variance + np.float32(0.5)) + shift, terms=4, magnitude=8)


def test_batch_normalisation_with_statistics_folded_into_scale_and_shift(tmp_path: Path) -> None:
    x, scale, shift = random((2, 3, 4, 5)), random((1, 3, 1, 1), 1), random((1, 3, 1, 1), 2)
    text = net(layer("BN", "x", bn_param="bn_mode: INFERENCE"), dims=(1, 3, 4, 5))
    assert_close(run(tmp_path, text, {"x": x}, {"y": [scale, shift]}), scale * x + shift, magnitude=8)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1, 1)])
def test_channels_are_scaled_and_added(tmp_path: Path, shape: Any) -> None:
    a, x, b = random(shape), random((2, 3, 4, 5), 1), random((2, 3, 4, 5), 2)
    text = "\n".join(
        [input_layer("a", *shape), input_layer("x", 2, 3, 4, 5), input_layer("b", 2, 3, 4, 5), layer("Axpy", "a x b")]
    )
    assert_close(run(tmp_path, text, {"a": a, "x": x, "b": b}), a.reshape(2, 3, 1, 1) * x + b, magnitude=8)


def test_upsampling_puts_maxima_back_in_their_places(tmp_path: Path) -> None:
    x = random((2, 3, 6, 8))
    text = net(
        layer("Pooling", "x", "p mask", pooling_param="pool: MAX kernel_size: 2 stride: 2"),
        layer("Upsample", "p mask", upsample_param="scale: 2"),
        dims=(1, 3, 6, 8),
    )
    cells = x.reshape(2, 3, 3, 2, 4, 2)
    largest = cells.max(axis=(3, 5), keepdims=True)
    np.testing.assert_array_equal(run(tmp_path, text, {"x": x}), np.where(cells == largest, cells, 0).reshape(x.shape))


def test_regions_are_pooled(tmp_path: Path) -> None:
    x = random((1, 8, 6, 6))
    rois = np.array([[0, 0, 0, 5, 5], [0, 2, 2, 3, 5]], np.float32)
    inputs = "\n".join([input_layer("x", 1, 8, 6, 6), input_layer("rois", 2, 5)])
    feeds = {"x": x, "rois": rois}
    largest = layer("ROIPooling", "x rois", roi_pooling_param="pooled_h: 2 pooled_w: 1 spatial_scale: 1")
    y = run(tmp_path, f"{inputs}\n{largest}", feeds)
    np.testing.assert_array_equal(y[0, :, :, 0], np.stack([x[0, :, :3].max((1, 2)), x[0, :, 3:].max((1, 2))], axis=1))
    mean = layer("PSROIPooling", "x rois", psroi_pooling_param="output_dim: 2 group_size: 2 spatial_scale: 1")
    y = run(tmp_path, f"{inputs}\n{mean}", feeds)
    parts = [
        x[0, 4 * c + 2 * h + w, 3 * h : 3 * h + 3, 3 * w : 3 * w + 3].mean()
        for c in range(2)
        for h in range(2)
        for w in range(2)
    ]
    assert_close(y[0], np.array(parts, np.float32).reshape(2, 2, 2), terms=9, magnitude=4)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (layer("BN", "x"), "needs 4 trained blobs"),
        (layer("Axpy", "x x"), "takes 3 bottoms"),
        (layer("ROIPooling", "x x"), "pooled_h and pooled_w must be positive"),
        (layer("PSROIPooling", "x x"), "output_dim and group_size must be positive"),
        (layer("Upsample", "x x x"), "takes 2 bottoms"),
    ],
)
def test_refusals_name_the_layer(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(ExportError, match=rf"layer 'y' \(\w+\): {rule}"):
        pair_of(tmp_path, net(text))


SSD = """
layer { name: "d" type: "AnnotatedData" top: "data" top: "label" include { phase: PHASE }
  transform_param { mirror: true mean_value: 104 mean_value: 117 mean_value: 123 emit_constraint { emit_type: CENTER }
    resize_param { prob: 1 resize_mode: WARP height: 300 width: 300 interp_mode: LINEAR interp_mode: AREA }
    distort_param { brightness_prob: 0.5 brightness_delta: 32 random_order_prob: 0 }
    expand_param { prob: 0.5 max_expand_ratio: 4 } noise_param { jpeg: 40 saltpepper_param { value: 0 } } }
  data_param { source: "lmdb" batch_size: 8 backend: LMDB }
  annotated_data_param { label_map_file: "labels" anno_type: BBOX batch_sampler { max_sample: 1 max_trials: 50
    use_original_image: false sampler { min_scale: 0.3 max_aspect_ratio: 2 }
    sample_constraint { min_jaccard_overlap: 0.1 } } } }
layer { name: "p" type: "Power" bottom: "data" top: "found" power_param { scale: 2 } }
layer { name: "loss" type: "MultiBoxLoss" bottom: "found" bottom: "label" top: "loss" include { phase: TRAIN }
  propagate_down: true propagate_down: false loss_param { normalization: VALID }
  multibox_loss_param { loc_loss_type: SMOOTH_L1 conf_loss_type: SOFTMAX loc_weight: 1 num_classes: 21
    share_location: true match_type: PER_PREDICTION overlap_threshold: 0.5 code_type: CENTER_SIZE
    neg_pos_ratio: 3 neg_overlap: 0.5 mining_type: MAX_NEGATIVE nms_param { nms_threshold: 0.4 } } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "found" bottom: "label" top: "eval" include { phase: TEST }
  detection_evaluate_param { num_classes: 21 background_label_id: 0 overlap_threshold: 0.5 name_size_file: "sizes"
    evaluate_difficult_gt: false resize_param { height: 300 width: 300 } } }
"""


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_ssds_training_and_evaluation_nets_lose_layers_that_need_labels(tmp_path: Path, phase: str) -> None:
    pair = pair_of(tmp_path, f"state {{ phase: {phase} }}" + SSD.replace("PHASE", phase))
    assert ([info.name for info in pair.inputs], [info.name for info in pair.outputs]) == (["data"], ["found"])
