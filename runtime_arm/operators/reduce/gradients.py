"""Gradient makers of the reductions."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient, no_gradient


@gradient("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def reduction(forward: Forward) -> Backward:
    given = [forward.gradient(), forward.input(0), forward.output(0)]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("ReduceFrontSum", "ReduceFrontMean", "ReduceBackSum", "ReduceBackMean")
def sum_of_dimensions(forward: Forward) -> Backward:
    lengths = [forward.input(1)] if len(forward.op.input) > 1 else []
    return forward.by(f"{forward.op.type}Gradient", [forward.gradient(), forward.like(0), *lengths], [0])


@gradient("ReduceFrontMax", "ReduceBackMax")
def maximum_of_dimensions(forward: Forward) -> Backward:
    lengths = [forward.input(1)] if len(forward.op.input) > 1 else []
    given = [forward.gradient(), forward.input(0), forward.output(0), *lengths]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("RowwiseMax", "ColwiseMax")
def maximum(forward: Forward) -> Backward:
    given = [forward.input(0), forward.output(0), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("SumElements", "AveragedLoss")
def total(forward: Forward) -> Backward:
    return forward.by(f"{forward.op.type}Gradient", [forward.like(0), forward.gradient()], [0])


no_gradient("ArgMax", "ArgMin", "SumElementsInt")


@gradient("Moments")
def moments(forward: Forward) -> Backward:
    given = [forward.gradient(0), forward.gradient(1), forward.input(0), forward.output(0)]
    return forward.by("MomentsGradient", given, [0])


@gradient("TopK")
def top_k(forward: Forward) -> Backward:
    return forward.by("TopKGradient", [forward.gradient(), forward.output(1), forward.like(0)], [0])


@gradient("IntegralImage")
def integral_image(forward: Forward) -> Backward:
    return forward.by("IntegralImageGradient", [forward.like(0), forward.gradient()], [0])


ONNX = ("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@gradient(*(f"Reduce{kind}" for kind in ONNX), domain="onnx")
def onnx_reduction(forward: Forward) -> Backward:
    axes = [name for name in forward.given(1) if name]
    given = [forward.gradient(), forward.input(0), forward.output(0), *axes]
    return forward.by(f"{forward.op.type}Gradient", given, [0], domain="armnet")


@gradient("CumSum", domain="onnx")
def cumsum(forward: Forward) -> Backward:
    """The running sum in the other direction."""
    backwards = int(not forward.op.get_bool("reverse"))
    return forward.by("CumSum", [forward.gradient(), forward.input(1)], [0], domain="onnx", reverse=backwards)


@gradient("TopK", domain="onnx")
def onnx_top_k(forward: Forward) -> Backward:
    given = [forward.like(0), forward.output(1), forward.gradient()]
    axis = forward.op.get_int("axis", -1)
    return forward.by("GatherElementsGradient", given, [0], copy=False, domain="armnet", axis=axis)


no_gradient("ArgMax", "ArgMin", domain="onnx")
