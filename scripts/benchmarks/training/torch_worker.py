"""``python -m scripts.benchmarks.training.torch_worker FOLDER``: the same steps by PyTorch, the only package that is
imported.

FOLDER/nodes.json is an ONNX graph as ``training.networks.written`` writes it. ReLU works in place, as in torchvision's
networks, and a blob is freed after its last reader.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Dict, List, Mapping, Sequence

import numpy as np
import torch
from torch.nn import functional

from scripts.benchmarks.training.worker import MOMENTUM, RATE, serve

Attributes = Mapping[str, Any]


def _conv(attributes: Attributes, x: Any, w: Any, bias: Any = None) -> Any:
    strides, pads = attributes.get("strides", (1, 1)), attributes.get("pads", (0, 0))[:2]
    return functional.conv2d(x, w, bias, strides, pads, 1, attributes.get("group", 1))


def _batch_norm(attributes: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    momentum, epsilon = 1 - attributes.get("momentum", 0.9), attributes.get("epsilon", 1e-5)
    return functional.batch_norm(x, mean, variance, scale, bias, True, momentum, epsilon)


def _max_pool(attributes: Attributes, x: Any) -> Any:
    pads, ceil = attributes.get("pads", (0, 0))[:2], bool(attributes.get("ceil_mode", 0))
    return functional.max_pool2d(x, attributes["kernel_shape"], attributes["strides"], pads, ceil_mode=ceil)


OPERATORS: Dict[str, Callable[..., Any]] = {
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "MaxPool": _max_pool,
    "Relu": lambda attributes, x: functional.relu(x, inplace=True),
    "Clip": lambda attributes, x, low, high: functional.relu6(x, inplace=True),
    "Add": lambda attributes, a, b: a + b,
    "Concat": lambda attributes, *inputs: torch.cat(inputs, 1),
    "GlobalAveragePool": lambda attributes, x: functional.adaptive_avg_pool2d(x, 1),
    "Flatten": lambda attributes, x: torch.flatten(x, 1),
    "Gemm": lambda attributes, x, w, bias: functional.linear(x, w, bias),
}


class Network:
    """The nodes, in order, as functions; and the parameters, among which running statistics have no gradient."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]], weights: Mapping[str, Any]) -> None:
        self._nodes, self._last = nodes, {name: i for i, node in enumerate(nodes) for name in node["inputs"]}
        statistics = {name for node in nodes if node["type"] == "BatchNormalization" for name in node["inputs"][3:]}
        read = [name for node in nodes for name in node["inputs"] if name in weights and node["type"] != "Clip"]
        self._weights = {name: torch.from_numpy(weights[name].copy()) for name in weights}
        self.parameters: List[Any] = []
        for name in dict.fromkeys(read):
            if name not in statistics:
                self.parameters.append(self._weights[name].requires_grad_())

    def __call__(self, **feeds: Any) -> Any:
        blobs = dict(feeds)
        for place, node in enumerate(self._nodes):
            inputs = [self._weights[name] if name in self._weights else blobs[name] for name in node["inputs"]]
            blobs[node["output"]] = OPERATORS[node["type"]](node["attributes"], *inputs)
            del inputs
            for name in node["inputs"]:
                if self._last[name] == place:
                    blobs.pop(name, None)
        return blobs[self._nodes[-1]["output"]]


def main(folder: str) -> None:
    torch.set_num_threads(1)
    batch = {name: torch.from_numpy(value) for name, value in np.load(f"{folder}/batch.npz").items()}
    labels = batch.pop("label").long()
    with open(f"{folder}/nodes.json", encoding="utf-8") as file:
        network = Network(json.load(file), dict(np.load(f"{folder}/weights.npz")))
    solver = torch.optim.SGD(network.parameters, lr=RATE, momentum=MOMENTUM)

    def step() -> float:
        solver.zero_grad()
        loss = functional.cross_entropy(network(**batch), labels)
        loss.backward()
        solver.step()
        return float(loss.detach())

    serve(step)


if __name__ == "__main__":
    main(sys.argv[1])
