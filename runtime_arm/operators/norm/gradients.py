"""Gradient makers of the normalisations."""

from __future__ import annotations

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
    """From the statistics of the batch; in evaluation from the running ones, which do not change."""
    testing = forward.op.get_bool("is_test")
    statistics = [forward.input(3), forward.input(4)] if testing else [forward.output(3), forward.output(4)]
    return forward.by(
        "SpatialBNGradient", [forward.input(0), forward.input(1), forward.gradient(), *statistics], [0, 1, 2]
    )
