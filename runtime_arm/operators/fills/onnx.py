"""ONNX's operators that make a blob from arguments and small inputs: constants, ranges, random numbers."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array, OperatorDef, dtypes
from runtime_arm.operators.common.casting import STRING
from runtime_arm.operators.common.dtypes import FLOATS, require_same_dtype
from runtime_arm.operators.common.random_numbers import generator
from runtime_arm.registry.schema import integers_of, operator, require, value_of
from runtime_arm.registry.specs import Shape, TensorSpec


def dtype_argument(op: OperatorDef, name: str, default: Any) -> np.dtype[Any]:
    """The dtype whose Caffe2 number the argument holds, ``default`` if it is absent. It must be a number type."""
    dtype: Optional[np.dtype[Any]] = np.dtype(default) if not op.has(name) else dtypes.dtype_of(op.get_int(name))
    if dtype is None or dtype == STRING:
        raise ArgumentError(op, f"{name} must be a number type, got {op.get_int(name)}")
    return dtype


def _checked_shape(op: OperatorDef, shape: Sequence[int]) -> Shape:
    if any(n < 0 for n in shape):
        raise ArgumentError(op, f"dimensions must not be negative, got {list(shape)}")
    require_memory(TensorSpec(shape, np.uint8).nbytes, f"{op.signature()}: a blob of shape {list(shape)}")
    return tuple(shape)


def _element(op: OperatorDef) -> Array:
    value = op.get_tensor("value") if op.has("value") else np.zeros(1, np.float32)
    if value.size != 1:
        raise ArgumentError(op, f"value must be one element, got shape {value.shape}")
    return value.reshape(())


@operator("ConstantOfShape", domain="onnx", dtypes=("int64",))
def constant_of_shape(op: OperatorDef, shape: TensorSpec) -> List[TensorSpec]:
    """Every element of Y is ``value``, a tensor of one element. The input is Y's shape."""
    return [TensorSpec(_checked_shape(op, integers_of(op, shape, "shape")), _element(op).dtype)]


@constant_of_shape.reference
def constant_of_shape_reference(op: OperatorDef, shape: Array) -> List[Any]:
    return [np.full(tuple(shape.tolist()), _element(op), _element(op).dtype)]


@operator("EyeLike", domain="onnx")
def eye_like(op: OperatorDef, like: TensorSpec) -> List[TensorSpec]:
    """Y = 1 on the diagonal, or on the one ``k`` places to its right, else 0. The input, a matrix, has Y's shape."""
    require(op, like.ndim == 2, "the input must be a matrix", like)
    return [TensorSpec(like.shape, dtype_argument(op, "dtype", like.dtype))]


@eye_like.reference
def eye_like_reference(op: OperatorDef, like: Array) -> List[Any]:
    rows, columns = like.shape
    return [np.eye(rows, columns, op.get_int("k", 0), dtype_argument(op, "dtype", like.dtype))]


@operator("Range", domain="onnx", inputs=3, dtypes=("int16", "int32", "int64", *FLOATS))
def range_(op: OperatorDef, start: TensorSpec, limit: TensorSpec, delta: TensorSpec) -> List[TensorSpec]:
    """Y = start + i delta for i = 0, 1, ... until limit is reached. Each input is one number."""
    require_same_dtype(op, start, limit, delta)
    require(op, start.size == limit.size == delta.size == 1, "each input must be one number", start, limit, delta)
    first, end, step = (
        value_of(op, spec, name).reshape(-1)[0].item()
        for spec, name in ((start, "start"), (limit, "limit"), (delta, "delta"))
    )
    if step == 0 or not math.isfinite(first + end + step):
        raise ArgumentError(op, f"{first} to {end} by {step} is not a finite range")
    count = max(math.ceil((end - first) / step), 0) if start.dtype.kind == "f" else len(range(first, end, step))
    return [TensorSpec(_checked_shape(op, (count,)), start.dtype)]


@range_.reference
def range_reference(op: OperatorDef, start: Array, limit: Array, delta: Array) -> List[Any]:
    spec = range_.shape(op, *map(TensorSpec.known, (start, limit, delta)))[0]
    wide = np.float64 if spec.dtype.kind == "f" else np.int64
    steps: Array = np.arange(spec.size).astype(wide) * delta.reshape(()).astype(wide)
    return [(steps + start.reshape(()).astype(wide)).astype(spec.dtype)]


def _normal(op: OperatorDef, shape: Shape) -> Any:
    return generator(op).randn(*shape) * op.get_float("scale", 1.0) + op.get_float("mean", 0.0)


def _uniform(op: OperatorDef, shape: Shape) -> Any:
    return generator(op).uniform(op.get_float("low", 0.0), op.get_float("high", 1.0), shape)


def _declare_random(type: str, draw: Callable[[OperatorDef, Shape], Any], doc: str) -> None:
    """Declares two operators: one with the argument ``shape``; one, named ...Like, with its input's shape and dtype."""

    @operator(type, domain="onnx", inputs=0, pure=False)
    def schema(op: OperatorDef) -> List[TensorSpec]:
        return [TensorSpec(_checked_shape(op, op.get_ints("shape")), dtype_argument(op, "dtype", np.float32))]

    @operator(f"{type}Like", domain="onnx", pure=False)
    def like_schema(op: OperatorDef, like: TensorSpec) -> List[TensorSpec]:
        return [TensorSpec(like.shape, dtype_argument(op, "dtype", like.dtype))]

    def reference(op: OperatorDef, *inputs: Array) -> List[Any]:
        spec = (like_schema if inputs else schema).shape(op, *map(TensorSpec.known, inputs))[0]
        return [np.asarray(draw(op, spec.shape)).astype(spec.dtype)]

    for each in (schema, like_schema):
        each.__doc__ = doc
        each.reference(reference)


_declare_random("RandomNormal", _normal, "Y is normally distributed: ``mean`` (0), standard deviation ``scale`` (1).")
_declare_random("RandomUniform", _uniform, "Y is uniformly distributed from ``low`` (0) to ``high`` (1).")


@operator("Bernoulli", domain="onnx", dtypes=FLOATS, pure=False)
def bernoulli(op: OperatorDef, p: TensorSpec) -> List[TensorSpec]:
    """Y = 1 with the probability in the input, else 0."""
    return [p.with_dtype(dtype_argument(op, "dtype", p.dtype))]


@bernoulli.reference
def bernoulli_reference(op: OperatorDef, p: Array) -> List[Any]:
    if not bool(np.all((p >= 0) & (p <= 1))):
        raise OperatorError(op, "probabilities must be 0 to 1")
    return [np.asarray(generator(op).binomial(1, p)).astype(dtype_argument(op, "dtype", p.dtype))]


@operator("Multinomial", domain="onnx", dtypes=FLOATS, pure=False)
def multinomial(op: OperatorDef, logits: TensorSpec) -> List[TensorSpec]:
    """Y (rows, sample_size): column indices, drawn with probabilities proportional to exp(the row's elements)."""
    require(op, logits.ndim == 2 and logits.shape[1] > 0, "the input must be a matrix", logits)
    return [TensorSpec((logits.shape[0], op.get_int("sample_size", 1)), dtype_argument(op, "dtype", np.int32))]


@multinomial.reference
def multinomial_reference(op: OperatorDef, logits: Array) -> List[Any]:
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    chances = weights / weights.sum(axis=1, keepdims=True)
    random, count = generator(op), op.get_int("sample_size", 1)
    rows = [random.choice(logits.shape[1], count, p=row) for row in chances]
    return [np.array(rows, dtype_argument(op, "dtype", np.int32)).reshape(len(rows), count)]
