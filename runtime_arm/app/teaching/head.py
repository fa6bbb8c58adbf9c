"""Trains a head: one linear layer that tells classes apart by their features."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.teaching.clock import Clock
from runtime_arm.app.teaching.cutting import BIAS, WEIGHTS
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Array, NetDef

RATE, DECAY = 0.01, 1e-3
LEAST_FALL = 1e-4  # of the held-out loss, to count as better


def _adam(name: str) -> str:
    first, second = f"{name}_first_moment", f"{name}_second_moment"
    inputs = f"{name}, {first}, {second}, {name}_grad, learning_rate, iteration"
    return f"Adam({inputs}) -> {name}, {first}, {second}  beta1=0.9  beta2=0.999  epsilon=1e-08"


# the train net that training.Trainer makes of FC, the loss "softmax" and Adam(RATE, weight_decay=DECAY)
STEP = f"""
    net "head_train": x, {WEIGHTS}, {BIAS}, label, iteration_mutex, iteration, ONE, decay_weight,
        {WEIGHTS}_first_moment, {WEIGHTS}_second_moment, {BIAS}_first_moment, {BIAS}_second_moment -> loss, scores,
        learning_rate, iteration, {WEIGHTS}, {WEIGHTS}_first_moment, {WEIGHTS}_second_moment, {BIAS},
        {BIAS}_first_moment, {BIAS}_second_moment
    FC(x, {WEIGHTS}, {BIAS}) -> scores
    SoftmaxWithLoss(scores, label) -> scores_softmax, loss
    ConstantFill(loss) -> loss_autogen_grad  value=1.0
    SoftmaxWithLossGradient(scores, label, scores_softmax, loss_autogen_grad) -> scores_grad  is_gradient_op=1
    FCGradient(x, {WEIGHTS}, scores_grad) -> {WEIGHTS}_grad, {BIAS}_grad  is_gradient_op=1
    AtomicIter(iteration_mutex, iteration) -> iteration
    LearningRate(iteration) -> learning_rate  policy="fixed"  base_lr={-RATE}
    WeightedSum({WEIGHTS}_grad, ONE, {WEIGHTS}, decay_weight) -> {WEIGHTS}_grad
    {_adam(WEIGHTS)}
    {_adam(BIAS)}
"""

Progress = Callable[[str, int, int], None]


class Epoch(NamedTuple):
    """The mean loss of an epoch's batches; loss and accuracy on the held-out samples, None if there are none."""

    loss: float
    held_out_loss: Optional[float]
    accuracy: Optional[float]

    def __str__(self) -> str:
        words = [f"loss {self.loss:.3f}"]
        if self.held_out_loss is not None:
            words.append(f"held out {self.held_out_loss:.3f}")
        if self.accuracy is not None:
            words.append(f"{self.accuracy:.1%} right")
        return ", ".join(words)


class Head(NamedTuple):
    """scores = features weights^T + bias, and how it was learned."""

    weights: Array
    bias: Array
    epochs: List[Epoch]

    def scores(self, features: Array) -> Array:
        """(n, classes) of features (n, size)."""
        scores: Array = features @ self.weights.T + self.bias
        return scores


def train_head(
    features: Array,
    labels: Array,
    held_out: Tuple[Array, Array],
    classes: int,
    *,
    epochs: int = 200,
    patience: int = 15,
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
    random, state, net = np.random.RandomState(seed), _start(x.shape[1], classes), NetDef.from_text(STEP)
    best, waited, found = np.inf, 0, (state[WEIGHTS], state[BIAS])
    learned: List[Epoch] = []
    rows = _balanced(labels, classes)
    executor, clock = Executor(net, _CONSTANTS, 1), Clock()
    changed = [name for name in net.external_output if name in state]
    try:
        for epoch in range(epochs):
            losses = []
            order = random.permutation(rows)
            for part in _batches(order, min(batch, len(order))):
                done = executor.run({**state, "x": x[part], "label": labels[part]}, [*changed, "loss"])
                losses.append(float(done.pop("loss")))
                state.update(done)
            loss, accuracy = judged(held @ state[WEIGHTS].T + state[BIAS], held_out[1])
            learned.append(Epoch(float(np.mean(losses)), loss, accuracy))
            progress(f"{learned[-1]}, {clock.left(epoch + 1, epochs)}", epoch + 1, epochs)
            waited += 1
            if loss < best - LEAST_FALL:
                best, waited, found = loss, 0, (state[WEIGHTS], state[BIAS])
            if waited >= patience:
                break
    finally:
        executor.close()
    weights = np.asarray(found[0] / deviation, np.float32)
    return Head(weights, np.asarray(found[1] - weights @ mean, np.float32), learned)


_CONSTANTS = {
    "iteration_mutex": np.empty(0, np.uint8),
    "ONE": np.ones(1, np.float32),
    "decay_weight": np.full(1, DECAY, np.float32),
}


def _start(size: int, classes: int) -> Dict[str, Array]:
    shapes: Sequence[Any] = ((WEIGHTS, (classes, size)), (BIAS, (classes,)))
    names = ("", "_first_moment", "_second_moment")
    state = {f"{name}{part}": np.zeros(shape, np.float32) for name, shape in shapes for part in names}
    return {**state, "iteration": np.zeros(1, np.int64)}


def judged(scores: Array, labels: Array) -> Tuple[float, float]:
    """The mean cross-entropy of softmax(scores), and the share whose largest score is the label's."""
    wide = np.asarray(scores, np.float64)
    logs = wide - wide.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    return float(-logs[np.arange(len(labels)), labels].mean()), float((wide.argmax(1) == labels).mean())


def _balanced(labels: Array, classes: int) -> Array:
    """Rows, those of small classes several times, so that every class has about as many."""
    of_class = [np.flatnonzero(labels == number) for number in range(classes)]
    most = max(len(rows) for rows in of_class)
    return np.concatenate([np.resize(rows, most) for rows in of_class if len(rows)])


def _batches(order: Array, size: int) -> Sequence[Array]:
    """Whole batches: a step is planned for one size."""
    return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
