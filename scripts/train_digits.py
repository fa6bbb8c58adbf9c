#!/usr/bin/env python3
"""Train the demo network on scikit-learn's handwritten digits with armnet's Trainer, and write everything in demo/.

    python -m venv digits-env
    digits-env/bin/pip install -e . scikit-learn onnx pillow
    digits-env/bin/python scripts/train_digits.py

It runs on one core in a few minutes; with the same package versions and the same kind of processor it writes the same
weights again. The recipe was fixed before the held-back pictures were seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import checkout  # noqa: F401
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from exporter import export
from runtime_arm.netdef import Array
from training import Trainer
from training.data.samples import ArraySamples
from training.fitting import Plan, fit
from training.losses import Softmax
from training.schedules import schedule_of
from training.solvers import AdamW

SEED = 17
EPOCHS = 60
BATCH = 64
HELD_BACK = 0.2
PICTURE_SIDE = 64
OPSET = 17
DEMO = Path(__file__).resolve().parent.parent / "demo"
CHANNELS = (1, 24, 48, 48, 48)
CLASSES = 10


def first_weights(random: np.random.RandomState) -> Dict[str, Array]:
    """Weights from even distributions between -1 / sqrt(inputs) and that, and normalisations that change nothing."""
    weights: Dict[str, Array] = {}
    for index, (inputs, outputs) in enumerate(zip(CHANNELS, CHANNELS[1:]), 1):
        bound = 1 / np.sqrt(9 * inputs)
        weights[f"conv{index}.weight"] = random.uniform(-bound, bound, (outputs, inputs, 3, 3))
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            weights[f"bn{index}.{name}"] = np.full(outputs, value)
    bound = 1 / np.sqrt(CHANNELS[-1])
    weights["fc.weight"] = random.uniform(-bound, bound, (CLASSES, CHANNELS[-1]))
    weights["fc.bias"] = random.uniform(-bound, bound, CLASSES)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def augmented(images: Array, random: np.random.RandomState) -> Array:
    """Each picture turned by up to 10 degrees, scaled by up to 10 % and shifted by up to half a pixel."""
    count, side = len(images), images.shape[-1]
    angle, scale = random.uniform(-1, 1, count) * np.pi / 18, random.uniform(0.9, 1.1, count)
    shift = random.uniform(-0.5, 0.5, (2, count, 1, 1))
    cos, sin = (np.cos(angle) * scale)[:, None, None], (np.sin(angle) * scale)[:, None, None]
    y, x = (axis - (side - 1) / 2 for axis in np.mgrid[:side, :side])
    columns = cos * x - sin * y + shift[0] + (side - 1) / 2
    rows = sin * x + cos * y + shift[1] + (side - 1) / 2
    return between_pixels(images[:, 0], rows, columns)[:, None].astype(np.float32)


def between_pixels(images: Array, rows: Array, columns: Array) -> Array:
    """The grey at these places, linear between pixels and 0 outside. images, rows, columns: (N, H, W)."""
    side = images.shape[-1]
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    rows, columns = (np.clip(places + 1, 0, side + 1 - 1e-6) for places in (rows, columns))
    top, left = rows.astype(int), columns.astype(int)
    down, right = rows - top, columns - left
    which = np.arange(len(images))[:, None, None]
    upper = padded[which, top, left] * (1 - right) + padded[which, top, left + 1] * right
    lower = padded[which, top + 1, left] * (1 - right) + padded[which, top + 1, left + 1] * right
    mixed: Array = upper * (1 - down) + lower * down
    return mixed


def train(images: Array, labels: Array) -> Dict[str, Array]:
    """The weights after EPOCHS with AdamW and a rate that rises and then falls."""
    random = np.random.RandomState(SEED)
    weights = first_weights(random)
    plan = Plan(EPOCHS, BATCH)
    samples = ArraySamples({"image": images}, labels, lambda feeds, drawn: {"image": augmented(feeds["image"], drawn)})
    schedule = schedule_of("warmup", EPOCHS * plan.steps_an_epoch(samples))
    solver = AdamW(rate=1e-2, weight_decay={"weight": 1e-2, "scale": 1e-2, "bias": 1e-2}, schedule=schedule)
    trainer = Trainer(export(to_onnx(weights)), loss=Softmax(smoothing=0.05), labels="label", solver=solver)
    for number, epoch in enumerate(fit(trainer, samples, None, plan, random=random), 1):
        if number % 10 == 0:
            print(f"epoch {number:3d}: {epoch}", flush=True)
    trained = {op.output[0]: op.get_tensor("values") for op in trainer.pair().init_net.op}
    return {name: trained[name] for name in weights}


def to_onnx(weights: Dict[str, Array]) -> onnx.ModelProto:
    """The network as ONNX: two convolutions, a pooling, a residual block, a classifier.

    (N, 1, 8, 8) float32 in 0..1 -> (N, 10) probabilities. Every BatchNormalization is a node of its own.
    """
    nodes = []

    def node(op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def conv_bn(x: str, index: int) -> str:
        parameters = [f"bn{index}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        conv = node("Conv", [x, f"conv{index}.weight"], f"conv{index}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return node("BatchNormalization", [conv, *parameters], f"bn{index}", epsilon=1e-5)

    x = node("Relu", [conv_bn("image", 1)], "relu1")
    x = node("Relu", [conv_bn(x, 2)], "relu2")
    pooled = node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Relu", [conv_bn(pooled, 3)], "relu3")
    x = node("Relu", [node("Add", [pooled, conv_bn(x, 4)], "residual")], "relu4")
    x = node("Flatten", [node("GlobalAveragePool", [x], "mean")], "features")
    x = node("Gemm", [x, "fc.weight", "fc.bias"], "logits", transB=1)
    node("Softmax", [x], "probabilities", axis=1)

    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def write_pictures(images: np.ndarray, labels: np.ndarray, folder: Path) -> None:
    """The first held-back picture of each digit as a grey PNG, each pixel a square block of PICTURE_SIDE // 8."""
    folder.mkdir(exist_ok=True)
    for digit in range(10):
        pixels = np.rint(images[np.flatnonzero(labels == digit)[0], 0] * 255).astype(np.uint8)
        blocks = np.kron(pixels, np.ones((PICTURE_SIDE // 8, PICTURE_SIDE // 8), np.uint8))
        Image.fromarray(blocks).save(folder / f"digit_{digit}.png", optimize=True)


def main() -> None:
    digits = load_digits()
    images = (digits.images[:, np.newaxis] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=HELD_BACK, random_state=SEED, stratify=labels
    )
    model = to_onnx(train(train_x, train_y))

    DEMO.mkdir(exist_ok=True)
    onnx.save(model, DEMO / "digits.onnx")
    np.savez_compressed(DEMO / "held_back.npz", images=test_x, labels=test_y)
    (DEMO / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    write_pictures(test_x, test_y, DEMO / "pictures")
    found = Trainer(export(model)).evaluate({"image": test_x, "label": test_y})
    right = round((found.accuracy or 0.0) * found.samples)
    print(f"held-back pictures: {right} of {found.samples} right ({right / found.samples:.2%})")


if __name__ == "__main__":
    main()
