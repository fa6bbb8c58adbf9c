"""Random cases of ONNX's operators, for every type of that domain that has a gradient."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

import numpy as np

from runtime_arm.netdef import Array, NetDef
from tests.optimize.gradients.checks import Case, Draw
from tests.support.operands import onnx

Cases = Callable[[Draw], List[Case]]
ONNX_CASES: Dict[str, Cases] = {}


def of(*types: str) -> Callable[[Cases], Cases]:
    """Decorator: the function draws cases of these types, which it checks off."""

    def register(cases: Cases) -> Cases:
        for type in types:
            ONNX_CASES[type] = cases
        return cases

    return register


def one(
    type: str, inputs: str, feeds: Mapping[str, Any], outputs: str = "Y", to: Sequence[str] = (), **arguments: Any
) -> Case:
    """A net of one operator; ``-`` stands for an omitted input."""
    op = onnx(type, inputs, outputs, **arguments)
    return Case(NetDef(op=(op.replace(output=tuple("" if name == "-" else name for name in op.output)),)), feeds, to=to)


def integers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


SMOOTH = (
    "Relu Sigmoid Tanh Softplus Softsign Sin Cos Erf Abs Mish Exp Neg HardSwish Celu Asinh Gelu Elu LeakyRelu Swish"
)


@of(
    *SMOOTH.split(),
    *[
        "Sinh",
        "Cosh",
        "Tan",
        "Atan",
        "HardSigmoid",
        "Asin",
        "Acos",
        "Atanh",
        "Log",
        "Sqrt",
        "Reciprocal",
        "Acosh",
        "Selu",
    ],
)
def functions(draw: Draw) -> List[Case]:
    shape = draw.sizes(3)
    ranges = {
        (-3, 3): SMOOTH,
        (-1.4, 1.4): "Sinh Cosh Tan Atan HardSigmoid Selu",
        (-0.9, 0.9): "Asin Acos Atanh",
        (0.3, 3): "Log Sqrt Reciprocal",
        (1.2, 3): "Acosh",
    }
    cases = [one(type, "X", {"X": draw.uniform(*r, *shape)}) for r, types in ranges.items() for type in types.split()]
    x = {"X": draw.uniform(-2, 2, *shape)}
    return [
        *cases,
        one("Gelu", "X", x, approximate="tanh"),
        one("Celu", "X", x, alpha=0.7),
        one("Swish", "X", x, alpha=1.5),
        one("Selu", "X", x, alpha=1.5, gamma=1.2),
    ]


@of("ThresholdedRelu", "Clip", "PRelu", "Cast", "CastLike")
def steps(draw: Draw) -> List[Case]:
    n, c, h = draw.sizes(3)
    x = {"X": draw.uniform(-2, 2, n, c, h)}
    bounds = {"l": np.array(-0.7), "h": np.array(0.9)}
    return [
        one("ThresholdedRelu", "X", x, alpha=0.4),
        one("Clip", "X l h", {**x, **bounds}, to=["X"]),
        one("Clip", "X - h", {**x, "h": bounds["h"]}, to=["X"]),
        one("Clip", "X", x),
        one("PRelu", "X s", {**x, "s": draw.positive(c, 1)}),
        Case(NetDef(op=(onnx("Cast", "X", to=13), onnx("Cast", "Y", "Z", to=13))), x, ys=["Z"]),
    ]


@of("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Max", "Min", "Where")
def broadcast(draw: Draw) -> List[Case]:
    n, c, h = draw.sizes(3, 2, 4)
    cases = []
    for left, right in (((n, c, h), (c, 1)), ((1, h), (n, c, h)), ((n, c, h), (n, c, h))):
        feeds = {"A": draw.positive(*left), "B": draw.positive(*right)}
        cases += [one(type, "A B", feeds) for type in ("Add", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Max", "Min")]
        condition = draw.integers(2, c, h).astype(np.bool_)
        cases.append(one("Where", "C A B", {"C": condition, **feeds}))
    return cases


@of("MatMul", "Gemm")
def products(draw: Draw) -> List[Case]:
    m, n, k, b = draw.sizes(4)
    shapes = [((m, k), (k, n)), ((b, m, k), (k, n)), ((b, m, k), (b, k, n)), ((2, b, m, k), (b, k, n))]
    shapes += [((k,), (k, n)), ((m, k), (k,)), ((k,), (k,)), ((b, 1, m, k), (2, k, n))]
    cases = [one("MatMul", "A B", {"A": draw.normal(*s), "B": draw.normal(*t)}) for s, t in shapes]
    for a in (0, 1):
        for t in (0, 1):
            feeds = {"A": draw.normal(*((k, m) if a else (m, k))), "B": draw.normal(*((n, k) if t else (k, n)))}
            cases.append(one("Gemm", "A B", feeds, transA=a, transB=t, alpha=0.5))
            cases.append(one("Gemm", "A B C", {**feeds, "C": draw.normal(n)}, transA=a, transB=t, beta=2.0))
    return cases


@of(
    *(f"Reduce{k}" for k in ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]),
    "CumSum",
    "TopK",
)
def reductions(draw: Draw) -> List[Case]:
    x = {"X": draw.distinct(*draw.sizes(3, 2, 4)) + 0.01}
    positive = {"X": draw.positive(*draw.sizes(3, 2, 4))}
    cases = []
    for kind in ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]:
        feeds = positive if kind in ("LogSum", "SumSquare", "LogSumExp") else x
        cases.append(one(f"Reduce{kind}", "X", feeds))
        cases.append(one(f"Reduce{kind}", "X a", {**feeds, "a": integers(0, -1)}, keepdims=0))
    return [
        *cases,
        one("CumSum", "X a", {**x, "a": np.array(1)}),
        one("CumSum", "X a", {**x, "a": np.array(0)}, reverse=1, exclusive=1),
        one("TopK", "X k", {**x, "k": integers(2)}, "Y I", axis=1),
        one("TopK", "X k", {**x, "k": integers(1)}, "Y I", largest=0),
    ]


@of("Softmax", "LogSoftmax", "LayerNormalization", "GroupNormalization", "RMSNormalization")
def normalisations(draw: Draw) -> List[Case]:
    n, c, h = draw.size(2, 4), 2 * draw.size(1, 3), draw.size(2, 4)
    x = {"X": draw.normal(n, c, h)}
    row, rows = {"s": draw.positive(h), "b": draw.normal(h)}, {"s": draw.positive(c, h), "b": draw.normal(c, h)}
    channels = {"s": draw.positive(c), "b": draw.normal(c)}
    return [
        *(one(type, "X", x, axis=axis) for type in ("Softmax", "LogSoftmax") for axis in (-1, 1)),
        one("LayerNormalization", "X s b", {**x, **row}),
        one("LayerNormalization", "X s", {**x, "s": row["s"]}, "Y m d", epsilon=0.1),
        one("LayerNormalization", "X s b", {**x, **rows}, axis=1),
        one("GroupNormalization", "X s b", {**x, **channels}, num_groups=2),
        one("RMSNormalization", "X s", {**x, "s": row["s"]}, epsilon=0.1),
    ]


@of("Conv", "ConvTranspose", "MaxPool", "AveragePool")
def windows(draw: Draw) -> List[Case]:
    n, c, m = draw.sizes(3, 1, 3)
    x, w = {"X": draw.normal(n, c, 6, 7)}, {"w": draw.normal(m, c, 3, 2), "b": draw.normal(m)}
    back = {"w": draw.normal(c, m, 3, 2), "b": draw.normal(m)}
    pixels = {"X": draw.distinct(n, c, 6, 7)}
    return [
        one("Conv", "X w b", {**x, **w}, auto_pad="SAME_UPPER", strides=[2, 1]),
        one("Conv", "X w", {**x, "w": w["w"]}, pads=[1, 0, 2, 1], dilations=[2, 1]),
        one("ConvTranspose", "X w b", {**x, **back}, strides=[2, 3], output_padding=[1, 0], pads=[1, 0, 0, 1]),
        one("ConvTranspose", "X w", {**x, "w": back["w"]}, dilations=[2, 1]),
        one("MaxPool", "X", pixels, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
        one("MaxPool", "X", pixels, "Y I", kernel_shape=[2, 2], dilations=[2, 2]),
        one("AveragePool", "X", pixels, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        one("AveragePool", "X", pixels, kernel_shape=[2, 3], auto_pad="SAME_LOWER"),
    ]


@of("Resize", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Slice", "Pad", "Split", "Dropout")
def layouts(draw: Draw) -> List[Case]:
    n, c, h, w = *draw.sizes(2, 1, 3), *draw.sizes(2, 3, 5)
    x = {"X": draw.normal(n, c, h, w)}
    bounds = {"s": integers(-1, 0), "e": integers(-100, w - 1), "a": integers(2, 3), "t": integers(-2, 1)}
    pads = {"p": integers(1, 2, 2, 1), "a": integers(2, 3)}
    scales, sizes = {"s": np.array([1, 1, 2, 1.5])}, {"z": integers(n, c, 2 * h - 1, 2)}
    return [
        *(one("Resize", "X - s", {**x, **scales}, mode=mode, to=["X"]) for mode in ("nearest", "linear", "cubic")),
        one("Resize", "X - - z", {**x, **sizes}, mode="linear", coordinate_transformation_mode="align_corners"),
        one("Reshape", "X s", {**x, "s": integers(n * c, -1)}),
        one("Flatten", "X", x, axis=2),
        one("Squeeze", "X a", {"X": draw.normal(n, 1, h), "a": integers(1)}),
        one("Unsqueeze", "X a", {**x, "a": integers(1)}),
        one("Expand", "X s", {"X": draw.normal(c, 1), "s": integers(n, c, w)}),
        one("Tile", "X r", {**x, "r": integers(1, 2, 1, 3)}),
        one("Slice", "X s e a t", {**x, **bounds}),
        *(one("Pad", "X p - a", {**x, **pads}, mode=mode) for mode in ("constant", "reflect", "edge", "wrap")),
        one("Split", "X s", {"X": draw.normal(n, 4), "s": integers(1, 2, 1)}, "U Y V", axis=1),
        one("Dropout", "X", x),
    ]


@of("DepthToSpace", "SpaceToDepth", "Trilu", "Gather", "GatherElements", "GatherND")
def picks(draw: Draw) -> List[Case]:
    n, c, h = draw.sizes(3, 2, 4)
    return [
        *(one("DepthToSpace", "X", {"X": draw.normal(n, 4 * c, h, 2)}, blocksize=2, mode=m) for m in ("DCR", "CRD")),
        one("SpaceToDepth", "X", {"X": draw.normal(n, c, 2 * h, 4)}, blocksize=2),
        one("Trilu", "X", {"X": draw.normal(n, c, h)}, upper=0),
        one("Gather", "X i", {"X": draw.normal(n, c), "i": draw.integers(n, 2, 3, dtype=np.int64) - n}),
        one("Gather", "X i", {"X": draw.normal(n, c), "i": draw.integers(c, h, dtype=np.int64) - c}, axis=1),
        one("GatherElements", "X i", {"X": draw.normal(n, c), "i": draw.integers(c, n, h, dtype=np.int64)}, axis=1),
        one("GatherND", "X i", {"X": draw.normal(n, c, h), "i": draw.integers(2, 3, 2, dtype=np.int64)}),
    ]


@of("Attention")
def attention(draw: Draw) -> List[Case]:
    b, s, t, d, e = draw.sizes(5, 2, 4)
    q, k, v = {"Q": draw.normal(b, 4, s, d)}, {"K": draw.normal(b, 2, t, d)}, {"V": draw.normal(b, 2, t, e)}
    flat = {"Q": draw.normal(b, s, 2 * d), "K": draw.normal(b, s, 2 * d), "V": draw.normal(b, s, 2 * e)}
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    return [
        one("Attention", "Q K V", {**q, **k, **v}),
        one("Attention", "Q K V m", {**q, **k, **v, "m": draw.normal(s, t)}, to=["Q", "K", "V"], softcap=2.0),
        one("Attention", "Q K V", flat, is_causal=1, scale=0.7, **heads),
    ]


@of("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def losses(draw: Draw) -> List[Case]:
    n, c, h = draw.sizes(3, 2, 4)
    labels = draw.integers(c, n, h, dtype=np.int64)
    x, weights = {"X": draw.normal(n, c, h), "l": labels}, {"w": draw.positive(c)}
    cases = []
    for type in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        cases += [one(type, "X l w", {**x, **weights}, reduction=r, to=["X"]) for r in ("none", "sum", "mean")]
        cases.append(one(type, "X l", x, ignore_index=0))
    return cases


@of("LSTM", "GRU", "RNN")
def recurrent(draw: Draw) -> List[Case]:
    t, n, i, h = draw.sizes(4, 2, 4)
    x, cases = {"X": draw.normal(t, n, i)}, []
    lengths = (draw.integers(t, n) + 1).astype(np.int32)
    for type, gates, states in (("LSTM", 4, "h c"), ("GRU", 3, "h"), ("RNN", 1, "h")):
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = {"W": draw.normal(d, gates * h, i), "R": draw.normal(d, gates * h, h)}
            bias = {"B": draw.normal(d, 2 * gates * h), "l": lengths}
            first = {name: draw.normal(d, n, h) for name in states.split()}
            cases.append(one(type, f"X W R B l {states}", {**x, **weights, **bias, **first}, direction=direction))
            early = one(type, f"X W R B l {states}", {**x, **weights, **bias, **first}, "- S", direction=direction)
            cases.append(early._replace(ys=["S"], feeds={**early.feeds, "l": lengths * np.arange(n, dtype=np.int32)}))
            last = one(type, "X W R", {**x, **weights}, "- S", direction=direction)
            cases.append(last._replace(ys=["S"]))
        feeds = {"X": draw.normal(n, t, i), **weights, **bias}
        cases.append(one(type, "X W R B l", feeds, direction="bidirectional", layout=1))
    weights = {"W": draw.normal(1, 3 * h, i), "R": draw.normal(1, 3 * h, h), "B": draw.normal(1, 6 * h)}
    return [*cases, one("GRU", "X W R B", {**x, **weights}, linear_before_reset=1)]
