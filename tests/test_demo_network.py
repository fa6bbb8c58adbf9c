"""The files in demo/ are what demo/README.md says they are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from tests.support.paths import DEMO


def probabilities(images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(DEMO / "digits.onnx", providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"image": images})
    return np.asarray(result)


def test_network_is_small_and_keeps_its_batch_normalisations() -> None:
    assert (DEMO / "digits.onnx").stat().st_size < 300_000
    model = onnx.load(DEMO / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["Conv"] == operators["BatchNormalization"] == 4
    assert operators["Add"] == operators["MaxPool"] == operators["Gemm"] == 1
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_held_back_accuracy_is_the_documented_one() -> None:
    held_back = np.load(DEMO / "held_back.npz")
    answers = probabilities(held_back["images"]).argmax(axis=1)
    right, total = int((answers == held_back["labels"]).sum()), len(answers)
    assert right / total >= 0.98
    assert f"{right} of the {total} held-back pictures" in (DEMO / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("digit", range(10))
def test_picture_shows_the_digit_of_its_name(digit: int) -> None:
    with Image.open(DEMO / "pictures" / f"digit_{digit}.png") as picture:
        small = picture.convert("L").resize((8, 8), Image.Resampling.BILINEAR)
    pixels = np.asarray(small, np.float32)[np.newaxis, np.newaxis] / 255
    label = (DEMO / "labels.txt").read_text().splitlines()[int(probabilities(pixels).argmax())]
    assert label == str(digit)
