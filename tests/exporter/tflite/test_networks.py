"""Real TFLite networks compute the outputs that were recorded with LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.pair.pair import Pair

FLOAT = (
    "deeplabv3_257_float/deeplabv3",
    "hello_world/hello_world_float",
    "mediapipe_face_detection_short_range/face_detection_short_range",
    "mediapipe_selfie_segmentation/selfie_segmentation",
    "mlperf_tiny_ad_autoencoder/ad01_fp32",
    "mlperf_tiny_ic_resnet8/pretrainedResnet",
    "mlperf_tiny_vww_mobilenet/vww_96_float",
    "mobilenet_v1_0.25_224_float/mobilenet_v1_0.25_224_1_default_1",
)
DYNAMIC_RANGE = ("mlperf_tiny_kws_dscnn/kws_ref_model_float32",)
INTEGER = (
    "coco_ssd_mobilenet_v1_quant/coco_ssd_mobilenet_v1_1.0_quant_2018_06_29_no_metadata",
    "hello_world/hello_world_int8",
    "mlperf_tiny_ad_autoencoder/ad01_int8",
    "mlperf_tiny_ic_resnet8/pretrainedResnet_quant",
    "mlperf_tiny_kws_dscnn/kws_ref_model",
    "mlperf_tiny_vww_mobilenet/vww_96_int8",
    "mobilenet_v1_0.25_224_quant/mobilenet_v1_0.25_224_quant",
    "mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quant",
    "movenet_lightning_ptq/movenet_single_pose_lightning_ptq",
    "tf2_mobilenet_v2_1.0_224_ptq/tf2_mobilenet_v2_1.0_224_ptq",
)
CAT, BIRD = 16, 3  # classes of COCO less one, and of PASCAL VOC


def exported(shared: Path, name: str) -> Pair:
    return export(shared / "models/tflite" / f"{name}.tflite")


def recorded(shared: Path, folder: str, name: str) -> Dict[str, Any]:
    return dict(np.load(shared / "models" / folder / f"tflite_{name.replace('/', '__')}.npz"))


def results_of(pair: Pair, samples: Any) -> List[Any]:
    """Each output for all samples, run one by one: the networks take a batch of one."""
    with Predictor(pair, threads=1) as predictor:
        runs = [list(predictor.run([samples[i : i + 1]]).values()) for i in range(len(samples))]
    return [np.concatenate(parts) for parts in zip(*runs)]


def outputs_of(reference: Dict[str, Any]) -> List[Any]:
    return [value for name, value in reference.items() if name != "input"]


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_network_reproduces_its_reference(shared: Path, name: str) -> None:
    reference = recorded(shared, "references", name)
    for result, wanted in zip(results_of(exported(shared, name), reference["input"]), outputs_of(reference)):
        assert_network_close(result, wanted, what=name)


@pytest.mark.parametrize("name", FLOAT[2:6])
def test_an_optimised_float_network_reproduces_its_reference(shared: Path, name: str) -> None:
    reference = recorded(shared, "references", name)
    pair = optimize(exported(shared, name))
    for result, wanted in zip(results_of(pair, reference["input"]), outputs_of(reference)):
        assert_network_close(result, wanted, what=name)


@pytest.mark.parametrize("name", DYNAMIC_RANGE)
def test_a_dynamic_range_network_reproduces_the_reference_kernels(shared: Path, name: str) -> None:
    """Float layers may sum in any order; other tests compare the integer layers bit for bit."""
    reference = recorded(shared, "references_tflite_builtin_ref", name)
    for result, wanted in zip(results_of(exported(shared, name), reference["input"]), outputs_of(reference)):
        assert_network_close(result, wanted, what=name)


@pytest.mark.parametrize("name", INTEGER)
def test_an_integer_network_equals_the_reference_kernels(shared: Path, name: str) -> None:
    reference = recorded(shared, "references_tflite_builtin_ref", name)
    for result, wanted in zip(results_of(exported(shared, name), reference["input"]), outputs_of(reference)):
        np.testing.assert_array_equal(result, wanted.reshape(result.shape))


@pytest.mark.parametrize("name", INTEGER[2:6])
def test_an_optimised_integer_network_equals_the_reference_kernels(shared: Path, name: str) -> None:
    reference = recorded(shared, "references_tflite_builtin_ref", name)
    pair = optimize(exported(shared, name))
    for result, wanted in zip(results_of(pair, reference["input"]), outputs_of(reference)):
        np.testing.assert_array_equal(result, wanted.reshape(result.shape))


def test_coco_ssd_finds_the_cats(shared: Path) -> None:
    photos = dict(np.load(shared / "models/references/tflite_coco_ssd_photos.npz"))
    _, classes, scores, _ = results_of(exported(shared, INTEGER[0]), photos["input"][:1])
    assert set(classes[scores > 0.5].astype(int)) == {CAT}
    np.testing.assert_array_equal(classes[0, :2], photos["classes"][0, 0, :2])


def test_deeplab_finds_the_bird(shared: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with image.open(shared / "models/photos/coral/bird_segmentation.bmp") as picture:
        pixels = np.asarray(picture.convert("RGB").resize((257, 257)), np.float32)
    (result,) = results_of(exported(shared, FLOAT[0]), (pixels[np.newaxis] - 127.5) / 127.5)
    found = np.bincount(result.argmax(-1).ravel(), minlength=BIRD + 1)
    assert found[1:].argmax() + 1 == BIRD
    assert found[BIRD] > 0.02 * result.shape[1] * result.shape[2]
