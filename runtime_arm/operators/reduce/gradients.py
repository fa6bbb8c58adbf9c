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
