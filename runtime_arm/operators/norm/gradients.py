"""Gradient makers of the normalisations."""

from __future__ import annotations

from runtime_arm.errors import GradientError
from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("Softmax")
def softmax(forward: Forward) -> Backward:
    return forward.by("SoftmaxGradient", [forward.output(0), forward.gradient()], [0])


@gradient("SpatialBNRelu", "SpatialBNAddRelu")
def spatial_bn_relu(forward: Forward) -> Backward:
    """From the statistics that were used and the mask, outputs 3 to 5."""
    kept = [forward.output(index) for index in (3, 4, 5)]
    inputs = [forward.input(0), forward.input(1), forward.gradient(), *kept]
    return forward.by(f"{forward.op.type}Gradient", inputs, [0, 1, 2, *range(5, len(forward.op.input))])


@gradient("SpatialBN")
def spatial_bn(forward: Forward) -> Backward:
    """From the statistics of the batch; in evaluation from the running ones, which do not change.

    In training it may overwrite X: then from Y, which Caffe2 cannot.
    """
    if forward.op.get_int("num_batches", 1) > 1 and not forward.op.get_bool("is_test"):
        raise GradientError(forward.op, "statistics of several batches have no gradient: theirs is summed outside")
    if forward.op.input[0] == forward.op.output[0] and not forward.op.get_bool("is_test"):
        given = [forward.output(0), forward.input(1), forward.gradient(), forward.input(2), forward.output(4)]
        op = forward.make("SpatialBNOutputGradient", given, [forward.name(index) for index in (0, 1, 2)])
        return forward.result([op.replace(domain="armnet")], dict(enumerate(op.output)))
    testing = forward.op.get_bool("is_test")
    statistics = [forward.input(3), forward.input(4)] if testing else [forward.output(3), forward.output(4)]
    return forward.by(
        "SpatialBNGradient", [forward.input(0), forward.input(1), forward.gradient(), *statistics], [0, 1, 2]
    )


@gradient("LRN")
def lrn(forward: Forward) -> Backward:
    return forward.by("LRNGradient", [forward.input(0), forward.output(0), forward.gradient()], [0])


@gradient("InstanceNorm")
def instance_norm(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.input(2), forward.gradient()]
    saved = [forward.output(index) for index in range(1, len(forward.op.output))]
    return forward.by("InstanceNormGradient", [*given, *saved], [0, 1, 2])


@gradient("GroupNorm")
def group_norm(forward: Forward) -> Backward:
    given = [forward.gradient(), forward.input(0), forward.input(1), forward.input(2)]
    return forward.by("GroupNormGradient", [*given, forward.output(1), forward.output(2)], [0, 1, 2])


@gradient("LayerNorm")
def layer_norm(forward: Forward) -> Backward:
    """Gamma and beta have a gradient where they are used."""
    saved = [forward.output(0), forward.output(1), forward.output(2), forward.input(0)]
    if forward.op.get_bool("elementwise_affine"):
        return forward.by("LayerNormGradient", [forward.gradient(), *saved, forward.input(1)], [0, 1, 2])
    return forward.by("LayerNormGradient", [forward.gradient(), *saved], [0])


@gradient("RMSNorm")
def rms_norm(forward: Forward) -> Backward:
    given = [forward.gradient(), forward.input(0), forward.input(1), forward.output(1)]
    return forward.by("RMSNormGradient", given, [0, 1, 2])


@gradient("AffineChannel")
def affine_channel(forward: Forward) -> Backward:
    if forward.op.get_bool("is_learnable"):
        given = [forward.gradient(), forward.input(0), forward.input(1)]
        return forward.by("AffineChannelGradient", given, [0, 1, 2])
    return forward.by("AffineChannelGradient", [forward.gradient(), forward.input(1)], [0])


@gradient("Normalize", "LpNorm")
def normalize(forward: Forward) -> Backward:
    return forward.by(f"{forward.op.type}Gradient", [forward.input(0), forward.gradient()], [0])


@gradient("BatchMoments")
def batch_moments(forward: Forward) -> Backward:
    given = [forward.gradient(0), forward.gradient(1), forward.input(0)]
    return forward.by("BatchMomentsGradient", given, [0])


@gradient("Softmax", "LogSoftmax", domain="onnx")
def onnx_softmax(forward: Forward) -> Backward:
    return forward.by(f"{forward.op.type}Gradient", [forward.output(0), forward.gradient()], [0], domain="armnet")


@gradient("LayerNormalization", "GroupNormalization", "RMSNormalization", domain="onnx")
def onnx_normalization(forward: Forward) -> Backward:
    """From X and the scale; the statistics are recomputed."""
    present = [index for index, name in enumerate(forward.op.input) if name]
    given = [forward.gradient(), forward.input(0), forward.input(1)]
    return forward.by(f"{forward.op.type}Gradient", given, present, domain="armnet")
