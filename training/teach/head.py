"""Trains a head: one linear layer that tells classes apart by their features."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from training.solvers import Adam
from training.teach.cut import BIAS, WEIGHTS
from training.trainer import Trainer

_NET = """
    net "head": x, taught_w, taught_b -> scores
    FC(x, taught_w, taught_b) -> scores
"""
Progress = Callable[[str, int, int], None]


class Epoch(NamedTuple):
    """The losses of one pass over the samples, and the share of held-out samples that are right."""

    loss: float
    held_out_loss: float
    accuracy: float


class Head(NamedTuple):
    """scores = features weights^T + bias, and how it was learned."""

    weights: Array
    bias: Array
    epochs: List[Epoch]


def train_head(
    features: Array,
    labels: Array,
    held_out: Tuple[Array, Array],
    classes: int,
    *,
    epochs: int = 200,
    patience: int = 15,
    rate: float = 0.01,
    decay: float = 1e-3,
    batch: int = 32,
    seed: int = 0,
    progress: Progress = lambda text, done, total: None,
) -> Head:
    """Adam on the cross-entropy, in batches; the head of the epoch that is best on the held-out samples.

    features: (n, size), labels: (n,); held_out: the same of samples that are not learned. Classes with few samples
    weigh as much as those with many. It ends early if the held-out loss has not fallen for ``patience`` epochs. The
    features are brought to mean 0 and deviation 1 for this; the result takes them as they are.
    """
    mean, deviation = features.mean(0), features.std(0) + np.float32(1e-6)
    x, held = (features - mean) / deviation, (held_out[0] - mean) / deviation
    random = np.random.RandomState(seed)
    trainer = Trainer(_pair(x.shape[1], classes), "softmax", "label", solver=Adam(rate=rate, weight_decay=decay))
    best, waited, found = np.inf, 0, trainer.pair()
    learned: List[Epoch] = []
    rows = _balanced(labels, classes)
    for epoch in range(epochs):
        order = random.permutation(rows)
        losses = [
            trainer.step({"x": x[part], "label": labels[part]}) for part in _batches(order, min(batch, len(order)))
        ]
        judged = trainer.evaluate({"x": held, "label": held_out[1]})
        learned.append(Epoch(float(np.mean(losses)), judged.loss, float(judged.accuracy or 0)))
        told = f"loss {learned[-1].loss:.3f}, held out {judged.loss:.3f}, {learned[-1].accuracy:.1%} right"
        progress(told, epoch + 1, epochs)
        waited += 1
        if judged.loss < best - 1e-4:
            best, waited, found = judged.loss, 0, trainer.pair()
        if waited >= patience:
            break
    trainer.close()
    values = {op.output[0]: op.get_tensor("values") for op in found.init_net.op}
    weights = np.asarray(values[WEIGHTS] / deviation, np.float32)
    bias = np.asarray(values[BIAS] - weights @ mean, np.float32)
    return Head(weights, bias, learned)


def _pair(size: int, classes: int) -> Pair:
    fills = (fill(WEIGHTS, np.zeros((classes, size), np.float32)), fill(BIAS, np.zeros(classes, np.float32)))
    init = NetDef("head_init", fills, external_output=(WEIGHTS, BIAS))
    return Pair(init, NetDef.from_text(_NET), (TensorInfo("x", ("batch", size), "float32"),)).check()


def _balanced(labels: Array, classes: int) -> Array:
    """Rows, those of small classes several times, so that every class has about as many."""
    of_class = [np.flatnonzero(labels == number) for number in range(classes)]
    most = max(len(rows) for rows in of_class)
    return np.concatenate([np.resize(rows, most) for rows in of_class if len(rows)])


def _batches(order: Array, size: int) -> Sequence[Array]:
    """Whole batches: a step is planned for one size."""
    return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
