"""Real architectures with the shapes of their blobs, and what each of Caffe2's memory planners made of them."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any, Dict, NamedTuple

import numpy as np

from optimize.memory.plan import weight
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.specs import TensorSpec

NETS = [
    "squeezenet",
    "squeezenet@noinplace",
    "resnet50",
    "resnet50@noinplace",
    "mobilenetv2",
    "mobilenetv2@noinplace",
    "densenet121",
    "densenet121@noinplace",
    "vgg16",
    "vgg16@noinplace",
    "unet",
    "unet@noinplace",
    "c2_resnet50",
]


class Recorded(NamedTuple):
    """A net whose operators are named by their position.

    ``specs`` describes its inputs and weights; ``sizes`` has the bytes of each blob. The other figures are bytes of
    blobs that are neither input nor weight: ``before``, all of them; ``best_of_caffe2``, the best that Caffe2's
    planners reached; ``live``, the most that is live at a time.
    """

    name: str
    net: NetDef
    specs: Dict[str, TensorSpec]
    sizes: Dict[str, int]
    before: int
    best_of_caffe2: int
    live: int


def recorded(shared: Path, name: str) -> Recorded:
    folder, stem = shared / "goldens/memonger", name.replace("@", "_")
    shapes: Dict[str, Any] = json.loads((folder / f"{stem}.shapes.json").read_text())
    sizes = {blob: prod(shape) * np.dtype(dtype).itemsize for blob, (shape, dtype) in shapes["blobs"].items()}
    specs = {blob: weight(shape, dtype) for blob, (shape, dtype) in shapes["params"].items()}
    specs.update((blob, TensorSpec(shape, np.float32)) for blob, shape in shapes["input"].items())
    figures = next(one for one in json.loads((folder / "figures.json").read_text()) if one["name"] == name)
    reached = [result["activation_bytes"] for result in figures["results"].values() if result.get("activation_bytes")]
    net = read_net(folder / f"{stem}.predict_net.pb")
    numbered = net.replace(op=tuple(op.replace(name=str(place)) for place, op in enumerate(net.op)))
    return Recorded(
        name, numbered, specs, sizes, figures["activation_bytes"], min(reached), figures["peak_live_bytes_in_op_order"]
    )


def activation_bytes(net: NetDef, original: NetDef, sizes: Dict[str, int]) -> int:
    """Bytes of the blobs that the net writes; a shared blob counts as the largest that it holds."""
    largest: Dict[str, int] = {}
    unshared = {op.name: op for op in original.op}
    for op in net.op:
        for name, old in zip(op.output, unshared[op.name].output):
            largest[name] = max(largest.get(name, 0), sizes[old])
    return sum(largest.values())
