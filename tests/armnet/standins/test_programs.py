"""Programs as people write them for TensorFlow Lite, Caffe and Caffe2, under ``armnet exec``.

What they compute is what the runtimes computed that recorded the outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from tests.armnet.standins.test_installing import run

PROGRAMS = Path(__file__).parent / "scripts/programs"


def printed(program: str, *words: object, folder: Path) -> str:
    done = run(PROGRAMS / program, *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def models(shared: Path) -> Path:
    return shared / "models"


@pytest.fixture
def images(models: Path) -> Any:
    """MobileNet, the file with inputs for it, and the outputs."""
    recorded = "tflite_mobilenet_v1_0.25_224_float__mobilenet_v1_0.25_224_1_default_1.npz"
    model = models / "tflite/mobilenet_v1_0.25_224_float/mobilenet_v1_0.25_224_1_default_1.tflite"
    return model, models / "references" / recorded, np.load(models / "references" / recorded)["output"]


def test_a_script_that_looks_for_tensorflow(images: Any, tmp_path: Path) -> None:
    model, inputs, outputs = images
    words = ("--modeldir", model, "--images", inputs, "--results", tmp_path / "y.npy")
    printed("tensorflow_or_tflite.py", *words, folder=tmp_path)
    assert_network_close(np.load(tmp_path / "y.npy"), outputs)
    done = run(PROGRAMS / "tensorflow_or_tflite.py", *words, "--edgetpu", folder=tmp_path)
    assert "ValueError: Failed to load delegate from libedgetpu.so.1.0" in done.stderr


def test_a_script_that_says_tf_lite(images: Any, tmp_path: Path) -> None:
    model, inputs, outputs = images
    assert printed("tf_lite.py", model, inputs, tmp_path / "y.npy", folder=tmp_path).startswith("TensorFlow 2.")
    assert_network_close(np.load(tmp_path / "y.npy"), outputs)


def squeezenet(models: Path) -> Any:
    pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")
    folder = models / "caffe/squeezenet_v1.0_deepcompressed"
    return folder / "SqueezeNet_deploy.prototxt", folder / "SqueezeNet_v1.0_decoded.caffemodel"


def test_classification_with_caffe(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    recorded = models / "references/caffe_squeezenet_v1.0_decoded.npz"
    lemon = models / "photos/caffe2_tutorials/lemon.jpg"
    told = printed("caffe_classification.py", *squeezenet(models), lemon, recorded, tmp_path / "y.npz", folder=tmp_path)
    found = np.load(tmp_path / "y.npz")
    assert_network_close(found["prob"].reshape(-1, 1000), np.load(recorded)["output"])
    assert "predicted class is: 951\n" in told
    assert "by ten crops: 951 951\n" in told
    assert "conv1\t(96, 3, 7, 7) (96,)" in told


@pytest.mark.parametrize("name", ["RFB", "slim"])
def test_a_detector_with_caffe(models: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")
    recorded = models / f"references/caffe_ultraface_{name}.npz"
    paths = [models / f"caffe/ultraface/{name}-320.{suffix}" for suffix in ("prototxt", "caffemodel")]
    done = run(PROGRAMS / "caffe_faces.py", *paths, recorded, tmp_path / "y.npz", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "set_mode_gpu() changes nothing" in done.stderr
    found, expected = np.load(tmp_path / "y.npz"), np.load(recorded)
    for key in ("boxes", "scores"):
        assert_network_close(found[key], expected[key], what=key)


def test_dreams_with_caffe(models: Path, tmp_path: Path) -> None:
    printed("caffe_dreams.py", *squeezenet(models), folder=tmp_path)


def test_training_with_caffe(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")
    printed("caffe_training.py", folder=tmp_path)


NETS = {
    "squeezenet_v1.1_reconstructed": ("squeeze_init_net.pb", "squeezeNetPredict.pb"),
    "superres_from_onnx": ("init_net.pb", "predict_net.pb"),
}


@pytest.mark.parametrize("name", NETS)
def test_a_pretrained_net_with_caffe2(models: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("google.protobuf", reason="the program reads nets as messages")
    recorded = models / f"references/caffe2_{name}.npz"
    paths = [models / "caffe2" / name / file for file in NETS[name]]
    printed("caffe2_pretrained.py", *paths, recorded, tmp_path / "y.npy", folder=tmp_path)
    expected = np.load(recorded)["output"][:1]
    assert_network_close(np.load(tmp_path / "y.npy").reshape(expected.shape), expected)


def test_the_basics_of_caffe2(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="the program writes nets as messages")
    printed("caffe2_basics.py", folder=tmp_path)


def test_the_way_of_caffe2s_mnist_tutorial(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="the program writes nets as messages")
    recorded = np.load(shared / "goldens/training/caffe2_train_dev.npz")
    digits = {name: recorded[f"data|{name}"] for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "digits.npz", **digits)
    told = printed("caffe2_digits.py", tmp_path / "digits.npz", tmp_path / "prediction.npy", folder=tmp_path)
    right = np.load(tmp_path / "prediction.npy").argmax(axis=1) == digits["y_test"]
    assert right.mean() > 0.7
    assert f"test accuracy: {right.mean():.2f}" in told
