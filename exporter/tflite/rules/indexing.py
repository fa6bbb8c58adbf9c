"""Selection and placement of elements by index or condition."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import quantised_rule, rule
from exporter.tflite.rules.convolution import weight_scales
from exporter.tflite.rules.layout import integers, only_integer
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import FLOAT, number_of

_LARGEST_MATRIX = 1 << 22  # elements of a constant that the file gives only by its size


def narrowed(node: Node, blob: str, index: int = 0) -> None:
    """Write int64 values to an output with the data type that the file declares."""
    dtype = node.result_dtype(index)
    if dtype == np.int64:
        node.alias(index, blob)
    else:
        node.add("Cast", [blob], [node.output(index)], domain="onnx", to=number_of(dtype))


@rule("GATHER", any_type=True)
def gather(node: Node) -> None:
    rank, batch = node.known_rank(0), int(node.option("batch_dims"))
    axis = node.axis(node.option("axis"), False, rank)
    if batch:
        batch += node.known_rank(1) if batch < 0 else 0
        return node.add(
            "Gather", [node.input(0), node.input(1)], [node.output()], domain="tflite", axis=axis, batch_dims=batch
        )
    node.add(
        "Gather",
        [node.input(0), integers(node, 1)],
        [node.output()],
        axis=axis or None,
        wrap_indices=1 if axis else None,
    )


@rule("GATHER_ND", any_type=True)
def gather_nd(node: Node) -> None:
    node.add("GatherND", [node.input(0), integers(node, 1)], [node.output()], domain="onnx")


@rule("EMBEDDING_LOOKUP")
def embedding_lookup(node: Node) -> None:
    """Rows of the second input at the indices in the first; 8-bit rows are dequantised after the selection.

    LiteRT reads the bytes of UINT8 rows as int8, as its first converters wrote them.
    """
    indices = integers(node, 0)
    if node.dtype(1).kind == "f":
        return node.add("Gather", [node.input(1), indices], [node.output()])
    table, dtype = node.value(1), node.dtype(1)
    if dtype != np.int8 and (dtype != np.uint8 or table is None):
        raise ExportError(f"the rows {node.tensor(1).name!r} must be floats, int8 or constant uint8")
    scales, quantization = np.array(weight_scales(node, 1), np.float32), node.quantization(1)
    rows, values = node.between("rows"), node.between("values")
    source = node.input(1) if table is None else node.constant("table", table.view(np.int8))
    node.add("Gather", [source, indices], [rows])
    node.add("Cast", [rows], [values], domain="onnx", to=FLOAT)
    if scales.size == 1:
        return node.add("Mul", [values, node.constant("scale", scales)], [node.output()])
    if quantization is None or quantization.axis != 0:
        raise ExportError(f"tensor {node.tensor(1).name!r} must have one scale, or one per row")
    chosen = node.between("scales")
    every = node.constant("scales", scales.reshape((-1,) + (1,) * (node.known_rank(1) - 1)))
    node.add("Gather", [every, indices], [chosen])
    node.add("Mul", [values, chosen], [node.output()])


@quantised_rule("EMBEDDING_LOOKUP")
def embedding_lookup_of_integers(node: Node) -> None:
    """Rows of quantised tensors stay as they are."""
    node.add("Gather", [node.input(1), integers(node, 0)], [node.output()])


@rule("SCATTER_ND", any_type=True)
def scatter_nd(node: Node) -> None:
    """Updates with equal indices are summed."""
    zeros = node.between("zeros")
    node.add("ConstantOfShape", [integers(node, 2)], [zeros], domain="onnx", value=np.zeros(1, node.result_dtype()))
    node.add("ScatterND", [zeros, integers(node, 0), node.input(1)], [node.output()], domain="onnx", reduction="add")


@rule("SPARSE_TO_DENSE")
def sparse_to_dense(node: Node) -> None:
    """Indices: one number, a vector, or a row per element. Values: one, or one per index. All else is the default."""
    rank, dims = node.known_rank(0), node.known_dims(0)
    count, depth = (1, 1) if rank == 0 else (dims[0], dims[1] if rank == 2 else 1)
    places, base, values = node.between("places"), node.between("default"), node.between("values")
    node.add("Reshape", [integers(node, 0)], [places, node.between("old_shape")], shape=[count, depth])
    node.add("Expand", [node.input(3), integers(node, 1)], [base], domain="onnx")
    node.add("Expand", [node.input(2), node.constant("count", np.array([count], np.int64))], [values], domain="onnx")
    node.add("ScatterND", [base, places, values], [node.output()], domain="onnx")


@rule("DYNAMIC_UPDATE_SLICE", any_type=True)
def dynamic_update_slice(node: Node) -> None:
    node.add("DynamicUpdateSlice", [node.input(0), node.input(1), integers(node, 2)], [node.output()], domain="tflite")


@rule("ONE_HOT", any_type=True)
def one_hot(node: Node) -> None:
    """An index out of range gives a row of off values."""
    rank = node.known_rank(0)
    depth = only_integer(node.constant_integers(1), "the depth")
    axis = int(node.option("axis", -1))
    at = rank if axis == -1 else axis
    if not (0 <= at <= rank and 0 <= depth <= _LARGEST_MATRIX):
        raise ExportError(f"an axis {axis} of {depth} elements cannot be added to {rank} dimensions")
    row = np.arange(depth, dtype=np.int64).reshape([depth if i == at else 1 for i in range(rank + 1)])
    wide, hot = node.between("indices"), node.between("hot")
    node.add("ExpandDims", [integers(node, 0)], [wide], dims=[at])
    node.add("EQ", [wide, node.constant("classes", row)], [hot])
    node.add("Where", [hot, node.input(2), node.input(3)], [node.output()], domain="onnx")


@rule("ARG_MAX", "ARG_MIN", any_type=True)
def position(node: Node) -> None:
    """Of equal elements the first is chosen."""
    axis = only_integer(node.constant_integers(1), "the axis")
    rank = node.known_rank(0)
    first = node.is_channels_first(0) and axis in (-1, rank - 1)
    wide = node.between("int64")
    node.add(
        "ArgMax" if node.type == "ARG_MAX" else "ArgMin",
        [node.input(0, first)],
        [wide],
        domain="onnx",
        axis=node.axis(axis, first, rank),
        keepdims=0,
    )
    narrowed(node, wide)


@rule("TOPK_V2", any_type=True)
def top_k(node: Node) -> None:
    """The largest elements of the last dimension in order; of equal elements the first comes first."""
    count, wide, flat = integers(node, 1), node.between("int64"), node.between("count")
    node.add("Reshape", [count], [flat, node.between("old_shape")], shape=[1])
    node.add("TopK", [node.input(0), flat], [node.output(0), wide], domain="onnx", axis=-1)
    narrowed(node, wide, 1)


@rule("WHERE", any_type=True)
def where(node: Node) -> None:
    """The indices of the elements that are not zero, one row each."""
    columns = node.between("columns")
    node.add("NonZero", [node.input(0)], [columns], domain="onnx")
    node.add("Transpose", [columns], [node.output()], axes=[1, 0])


@rule("SELECT", any_type=True)
def select(node: Node) -> None:
    """A vector of conditions chooses whole slices."""
    rank = node.known_rank(1)
    condition = node.input(0)
    if node.rank(0) == 1 and rank > 1:
        condition = node.between("conditions")
        node.add("Reshape", [node.input(0)], [condition, node.between("old_shape")], shape=[-1, *[1] * (rank - 1)])
    node.add("Where", [condition, node.input(1), node.input(2)], [node.output()], domain="onnx")


@rule("SELECT_V2", any_type=True)
def select_v2(node: Node) -> None:
    first, inputs = node.elementwise()
    node.add("Where", inputs, [node.output(0, first)], domain="onnx")


@rule("REVERSE_V2", any_type=True)
def reverse(node: Node) -> None:
    axes = node.constant_integers(1)
    if axes is None:
        raise ExportError("the axes must be constant")
    rows = (
        [-1] * len(axes),
        [int(np.iinfo(np.int64).min)] * len(axes),
        [node.axis(axis, False, node.known_rank(0)) for axis in axes],
        [-1] * len(axes),
    )
    names = [
        node.constant(stem, np.array(row, np.int64)) for stem, row in zip(("starts", "ends", "axes", "steps"), rows)
    ]
    node.add("Slice", [node.input(0), *names], [node.output()], domain="onnx")


@rule("REVERSE_SEQUENCE", any_type=True)
def reverse_sequence(node: Node) -> None:
    """Reverses the first elements of each batch item, as many as the second input says."""
    rank = node.known_rank(0)
    time, batch = (node.axis(int(node.option(name)), False, rank) for name in ("seq_dim", "batch_dim"))
    if time == batch:
        raise ExportError(f"sequence and batch are both dimension {time}")
    order = [time, batch, *(axis for axis in range(rank) if axis not in (time, batch))]
    turned, reversed_ = node.between("turned"), node.between("reversed")
    node.add("Transpose", [node.input(0)], [turned], axes=order)
    node.add("ReverseSequence", [turned, integers(node, 1)], [reversed_], domain="onnx", time_axis=0, batch_axis=1)
    node.add("Transpose", [reversed_], [node.output()], axes=[order.index(axis) for axis in range(rank)])


@rule("UNIQUE", any_type=True)
def unique(node: Node) -> None:
    """The distinct elements in the order in which they first occur, and for each element the index among them."""
    wide = node.between("int64")
    node.add("Unique", [node.input(0)], [node.output(0), "", wide], domain="onnx", sorted=0)
    narrowed(node, wide, 1)


@rule("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(node: Node) -> None:
    """Inputs: boxes (y1, x1, y2, x2), scores, maximum of outputs, overlap and score thresholds and, in V5, sigma."""
    outputs = [node.output(index) for index in range(node.output_count)]
    if node.type == "NON_MAX_SUPPRESSION_V4":
        outputs.insert(1, node.between("scores"))
    node.add("NonMaxSuppression", node.inputs(), outputs, domain="tflite")


def _require_small(rows: int, columns: int) -> None:
    if rows * columns > _LARGEST_MATRIX:
        raise ExportError(f"diagonals of matrices of {rows} by {columns} elements are too large")


@rule("MATRIX_DIAG", any_type=True)
def matrix_diag(node: Node) -> None:
    """Vectors on the diagonals of matrices of zeros."""
    length = node.known_dims(0, least=1)[-1]
    _require_small(length, length)
    wide = node.between("wide")
    node.add("ExpandDims", [node.input(0)], [wide], dims=[node.known_rank(0)])
    names = [
        node.constant("diagonal", np.eye(length, dtype=bool)),
        wide,
        node.constant("zero", np.zeros((), node.dtype(0))),
    ]
    node.add("Where", names, [node.output()], domain="onnx")


@rule("MATRIX_SET_DIAG", any_type=True)
def matrix_set_diag(node: Node) -> None:
    """The matrices with their diagonals replaced."""
    rows, columns = node.known_dims(0, least=2)[-2:]
    _require_small(rows, columns)
    wide, rank = node.between("wide"), node.known_rank(1)
    node.add("ExpandDims", [node.input(1)], [wide], dims=[rank if rows <= columns else rank - 1])
    names = [node.constant("diagonal", np.eye(rows, columns, dtype=bool)), wide, node.input(0)]
    node.add("Where", names, [node.output()], domain="onnx")


@rule("SEGMENT_SUM")
def segment_sum(node: Node) -> None:
    """Sums rows of equal ids; the ids ascend without gaps."""
    node.add("SortedSegmentSum", [node.input(0), node.input(1)], [node.output()])


_SEGMENTS = {
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
    "UNSORTED_SEGMENT_PROD": "prod",
    "UNSORTED_SEGMENT_SUM": "sum",
}


@rule(*_SEGMENTS)
def unsorted_segment(node: Node) -> None:
    node.add("UnsortedSegment", node.inputs(), [node.output()], domain="tflite", reduction=_SEGMENTS[node.type])


@rule("BUCKETIZE")
def bucketize(node: Node) -> None:
    """For each element the number of boundaries that are not greater; the boundaries ascend."""
    boundaries = np.array(node.option_floats("boundaries"), np.float32)
    rank = node.known_rank(0)
    floats, wide, least, ones = (node.between(stem) for stem in ("float", "wide", "least", "ones"))
    node.add("Cast", [node.input(0)], [floats], domain="onnx", to=number_of(np.dtype(np.float32)))
    node.add("ExpandDims", [floats], [wide], dims=[rank])
    node.add("GE", [wide, node.constant("boundaries", boundaries)], [least])
    node.add("Cast", [least], [ones], domain="onnx", to=number_of(np.dtype(np.int32)))
    axes = node.constant("axes", np.array([rank], np.int64))
    node.add("ReduceSum", [ones, axes], [node.output()], domain="onnx", keepdims=0)
