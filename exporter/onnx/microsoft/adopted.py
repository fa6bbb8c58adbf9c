"""Operators that onnxruntime had before ONNX adopted them; converters for older opsets write them."""

from __future__ import annotations

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import Nodes, defines, integers
from exporter.onnx.node import Node
from runtime_arm.errors import ExportError

_INT64 = 7  # ONNX's number of the data type
_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


@defines("Trilu", "X k", "Y")
def trilu(node: Node) -> Nodes:
    """ONNX's."""
    return [make("Trilu", ["X", "k"] if node.has(1) else ["X"], ["Y"], upper=node.get_int("upper", 1))]


@defines("Range", "start limit delta", "Y")
def counted(node: Node) -> Nodes:
    """ONNX's Range, of scalars or vectors of one element; the step is 1 unless given."""
    given = ["start", "limit", "delta" if node.has(2) else "step"]
    step = [] if node.has(2) else [integers("one", 1), make("CastLike", ["one", "start"], ["step"])]
    scalars = [make("Squeeze", [name], [f"scalar_{name}"]) for name in given]
    return [*step, *scalars, make("Range", [f"scalar_{name}" for name in given], ["Y"])]


@defines("GatherND", "data indices", "output")
def gather_nd(node: Node) -> Nodes:
    """ONNX's, with indices of 32 or 64 bits."""
    return [
        make("Cast", ["indices"], ["places"], to=_INT64),
        make("GatherND", ["data", "places"], ["output"]),
    ]


@defines("ExpandDims", "X axis", "Y")
def expand_dims(node: Node) -> Nodes:
    """Unsqueeze along one axis, an int32."""
    return [
        integers("vector", 1),
        make("Cast", ["axis"], ["wide"], to=_INT64),
        make("Reshape", ["wide", "vector"], ["axes"]),
        make("Unsqueeze", ["X", "axes"], ["Y"]),
    ]


@defines("Pad", "data pads value", "output")
def pad(node: Node) -> Nodes:
    """ONNX's; pads may be a matrix of one row, and the value a vector of one element."""
    names = ["data", "flat", *(["scalar"] if node.has(2) else [])]
    return [
        integers("vector", -1),
        make("Reshape", ["pads", "vector"], ["flat"]),
        *([make("Squeeze", ["value"], ["scalar"])] if node.has(2) else []),
        make("Pad", names, ["output"], mode=node.get_str("mode", "constant")),
    ]


@defines("Unique", "x", "y idx counts")
def unique(node: Node) -> Nodes:
    """ONNX's, in the order of first occurrence; idx says where each element of x is in y."""
    outputs = ["y", "", *(name if node.wants(index) else "" for index, name in ((1, "idx"), (2, "counts")))]
    return [make("Unique", ["x"], outputs, sorted=0)]


@defines("GridSample", "X Grid", "Y")
def grid_sample(node: Node) -> Nodes:
    """ONNX's, which has other names for the modes."""
    mode = node.get_str("mode", "bilinear")
    if mode not in _MODES:
        raise ExportError(f"the mode {mode!r} is not known")
    return [make("GridSample", ["X", "Grid"], ["Y"], **{**node.attributes, "mode": _MODES[mode]})]


@defines("ConvTransposeWithDynamicPads", "X W Pads B", "Y")
def conv_transpose_with_pads(node: Node) -> Nodes:
    """ConvTranspose, whose pads are an input here."""
    pads = node.constant_ints(2)
    if pads is None and node.has(2):
        raise ExportError("the pads must be constants")
    attributes = {**node.attributes, **({} if pads is None else {"pads": pads})}
    return [make("ConvTranspose", ["X", "W", *(["B"] if node.has(3) else [])], ["Y"], **attributes)]


@defines("CDist", "A B", "C")
def distances(node: Node) -> Nodes:
    """C[i, j] = the distance of row i of A and row j of B, Euclidean or its square."""
    metric = node.get_str("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise ExportError(f"the metric {metric!r} is not known")
    summed = "C" if metric == "sqeuclidean" else "squares"
    return [
        integers("rows", 1),
        integers("columns", 0),
        integers("last", -1),
        make("Unsqueeze", ["A", "rows"], ["each"]),
        make("Unsqueeze", ["B", "columns"], ["all"]),
        make("Sub", ["each", "all"], ["differences"]),
        make("ReduceSumSquare", ["differences", "last"], [summed], keepdims=0),
        *([] if summed == "C" else [make("Sqrt", ["squares"], ["C"])]),
    ]
