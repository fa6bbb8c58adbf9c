#!/usr/bin/env python3
"""Train the demo network on scikit-learn's handwritten digits and write everything in demo/.

    python -m venv torch-env
    torch-env/bin/pip install torch==2.13.0 scikit-learn onnx pillow
    torch-env/bin/python scripts/train_digits.py

Only this script needs PyTorch. It runs on one core in less than a minute; with the same package versions and the same
kind of processor it writes the same weights again. The recipe was fixed before the held-back pictures were seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

SEED = 17
EPOCHS = 60
BATCH = 64
HELD_BACK = 0.2
PICTURE_SIDE = 64
OPSET = 17
DEMO = Path(__file__).resolve().parent.parent / "demo"


class DigitNet(nn.Module):
    """(N, 1, 8, 8) float32 in 0..1 -> (N, 10) logits: two convolutions, a pooling, a residual block, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24)
        self.conv2, self.bn2 = nn.Conv2d(24, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.conv3, self.bn3 = nn.Conv2d(48, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.conv4, self.bn4 = nn.Conv2d(48, 48, 3, padding=1, bias=False), nn.BatchNorm2d(48)
        self.fc = nn.Linear(48, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.relu(self.bn1(self.conv1(image)))
        x = functional.relu(self.bn2(self.conv2(x)))
        x = functional.max_pool2d(x, 2)
        residual = self.bn4(self.conv4(functional.relu(self.bn3(self.conv3(x)))))
        x = functional.relu(x + residual)
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


def augment(images: Tensor) -> Tensor:
    """Each picture turned by up to 10 degrees, scaled by up to 10 % and shifted by up to half a pixel."""
    count, side = len(images), images.shape[-1]
    angle = torch.empty(count).uniform_(-1, 1) * (torch.pi / 18)
    scale = torch.empty(count).uniform_(0.9, 1.1)
    shift = torch.empty(count, 2).uniform_(-1, 1) / side  # the grid is 2 units wide: 1 / side is half a pixel
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    affine = torch.stack([cos, -sin, shift[:, 0], sin, cos, shift[:, 1]], dim=1).view(count, 2, 3)
    grid = functional.affine_grid(affine, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(images: Tensor, labels: Tensor) -> DigitNet:
    """A DigitNet trained for EPOCHS with AdamW and a one-cycle learning rate, in eval mode."""
    net = DigitNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    steps_per_epoch = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, epochs=EPOCHS, steps_per_epoch=steps_per_epoch)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images))
        for step in range(steps_per_epoch):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            loss = functional.cross_entropy(net(augment(images[chosen])), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3d}: loss {loss.item():.4f}", flush=True)
    return net.eval()


def to_onnx(net: DigitNet) -> onnx.ModelProto:
    """The network as ONNX, written by hand so that every BatchNormalization stays a node of its own."""
    nodes = []

    def node(op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def conv_bn(x: str, index: int) -> str:
        weights = [f"bn{index}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        conv = node("Conv", [x, f"conv{index}.weight"], f"conv{index}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return node("BatchNormalization", [conv, *weights], f"bn{index}", epsilon=1e-5)

    x = node("Relu", [conv_bn("image", 1)], "relu1")
    x = node("Relu", [conv_bn(x, 2)], "relu2")
    pooled = node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Relu", [conv_bn(pooled, 3)], "relu3")
    x = node("Relu", [node("Add", [pooled, conv_bn(x, 4)], "residual")], "relu4")
    x = node("Flatten", [node("GlobalAveragePool", [x], "mean")], "features")
    x = node("Gemm", [x, "fc.weight", "fc.bias"], "logits", transB=1)
    node("Softmax", [x], "probabilities", axis=1)

    weights = [
        numpy_helper.from_array(value.numpy(), name)
        for name, value in net.state_dict().items()
        if not name.endswith("num_batches_tracked")
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], weights)
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
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    digits = load_digits()
    images = (digits.images[:, np.newaxis] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=HELD_BACK, random_state=SEED, stratify=labels
    )
    net = train(torch.from_numpy(train_x), torch.from_numpy(train_y))
    with torch.no_grad():
        answers = net(torch.from_numpy(test_x)).argmax(dim=1).numpy()

    DEMO.mkdir(exist_ok=True)
    onnx.save(to_onnx(net), DEMO / "digits.onnx")
    np.savez_compressed(DEMO / "held_back.npz", images=test_x, labels=test_y)
    (DEMO / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    write_pictures(test_x, test_y, DEMO / "pictures")
    right = int((answers == test_y).sum())
    print(f"held-back pictures: {right} of {len(test_y)} right ({right / len(test_y):.2%})")


if __name__ == "__main__":
    main()
