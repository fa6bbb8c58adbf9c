"""Gradient makers of the losses. Labels, targets and weights have no gradient."""

from __future__ import annotations

from runtime_arm.errors import GradientError
from runtime_arm.registry.gradients import Backward, Forward, gradient, no_gradient


@gradient("SoftmaxWithLoss", "SpatialSoftmaxWithLoss")
def softmax_with_loss(forward: Forward) -> Backward:
    if forward.has_gradient(0):
        raise GradientError(forward.op, "only the loss has a gradient: compute the softmax by a Softmax of its own")
    given = [forward.input(index) for index in range(len(forward.op.input))]
    return forward.by(f"{forward.op.type}Gradient", [*given, forward.output(0), forward.gradient(1)], [0])


@gradient("LabelCrossEntropy", "CrossEntropy")
def cross_entropy(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("SigmoidCrossEntropyWithLogits", "WeightedSigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(forward: Forward) -> Backward:
    given = [forward.input(index) for index in range(len(forward.op.input))]
    return forward.by(f"{forward.op.type}Gradient", [forward.gradient(), *given], [0])


no_gradient("Accuracy", "MultiClassAccuracy")
