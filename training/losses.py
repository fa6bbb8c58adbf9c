"""Losses: each appends to a net the operators that compute one number from its outputs and the labels.

All are made of Caffe2's operators. ``outputs`` are blobs of the net, ``labels`` the blob that the caller feeds; the
mean is over the samples of a batch unless stated otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple, Type, Union

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.netdef.dtypes import FLOAT, INT64
from training.builder import NetBuilder

SMALLEST_SQUARE = 1e-12  # of a distance, before the root; its gradient there is 0


@dataclass(frozen=True)
class Loss:
    """``append`` returns the blob of the loss, a scalar. ``outputs``: how many outputs of the net it takes.

    ``label_dtype``: what labels are converted to before they are fed.
    """

    @property
    def outputs(self) -> int:
        return 1

    @property
    def label_dtype(self) -> str:
        return "float32"

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Softmax(Loss):
    """-log softmax(X)[label]. X: (N, classes), or its Softmax; labels: (N,) integers.

    probabilities: labels are (N, classes) floats that sum to 1 in each row. smoothing: the share of each label that is
    spread evenly over all classes. class_weights: a weight for each class. weights: the name of a blob (N,) that is
    fed, a weight for each sample. With weights, the sum is divided by the sum of the weights.
    """

    probabilities: bool = False
    smoothing: float = 0.0
    class_weights: Optional[Sequence[float]] = None
    weights: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise UsageError(f"smoothing must be at least 0 and less than 1, got {self.smoothing:g}")
        if self.class_weights is not None and (self.weights or self.probabilities):
            raise UsageError("class_weights cannot be combined with weights of samples or with probabilities")

    @property
    def label_dtype(self) -> str:
        return "float32" if self.probabilities else "int32"

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        at, name, arguments = _softmax_of(net, outputs[0])
        tail, net.ops = net.ops[at:], net.ops[:at]
        softmax = tail.pop(0).output[0] if tail else net.free(f"{name}_softmax")
        weights = [self._weights(net, labels)] if self.weights or self.class_weights is not None else []
        kind = {"label_prob": 1} if self.probabilities else {}
        loss = net.free("loss")
        part = net.free("loss_of_labels") if self.smoothing else loss
        share = {"scale": 1 - self.smoothing} if self.smoothing else {}
        net.write("SoftmaxWithLoss", [name, labels, *weights], [softmax, part], **arguments, **kind, **share)
        if self.smoothing:
            self._smooth(net, (name, softmax), weights, part, loss, arguments)
        net.ops.extend(tail)
        return loss

    def _smooth(
        self, net: NetBuilder, blobs: Tuple[str, str], weights: Sequence[str], part: str, loss: str, arguments: Any
    ) -> None:
        """Adds the loss against evenly spread labels: softmax(0) is 1 / classes everywhere."""
        name, softmax = blobs
        zeros = net.add("ConstantFill", [name], f"{name}_zeros", value=0.0)
        even = net.add("Softmax", [zeros], f"{name}_even", **arguments)
        other, unused = net.free("loss_of_even_labels"), net.free(f"{softmax}_again")
        net.write("StopGradient", [even], [even])
        net.write(
            "SoftmaxWithLoss",
            [name, even, *weights],
            [unused, other],
            label_prob=1,
            scale=float(self.smoothing),
            **arguments,
        )
        net.write("Sum", [part, other], [loss])

    def _weights(self, net: NetBuilder, labels: str) -> str:
        if self.class_weights is None:
            return self.weights
        table = net.blob("class_weights", np.array(self.class_weights, np.float32))
        chosen = net.add("Gather", [table, labels], "sample_weights")
        net.write("StopGradient", [chosen], [chosen])
        return chosen


def _softmax_of(net: NetBuilder, output: str) -> Tuple[int, str, Dict[str, int]]:
    """The place in the net of the Softmax that makes an output which nothing else reads, its input, and its axis.

    If there is no such Softmax: the end of the net, and the output itself.
    """
    makers = [at for at, op in enumerate(net.ops) if output in op.output]
    readers = [op for op in net.ops if output in op.input]
    if len(makers) == 1 and not readers:
        op = net.ops[makers[0]]
        if op.type == "Softmax" and op.domain == "":
            return makers[0], op.input[0], {"axis": op.get_int("axis", 1)} if op.has("axis") else {}
    return len(net.ops), output, {}


def _before_activation(net: NetBuilder, output: str, type: str) -> str:
    """The input of the activation of this type that makes the output; the output itself if there is none."""
    makers = [op for op in net.ops if output in op.output]
    return makers[0].input[0] if len(makers) == 1 and _is_plain(makers[0], type) else output


def _is_plain(op: OperatorDef, type: str) -> bool:
    return op.type == type and op.domain == "" and op.input[0] not in op.output


def _mean(net: NetBuilder, blob: str) -> str:
    return net.add("AveragedLoss", [blob], "loss")


@dataclass(frozen=True)
class SigmoidCrossEntropy(Loss):
    """-(t log p + (1 - t) log(1 - p)), the mean over all numbers. p = sigmoid(X); X: logits, or their Sigmoid."""

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        logits = _before_activation(net, outputs[0], "Sigmoid")
        return _mean(net, net.add("SigmoidCrossEntropyWithLogits", [logits, labels], "cross_entropy"))


@dataclass(frozen=True)
class L1(Loss):
    """|X - t|, the mean over all numbers."""

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        return _mean(net, net.add("Abs", [_difference(net, outputs[0], labels)], "distance"))


@dataclass(frozen=True)
class L2(Loss):
    """(X - t)^2, the mean over all numbers."""

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        return _mean(net, net.add("Sqr", [_difference(net, outputs[0], labels)], "square"))


@dataclass(frozen=True)
class Euclidean(Loss):
    """|X - t|^2 / 2 of each sample."""

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        return _mean(net, net.add("SquaredL2Distance", [outputs[0], labels], "distance"))


@dataclass(frozen=True)
class SmoothL1(Loss):
    """d^2 / (2 beta) where d = |X - t| is less than beta, else d - beta / 2; the mean over all numbers."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise UsageError(f"beta must be positive, got {self.beta:g}")

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        distance = net.add("Abs", [_difference(net, outputs[0], labels)], "distance")
        near = net.add("Clip", [distance], "near", min=-1.0, max=float(self.beta))
        square = net.add("Sqr", [near], "square")
        curved = net.add("Scale", [square], "curved", scale=0.5 / self.beta)
        straight = net.add("Sub", [distance, near], "straight")
        return _mean(net, net.add("Add", [curved, straight], "smooth_distance"))


@dataclass(frozen=True)
class Hinge(Loss):
    """The sum over classes of max(0, 1 - s X), s = 1 for the label and -1 for the others; with squared=True, of its
    square. X: (N, classes); labels: (N,) integers."""

    squared: bool = False

    @property
    def label_dtype(self) -> str:
        return "int32"

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        wide = net.add("Cast", [labels], "wide_labels", to=INT64)
        shape = net.add("Shape", [outputs[0]], "scores_shape")
        count = net.add("Gather", [shape, net.blob("class_axis", np.array([1], np.int64))], "class_count")
        net.write("StopGradient", [count], [count])
        hot = net.add("OneHot", [wide, count], "label_flags")
        flags = net.add("Cast", [hot], "label_numbers", to=FLOAT)
        twice = net.add("Scale", [flags], "twice_flags", scale=-2.0)
        sign = net.add("Add", [twice, net.number("ONE", 1.0)], "signs", broadcast=1)  # -1 for the label, 1 for others
        net.write("StopGradient", [sign], [sign])
        signed = net.add("Mul", [outputs[0], sign], "signed")
        margin = net.add("Relu", [net.add("Add", [signed, net.number("ONE", 1.0)], "margin", broadcast=1)], "hinge")
        if self.squared:
            margin = net.add("Sqr", [margin], "squared_hinge")
        return _mean(net, net.add("ReduceBackSum", [margin], "hinge_sum"))


@dataclass(frozen=True)
class Contrastive(Loss):
    """(y d^2 + (1 - y) max(margin - d, 0)^2) / 2, where d = |A - B|; A, B: two outputs (N, features); y: (N,), 1 for
    pairs that belong together."""

    margin: float = 1.0

    @property
    def outputs(self) -> int:
        return 2

    def append(self, net: NetBuilder, outputs: Sequence[str], labels: str) -> str:
        squares = net.add("Sqr", [_difference(net, outputs[0], outputs[1])], "square")
        total = net.add("ReduceBackSum", [squares], "squared_distance")
        alike = net.add("Mul", [total, labels], "alike")
        distance = net.add("Sqrt", [self._positive(net, total)], "distance")
        missing = net.add("Scale", [distance], "negative_distance", scale=-1.0)
        gap = net.add("Add", [missing, net.number("margin", self.margin)], "gap", broadcast=1)
        near = net.add("Sqr", [net.add("Relu", [gap], "positive_gap")], "squared_gap")
        other = net.add("Scale", [labels], "negative_labels", scale=-1.0)
        other = net.add("Add", [other, net.number("ONE", 1.0)], "other_labels", broadcast=1)
        net.write("StopGradient", [other], [other])
        different = net.add("Mul", [near, other], "different")
        both = net.add("Add", [alike, different], "contrast")
        return _mean(net, net.add("Scale", [both], "half_contrast", scale=0.5))

    @staticmethod
    def _positive(net: NetBuilder, blob: str) -> str:
        largest = float(np.finfo(np.float32).max)
        return net.add("Clip", [blob], "positive_distance", min=SMALLEST_SQUARE, max=largest)


def _difference(net: NetBuilder, a: str, b: str) -> str:
    return net.add("Sub", [a, b], "difference")


LOSSES: Dict[str, Type[Loss]] = {
    "softmax": Softmax,
    "sigmoid": SigmoidCrossEntropy,
    "l1": L1,
    "l2": L2,
    "smooth_l1": SmoothL1,
    "hinge": Hinge,
    "euclidean": Euclidean,
    "contrastive": Contrastive,
}


def loss_of(loss: Union[str, Loss]) -> Loss:
    """The loss, or the one of that name. UsageError if there is none."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise UsageError(f"loss must be a training.losses.Loss or one of {', '.join(LOSSES)}; got {loss!r}")
    return LOSSES[loss]()
