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


@gradient("MakeTwoClass")
def make_two_class(forward: Forward) -> Backward:
    return forward.by("MakeTwoClassGradient", [forward.gradient()], [0])


@gradient("PairWiseLoss")
def pair_wise_loss(forward: Forward) -> Backward:
    lengths = [forward.input(2)] if len(forward.op.input) > 2 else []
    given = [forward.input(0), forward.input(1), forward.gradient(), *lengths]
    return forward.by("PairWiseLossGradient", given, [0])


@gradient("LambdaRankNdcg")
def lambda_rank_ndcg(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(2), forward.output(1), forward.gradient()]
    return forward.by("LambdaRankNdcgGradient", given, [0])


@gradient("MarginRankingCriterion")
def margin_ranking(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.input(2), forward.gradient()]
    return forward.by("MarginRankingCriterionGradient", given, [0, 1])


@gradient("CosineEmbeddingCriterion")
def cosine_embedding(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by("CosineEmbeddingCriterionGradient", given, [0])


@gradient("BernoulliJSD")
def bernoulli_jsd(forward: Forward) -> Backward:
    given = [forward.gradient(), forward.input(0), forward.input(1)]
    return forward.by("BernoulliJSDGradient", given, [0])


@gradient("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", domain="onnx")
def onnx_loss(forward: Forward) -> Backward:
    if forward.has_gradient(1):
        raise GradientError(
            forward.op, "only the loss has a gradient: compute the logarithm by a LogSoftmax of its own"
        )
    weights = [name for name in forward.given(2) if name]
    given = [forward.gradient(), forward.input(0), forward.input(1), *weights]
    return forward.by(f"{forward.op.type}Gradient", given, [0], domain="armnet")
