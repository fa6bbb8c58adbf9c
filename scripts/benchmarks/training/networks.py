"""The networks that are trained, and the files that both sides read: a pair, a graph as JSON, weights, a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

import armnet
from device_tests.host.networks.known import build
from runtime_arm.netdef import Array
from scripts.benchmarks.in_turns import picture
from scripts.benchmarks.tiny_networks import DIGITS


class Task(NamedTuple):
    """A network whose normalisations are separate nodes, a batch of its input, its number of classes, and how many
    steps are timed together if a single one is too short.
    """

    model: onnx.ModelProto
    images: Array
    classes: int
    together: int = 1


def digits() -> Task:
    """The demo's network with its weights, on random pictures."""
    images = np.random.default_rng(0).random((32, 1, 8, 8), np.float32)
    return Task(onnx.load(DIGITS), images, 10, together=20)


def known(name: str, batch: int = 4, size: int = 224) -> Task:
    return Task(build(name, batch=batch, image_size=size), picture(batch, size), 1000)


TASKS: Dict[str, Callable[[], Task]] = {
    "digits": digits,
    "squeezenet1_1": lambda: known("squeezenet1_1"),
    "resnet18": lambda: known("resnet18"),
    "mobilenet_v2": lambda: known("mobilenet_v2"),
}


def write(task: Task, folder: Path) -> None:
    """Writes the pair, the graph up to the logits as JSON, its weights, and a batch with random labels."""
    graph, model = task.model.graph, folder / "model.onnx"
    model.write_bytes(task.model.SerializeToString())
    armnet.export(str(model)).save(folder / "pair")
    nodes = [_described(node) for node in graph.node if node.op_type != "Softmax"]
    (folder / "nodes.json").write_text(json.dumps(nodes))
    np.savez(folder / "weights.npz", **{tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer})
    labels = np.random.default_rng(1).integers(0, task.classes, len(task.images)).astype(np.int32)
    np.savez(folder / "batch.npz", **{graph.input[0].name: task.images, "label": labels})


def _described(node: onnx.NodeProto) -> Dict[str, Any]:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    plain = {name: list(value) if not isinstance(value, (int, float)) else value for name, value in attributes.items()}
    return {"type": node.op_type, "inputs": list(node.input), "output": node.output[0], "attributes": plain}
