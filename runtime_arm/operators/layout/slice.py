"""Cutting a box out of a blob: Slice of Caffe2 and ONNX."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

Slices = Tuple[slice, ...]
Numbers = Optional[Sequence[int]]


def _cut(x: TensorSpec, slices: Slices) -> TensorSpec:
    """The part of X that the slices select, with its content if that of X is known."""
    if x.value is None:
        return x.with_shape(sliced_shape(x.shape, slices))
    content = x.value[slices].copy()
    return TensorSpec(content.shape, x.dtype, content, x.quantization)


def sliced_shape(shape: Shape, slices: Slices) -> List[int]:
    """The shape of the part of a blob that the slices select."""
    return [len(range(*cut.indices(n))) for n, cut in zip(shape, slices)]


def _numbers(op: OperatorDef, spec: Optional[TensorSpec], what: str) -> Numbers:
    return None if spec is None else integers_of(op, spec, what)


def slices_of(op: OperatorDef, x: TensorSpec, bounds: Sequence[Optional[TensorSpec]]) -> Slices:
    numbers = [_numbers(op, spec, "bounds") for spec in bounds]
    if op.domain:
        return _onnx_slices(op, x, *numbers)
    starts, ends = numbers or (None, None)
    return _caffe2_slices(op, x, starts, ends)


def _place(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[Slices]:
    """Which part of X is Y."""
    x = inputs[0]
    assert x is not None
    return [slices_of(op, x, inputs[1:])]


@operator("Slice", inputs=(1, 3), splits=_place)
def slice_(
    op: OperatorDef, x: TensorSpec, starts: Optional[TensorSpec] = None, ends: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """The elements from ``starts`` to before ``ends`` of each dimension; arguments, or the second and third input.

    Negative bounds count from one past the end, so an end of -1 means everything that follows. Bounds beyond the end
    are clipped. As in Caffe2, at most one dimension may lose elements.
    """
    require(op, (starts is None) == (ends is None), "give starts and ends both as inputs, or both as arguments")
    slices = _caffe2_slices(op, x, _numbers(op, starts, "starts"), _numbers(op, ends, "ends"))
    return [_cut(x, slices)]


def _caffe2_slices(op: OperatorDef, x: TensorSpec, starts: Numbers, ends: Numbers) -> Slices:
    if starts is None or ends is None:
        if not (op.has("starts") and op.has("ends")):
            raise ArgumentError(op, "'starts' and 'ends' are required, as arguments or as inputs")
        starts, ends = op.get_ints("starts"), op.get_ints("ends")
    require(
        op,
        len(starts) == len(ends) <= x.ndim,
        f"starts {starts} and ends {ends} must have the same length, and no more numbers than dimensions",
        x,
    )
    bounds = [(_bound(start, n), _bound(end, n)) for n, start, end in zip(x.shape, starts, ends)]
    require(op, all(0 <= start <= end for start, end in bounds), f"starts {starts} must not exceed ends {ends}", x)
    cut = [i for i, (start, end) in enumerate(bounds) if start > 0 or end < x.shape[i]]
    require(
        op, len(cut) <= 1 or x.size == 0, f"only one dimension may be cut, starts {starts} and ends {ends} cut {cut}", x
    )
    return tuple(slice(start, end) for start, end in bounds) + (slice(None),) * (x.ndim - len(bounds))


def _bound(bound: int, length: int) -> int:
    if length == 0:
        return 0
    return min(bound + length + 1 if bound < 0 else bound, length)


@operator("Slice", domain="onnx", inputs=(3, 5), splits=_place)
def onnx_slice(
    op: OperatorDef,
    x: TensorSpec,
    starts: TensorSpec,
    ends: TensorSpec,
    axes: Optional[TensorSpec] = None,
    steps: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """The elements from ``starts`` to before ``ends`` by ``steps`` (1) of the dimensions ``axes`` (the first ones).

    All four are inputs. Negative bounds count from the end, bounds beyond either end are clipped, negative steps go
    backwards.
    """
    slices = _onnx_slices(
        op,
        x,
        integers_of(op, starts, "starts"),
        integers_of(op, ends, "ends"),
        _numbers(op, axes, "axes"),
        _numbers(op, steps, "steps"),
    )
    return [_cut(x, slices)]


def _onnx_slices(
    op: OperatorDef, x: TensorSpec, starts: Numbers, ends: Numbers, axes: Numbers = None, steps: Numbers = None
) -> Slices:
    assert starts is not None
    assert ends is not None
    axes = list(range(len(starts))) if axes is None else [axis_of(op, axis, x.ndim, "axes") for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) <= x.ndim:
        numbers = f"starts {starts}, ends {ends}, axes {axes}, steps {steps}"
        raise ShapeError(op, f"{numbers} must have the same length, no more numbers than dimensions; got {x}")
    if len(set(axes)) < len(axes) or 0 in steps:
        raise ShapeError(op, f"axes {axes} must differ and steps {steps} not be 0; got {x}")
    slices = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        slices[axis] = _bounded(start, end, step, x.shape[axis])
    return tuple(slices)


def _bounded(start: int, end: int, step: int, length: int) -> slice:
    start, end = (bound + length if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    start, end = min(max(start, 0), length - 1), min(max(end, -1), length - 1)
    return slice(start, None if end < 0 else end, step) if length else slice(0, 0)


def _add_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *bounds: Optional[Array]) -> List[Any]:
        known = [None if array is None else TensorSpec.known(array) for array in bounds]
        return [x[slices_of(op, TensorSpec.known(x), known)].copy()]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        x, spec = call.inputs[0], call.in_specs[0]
        assert spec is not None
        return copy_all([(call.outputs[0], x[slices_of(call.op, spec, call.in_specs[1:])])])


for _schema in (slice_, onnx_slice):
    _add_kernels(_schema)
