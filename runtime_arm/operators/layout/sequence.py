"""Parts of sequences and matrices: ONNX's ReverseSequence and Trilu, Caffe2's SequenceMask."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.layout.reshape import product
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("ReverseSequence", domain="onnx", inputs=2)
def reverse_sequence(op: OperatorDef, x: TensorSpec, lengths: TensorSpec) -> List[TensorSpec]:
    """Reverses the first lengths[i] time steps of batch element i. ``batch_axis`` (1), ``time_axis`` (0)."""
    batch, time = op.get_int("batch_axis", 1), op.get_int("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise ArgumentError(op, f"batch_axis and time_axis must be 0 and 1, got {batch} and {time}")
    require(
        op,
        x.ndim >= 2 and lengths.shape == (x.shape[batch],) and lengths.dtype == np.int64,
        "there must be a length, int64, for each element of the batch",
        x,
        lengths,
    )
    return [x]


@reverse_sequence.reference
def reverse_sequence_reference(op: OperatorDef, x: Array, lengths: Array) -> List[Any]:
    y = x.copy()
    by_batch, source = (y, x) if op.get_int("batch_axis", 1) == 0 else (y.swapaxes(0, 1), x.swapaxes(0, 1))
    for i, length in enumerate(lengths.tolist()):
        require(op, 0 <= length <= by_batch.shape[1], f"length {length} must be 0 to {by_batch.shape[1]}")
        by_batch[i, :length] = source[i, :length][::-1]
    return [y]


@operator("Trilu", domain="onnx", inputs=(1, 2), inplace={0: 0})
def trilu(op: OperatorDef, x: TensorSpec, k: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """The upper triangle (``upper`` 0: the lower) of the last two dimensions, from diagonal k (0) on; the rest is 0."""
    require(op, x.ndim >= 2, "the input must have two dimensions", x)
    require(op, k is None or (k.size == 1 and k.dtype == np.int64), "k must be one int64", k)
    return [x]


def _left_out(op: OperatorDef, shape: Shape, k: Optional[Array]) -> Array:
    """Where the result is 0, in the last two dimensions."""
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    offset = np.arange(shape[-1]) - np.arange(shape[-2])[:, np.newaxis]
    return offset < diagonal if op.get_bool("upper", True) else offset > diagonal


@trilu.reference
def trilu_reference(op: OperatorDef, x: Array, k: Optional[Array] = None) -> List[Any]:
    return [np.where(_left_out(op, x.shape, k), x.dtype.type(0), x)]


def _knows_diagonal(op: OperatorDef, inputs: Specs, outputs: Any) -> Optional[str]:
    k = inputs[1] if len(inputs) > 1 else None
    return "the diagonal is not a constant" if k is not None and k.value is None else None


@trilu.kernel("NUMPY", supports=_knows_diagonal)
def trilu_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    k = call.in_specs[1] if len(call.in_specs) > 1 else None
    mask, zero = _left_out(call.op, x.shape, None if k is None else k.value), x.dtype.type(0)

    def run() -> None:
        np.copyto(y, x)
        np.copyto(y, zero, where=mask)

    return run


@operator("SequenceMask", inputs=(1, 2))
def sequence_mask(op: OperatorDef, x: TensorSpec, numbers: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """X, with ``fill_val`` (-infinity; 0 with ``grad``) where the mask is set.

    Dimensions from ``axis`` (1) on are the columns, those before are the rows; with ``batch`` only those after that
    dimension, and each item of the batch has the same mask. ``mode`` says where the mask is set. sequence: from column
    numbers[row] on, where dimensions from ``repeat_from_axis`` on share a column; window: further than ``radius`` (10)
    from column numbers[row]; upper, lower: above or below the diagonal; upperdiag, lowerdiag: including the diagonal.
    The second input, the numbers, is int32; numbers beyond the rows are not read.
    """
    mode = op.get_str("mode")
    if mode not in ("sequence", "window", "upper", "lower", "upperdiag", "lowerdiag"):
        raise ArgumentError(op, f"mode must be sequence, window, upper, lower, upperdiag or lowerdiag, got {mode!r}")
    _, rows, _, _ = _blocks(op, x.shape)
    require(op, x.dtype == np.float32, "X must be float32", x)
    if mode in ("sequence", "window"):
        fits = numbers is not None and numbers.dtype == np.int32 and numbers.size >= rows
        require(op, fits, f"mode {mode} needs {rows} int32 numbers", x, numbers)
    return [x]


def _blocks(op: OperatorDef, shape: Shape) -> Tuple[int, int, int, int]:
    """The counts of items in the batch, of rows, of columns, and of elements that share a column."""
    axis = axis_of(op, op.get_int("axis", 1), len(shape))
    first = axis_of(op, op.get_int("batch"), len(shape)) + 1 if op.has("batch") else 0
    last = len(shape)
    if op.has("repeat_from_axis") and op.get_str("mode") == "sequence":
        last = axis_of(op, op.get_int("repeat_from_axis"), len(shape))
    if not first <= axis <= last or (first and last < len(shape)):
        raise ArgumentError(op, "batch must be before axis, and repeat_from_axis after it, without batch")
    return product(shape[:first]), product(shape[first:axis]), product(shape[axis:last]), product(shape[last:])


@sequence_mask.reference
def sequence_mask_reference(op: OperatorDef, x: Array, numbers: Optional[Array] = None) -> List[Any]:
    blocks = _blocks(op, x.shape)
    rows, columns = blocks[1:3]
    i, j = np.arange(rows)[:, np.newaxis], np.arange(columns)
    own = np.zeros((rows, 1), np.int64) if numbers is None else numbers.reshape(-1, 1)[:rows].astype(np.int64)
    masks = {
        "sequence": j >= own,
        "window": abs(j - own) > op.get_int("radius", 10),
        "upper": j > i,
        "lower": j < i,
        "upperdiag": j >= i,
        "lowerdiag": j <= i,
    }
    fill = np.float32(0 if op.get_bool("grad") else op.get_float("fill_val", -np.inf))
    mask = masks[op.get_str("mode")][:, :, np.newaxis]
    return [np.where(mask, fill, x.reshape(blocks)).reshape(x.shape)]
