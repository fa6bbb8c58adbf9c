"""Gradient makers of the operators that pick elements. Indices have no gradient."""

from __future__ import annotations

from typing import Any, Dict

from runtime_arm.registry.gradients import Backward, Forward, SparseGradient, gradient, no_gradient


@gradient("Gather")
@gradient("Gather", domain="onnx")
def gather(forward: Forward) -> Backward:
    """Along axis 0 sparse: dY's rows at the indices, by name; with dense_gradient, or along another axis, dense."""
    data, indices, dy = forward.like(0), forward.input(1), forward.gradient()
    axis = forward.op.get_int("axis", 0)
    if axis != 0:
        wraps: Dict[str, Any] = {"wrap_indices": 1} if forward.op.domain else {}
        return forward.by("BatchGatherGradient", [data, indices, dy], [0], axis=axis, **wraps)
    if forward.op.get_bool("dense_gradient"):
        return forward.by("SparseToDense", [indices, dy, data], [0])
    return forward.result([], {0: SparseGradient(indices, dy)})


@gradient("BatchGather")
def batch_gather(forward: Forward) -> Backward:
    return forward.by("BatchGatherGradient", [forward.like(0), forward.input(1), forward.gradient()], [0])


@gradient("BooleanMask")
def boolean_mask(forward: Forward) -> Backward:
    return forward.by("BooleanMaskGradient", [forward.input(1), forward.gradient()], [0])


no_gradient("OneHot", "BatchOneHot", "SegmentOneHot", stops=True)
no_gradient("Unique", "Find")


@gradient("GatherElements", "GatherND", domain="onnx")
def onnx_gather(forward: Forward) -> Backward:
    given = [forward.like(0), forward.input(1), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0], domain="armnet")


no_gradient("OneHot", domain="onnx", stops=True)
