"""Trains small networks for a few steps on the host: train nets, what they are fed, and where that leads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np

from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from training.schedules import Schedule
from training.solvers import SGD, Adam, RMSProp, Solver
from training.trainer import Trainer

STEPS, BATCH = 4, 6
CLASSES = 3
_NET = """
    Conv(x, c1) -> h1  kernel=3  pad=1
    SpatialBN(h1, s1, b1, m1, v1) -> n1  is_test=1
    Relu(n1) -> r1
    MaxPool(r1) -> p1  kernel=2  stride=2
    Conv(p1, c2) -> h2  kernel=3  pad=1  group=2
    SpatialBN(h2, s2, b2, m2, v2) -> n2  is_test=1
    Add(n2, p1) -> a2
    Relu(a2) -> r2
    AveragePool(r2) -> g  global_pooling=1
    FC(g, w, b) -> z
    Softmax(z) -> y
"""
# by name: the solver, whose statistics normalisations use, and whether only Caffe2's operators are used
CASES: Dict[str, Tuple[Solver, str, bool]] = {
    "momentum": (SGD(0.02, momentum=0.9, nesterov=True, weight_decay=0.01), "train", False),
    "adam": (Adam(0.005, clip_norm=1.0, schedule=Schedule("step", stepsize=2, gamma=0.5)), "train", False),
    "rmsprop": (RMSProp(0.002), "frozen", False),
    "caffe2": (SGD(0.02, momentum=0.5), "train", True),
}


def save_training_cases(folder: Path) -> None:
    """Writes a folder for each case: init_net.pb, train_net.pb, and steps.npz with feeds, losses and parameters."""
    for seed, (name, (solver, statistics, compatible)) in enumerate(CASES.items()):
        trainer = Trainer(
            _pair(seed), solver=solver, labels="label", batch_norm=statistics, caffe2_compatible=compatible
        )
        place = folder / name
        place.mkdir(parents=True)
        for file, net in zip(("init_net.pb", "train_net.pb"), trainer.nets()):
            (place / file).write_bytes(net.to_bytes())
        arrays: Dict[str, Any] = {}
        losses = []
        for step, feeds in enumerate(_feeds(seed)):
            arrays.update({f"in_{step}_{blob}": value for blob, value in feeds.items()})
            losses.append(trainer.step(feeds))
        state = trainer.state()
        arrays.update({f"out_{blob}": state[blob] for blob in trainer.parameters})
        np.savez(place / "steps.npz", losses=np.array(losses), **arrays)
        trainer.close()


def _pair(seed: int) -> Pair:
    """Pictures (N, 2, 8, 8) -> (N, CLASSES): convolutions, normalisations, a pooling, an addition, a classifier."""
    random = np.random.RandomState(seed)
    shapes = {"c1": (4, 2, 3, 3), "c2": (4, 2, 3, 3), "w": (CLASSES, 4)}
    weights: Dict[str, Array] = {name: random.standard_normal(shape) * 0.4 for name, shape in shapes.items()}
    for number in "12":
        weights.update({f"{kind}{number}": np.full(4, value) for kind, value in zip("sbmv", (1.0, 0.1, 0.0, 1.0))})
    weights["b"] = np.zeros(CLASSES)
    fills = tuple(fill(name, value.astype(np.float32)) for name, value in weights.items())
    net = NetDef.from_text(f'net "{seed}": x, {", ".join(weights)} -> y\n{_NET}')
    info = TensorInfo("x", ("batch", 2, 8, 8), "float32")
    return Pair(NetDef("init", fills, external_output=tuple(weights)), net, (info,)).check()


def _feeds(seed: int) -> Any:
    random = np.random.RandomState(100 + seed)
    for _ in range(STEPS):
        labels = random.randint(0, CLASSES, BATCH).astype(np.int32)
        pictures = random.standard_normal((BATCH, 2, 8, 8)).astype(np.float32)
        pictures[np.arange(BATCH), labels % 2, labels] += 2
        yield {"x": pictures, "label": labels}
