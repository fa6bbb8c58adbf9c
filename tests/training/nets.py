"""Small pairs to train."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair


def pair_of(text: str, weights: Dict[str, Any]) -> Pair:
    """The pair of a net as text and its weights."""
    net = NetDef.from_text(text)
    fills = tuple(fill(name, np.asarray(value, np.float32)) for name, value in weights.items())
    return Pair.from_nets(NetDef("init", fills), net)


def linear(outputs: int = 3) -> Pair:
    """(N, 4) -> (N, outputs), one fully connected layer."""
    random = np.random.default_rng(3)
    weights = {"w": random.standard_normal((outputs, 4)), "b": random.standard_normal(outputs)}
    return pair_of('net "linear": x, w, b -> y\nFC(x, w, b) -> y', weights)


def classifier(activation: str = "Softmax(z) -> y") -> Pair:
    """(N, 2, 6, 6) -> (N, 3): a convolution, a normalisation, a pooling, a residual block, and a classifier."""
    random = np.random.default_rng(4)
    weights = {
        "c1": random.standard_normal((4, 2, 3, 3)) * 0.3,
        "s1": np.ones(4),
        "b1": np.zeros(4),
        "m1": np.zeros(4),
        "v1": np.ones(4),
        "c2": random.standard_normal((4, 4, 3, 3)) * 0.3,
        "s2": np.ones(4),
        "b2": random.standard_normal(4),
        "m2": random.standard_normal(4) * 0.1,
        "v2": random.random(4) + 0.5,
        "w": random.standard_normal((3, 4)),
        "b": np.zeros(3),
    }
    text = f"""
    net "classifier": x, {", ".join(weights)} -> y
    Conv(x, c1) -> h1  kernel=3  pad=1
    SpatialBN(h1, s1, b1, m1, v1) -> n1  is_test=1  epsilon=0.001
    Relu(n1) -> r1
    MaxPool(r1) -> p1  kernel=2  stride=2
    Conv(p1, c2) -> h2  kernel=3  pad=1
    SpatialBN(h2, s2, b2, m2, v2) -> n2  is_test=1  epsilon=0.001
    Add(n2, p1) -> a2
    Relu(a2) -> r2
    AveragePool(r2) -> g  global_pooling=1
    FC(g, w, b) -> z
    {activation}
    """
    return pair_of(text, weights)


def residual(blocks: int = 6) -> Pair:
    """(N, 3, H, W) -> (N, 3): blocks of a convolution, a normalisation, an addition and ReLU, and a classifier."""
    random = np.random.default_rng(5)
    weights: Dict[str, Any] = {"w": random.standard_normal((3, 3)), "b": np.zeros(3)}
    lines, x = [], "x"
    for at in range(blocks):
        ones, zeros = np.ones(3), np.zeros(3)
        own = {f"c{at}": random.standard_normal((3, 3, 3, 3)) * 0.3, f"s{at}": ones, f"t{at}": zeros}
        weights.update(own, **{f"m{at}": zeros, f"v{at}": ones})
        lines.append(f"Conv({x}, c{at}) -> h{at}  kernel=3  pad=1")
        lines.append(f"SpatialBN(h{at}, s{at}, t{at}, m{at}, v{at}) -> n{at}  is_test=1")
        lines.append(f"Sum(n{at}, {x}) -> a{at}")
        lines.append(f"Relu(a{at}) -> r{at}")
        x = f"r{at}"
    lines += [f"AveragePool({x}) -> g  global_pooling=1", "FC(g, w, b) -> y"]
    return pair_of("\n".join([f'net "residual": x, {", ".join(weights)} -> y', *lines]), weights)


def samples(count: int = 12, seed: int = 0) -> Dict[str, Any]:
    """Pictures and labels for ``classifier``."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, count).astype(np.int32)
    pictures = random.standard_normal((count, 2, 6, 6)).astype(np.float32)
    pictures[np.arange(count), labels % 2, labels, :] += 2
    return {"x": pictures, "label": labels}
