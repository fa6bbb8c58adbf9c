"""Nets of one or two operators on random shapes, for every type that has a gradient in Caffe2's domain."""

from __future__ import annotations

from typing import Callable, Dict, List

import numpy as np

from tests.optimize.gradients.checks import Case, Draw

Cases = Callable[[Draw], List[Case]]
CASES: Dict[str, Cases] = {}


def of(*types: str) -> Callable[[Cases], Cases]:
    """Decorator: the function draws cases of these types, which it checks off."""

    def register(cases: Cases) -> Cases:
        for type in types:
            CASES[type] = cases
        return cases

    return register


def _unary(types: str, low: float, high: float, arguments: str = "") -> None:
    for type in types.split():

        def cases(draw: Draw, type: str = type) -> List[Case]:
            x = draw.uniform(low, high, *draw.sizes(draw.size(1, 3)))
            return [Case(f"{type}(X) -> Y  {arguments}", {"X": x})]

        of(type)(cases)


_unary("Relu Sigmoid Tanh Softplus Swish Selu Softsign Sin Cos Erf Abs Gelu Cube Mish Exp Sqr Negative", -3, 3)
_unary("Cosh Sinh Tan Atan Elu LeakyRelu ReluN Clip HardSigmoid Scale", -1.4, 1.4)
_unary("Asin Acos", -0.9, 0.9)
_unary("Log Sqrt Rsqrt Cbrt Reciprocal", 0.3, 3)
_unary("Logit", 0.1, 0.9)
_unary("ThresholdedRelu", -2, 3, "alpha=0.5")


@of("Gelu", "LeakyRelu", "Elu", "Selu", "Clip", "HardSigmoid", "Scale", "ReluN")
def with_arguments(draw: Draw) -> List[Case]:
    x = draw.uniform(-2, 2, *draw.sizes(3))
    arguments = [
        "Gelu(X) -> Y",
        "Gelu(X) -> Y  fast_gelu=1",
        "LeakyRelu(X) -> Y  alpha=0.3",
        "Elu(X) -> Y  alpha=1.5",
        "Selu(X) -> Y  alpha=1.5  scale=1.2",
        "Clip(X) -> Y  min=-0.5  max=0.7",
        "HardSigmoid(X) -> Y  alpha=0.3  beta=0.4",
        "Scale(X) -> Y  scale=-2.5",
        "ReluN(X) -> Y  n=1.5",
    ]
    return [Case(text, {"X": x}) for text in arguments]


@of("Add", "Sub", "Mul", "Div")
def arithmetic(draw: Draw) -> List[Case]:
    n, c, h, w = draw.sizes(4)
    shapes = [(n, c, h, w), (h, w), (c, 1, 1), (n, 1, h, 1), ()]
    cases = []
    for type in ("Add", "Sub", "Mul", "Div"):
        cases += [Case(f"{type}(A, B) -> Y", {"A": draw.normal(n, c, h, w), "B": draw.positive(*s)}) for s in shapes]
        cases.append(Case(f"{type}(A, B) -> Y", {"A": draw.normal(h, w), "B": draw.positive(n, c, h, w)}))
        legacy = {"A": draw.normal(n, c, h, w), "B": draw.positive(c)}
        cases.append(Case(f"{type}(A, B) -> Y  broadcast=1  axis=1", legacy))
        cases.append(Case(f"{type}(A, A) -> Y", {"A": draw.positive(h, w)}))
    return cases


@of("Sum", "Mean", "Max", "Min")
def variadic(draw: Draw) -> List[Case]:
    shape = draw.sizes(3)
    feeds = {name: draw.distinct(*shape) + 0.01 * i for i, name in enumerate("ABC")}
    return [
        Case(f"Sin(A) -> a\n{type}(a, B, C) -> Y" if type == "Sum" else f"{type}(A, B, C) -> Y", feeds)
        for type in ("Sum", "Mean", "Max", "Min")
    ]


@of("Pow")
def power(draw: Draw) -> List[Case]:
    x = draw.positive(*draw.sizes(2))
    return [
        Case("Pow(X) -> Y  exponent=2.5", {"X": x}),
        Case("Pow(X) -> Y  exponent=-1.0", {"X": x}),
        Case("Pow(X, B) -> Y", {"X": x, "B": draw.positive(*x.shape)}),
        Case("Pow(X, B) -> Y  broadcast=1", {"X": x, "B": draw.positive(*x.shape[1:])}),
        Case("Pow(X, B) -> Y  broadcast=1  axis=0", {"X": x, "B": draw.positive(*x.shape[:1])}),
    ]


@of("PRelu")
def prelu(draw: Draw) -> List[Case]:
    n, c, h, w = draw.sizes(4)
    x = draw.normal(n, c, h, w)
    return [
        Case("PRelu(X, s) -> Y", {"X": x, "s": draw.positive(c)}),
        Case("PRelu(X, s) -> Y", {"X": x, "s": draw.positive(1)}),
        Case('PRelu(X, s) -> Y  order="NHWC"', {"X": x, "s": draw.positive(w)}),
    ]


@of("FC", "FCTransposed", "MatMul", "BatchMatMul")
def products(draw: Draw) -> List[Case]:
    m, n, k, b = draw.sizes(4)
    x, bias = draw.normal(m, k), draw.normal(n)
    cases = [
        Case("FC(X, w, b) -> Y", {"X": x, "w": draw.normal(n, k), "b": bias}),
        Case("FC(X, w, b) -> Y  axis=2", {"X": draw.normal(b, m, k), "w": draw.normal(n, k), "b": bias}),
        Case("FCTransposed(X, w, b) -> Y", {"X": x, "w": draw.normal(k, n), "b": bias}),
        Case("MatMul(A, B) -> Y", {"A": draw.normal(m, b, k), "B": draw.normal(b * k, n)}),
    ]
    for type, lead in (("MatMul", ()), ("BatchMatMul", (b,)), ("BatchMatMul", (2, b))):
        for a in (0, 1):
            for c in (0, 1):
                left, right = ((k, m) if a else (m, k)), ((n, k) if c else (k, n))
                feeds = {"A": draw.normal(*lead, *left), "B": draw.normal(*lead, *right)}
                cases.append(Case(f"{type}(A, B) -> Y  trans_a={a}  trans_b={c}", feeds))
    return cases


CONVOLUTIONS = (
    "kernel=1",
    "kernel=3  pad=1",
    "kernel=3  stride=2  pad=1",
    "kernels=[3, 2]  strides=[1, 2]  pads=[2, 0, 1, 1]",
    "kernel=2  dilation=2  pad=1",
    "kernel=1  stride=2",
)


@of("Conv", "Conv1D", "Conv2D", "Conv3D")
def convolution(draw: Draw) -> List[Case]:
    cases = []
    for arguments in CONVOLUTIONS:
        for group in (1, 2, 0):  # 0: depthwise
            n, depth, m, h, w = *draw.sizes(3, 1, 3), *draw.sizes(2, 4, 7)
            groups = group or draw.size(2, 4)
            depth = depth if group else 1
            kernel = KERNELS[arguments]
            feeds = {"X": draw.normal(n, depth * groups, h, w), "w": draw.normal(m * groups, depth, *kernel)}
            cases.append(Case(f"Conv(X, w) -> Y  {arguments}  group={groups}", feeds))
            feeds = {**feeds, "b": draw.normal(m * groups)}
            cases.append(Case(f"Conv(X, w, b) -> Y  {arguments}  group={groups}", feeds))
    n, c, m = draw.sizes(3, 1, 3)
    line = {"X": draw.normal(n, c, 9), "w": draw.normal(m, c, 3), "b": draw.normal(m)}
    cube = {"X": draw.normal(n, c, 4, 3, 4), "w": draw.normal(m, c, 2, 3, 2), "b": draw.normal(m)}
    last = {"X": draw.normal(n, 5, 6, c), "w": draw.normal(m, 3, 3, c), "b": draw.normal(m)}
    return [
        *cases,
        Case("Conv1D(X, w, b) -> Y  kernels=[3]  strides=[2]  pads=[1, 1]", line),
        Case("Conv3D(X, w, b) -> Y  kernels=[2, 3, 2]  strides=[2, 1, 1]  pads=[1, 1, 0, 0, 1, 1]", cube),
        Case('Conv(X, w, b) -> Y  kernel=3  pad=1  order="NHWC"', last),
    ]


KERNELS = dict(zip(CONVOLUTIONS, [(1, 1), (3, 3), (3, 3), (3, 2), (2, 2), (1, 1)]))
TRANSPOSED = {
    "kernel=2  stride=2": (2, 2),
    "kernel=3  stride=2  pad=1  adj=1": (3, 3),
    "kernels=[1, 3]  strides=[2, 1]  pads=[0, 1, 0, 0]": (1, 3),
    "kernel=1": (1, 1),
}


@of("ConvTranspose")
def transposed_convolution(draw: Draw) -> List[Case]:
    cases = []
    for arguments, kernel in TRANSPOSED.items():
        for group in (1, 2):
            n, depth, m, h, w = *draw.sizes(3, 1, 3), *draw.sizes(2, 2, 5)
            feeds = {"X": draw.normal(n, depth * group, h, w), "w": draw.normal(depth * group, m, *kernel)}
            cases.append(Case(f"ConvTranspose(X, w) -> Y  {arguments}  group={group}", feeds))
            feeds = {**feeds, "b": draw.normal(m * group)}
            cases.append(Case(f"ConvTranspose(X, w, b) -> Y  {arguments}  group={group}", feeds))
    n, c, m = draw.sizes(3, 1, 3)
    last = {"X": draw.normal(n, 3, 4, c), "w": draw.normal(c, 2, 2, m), "b": draw.normal(m)}
    return [*cases, Case('ConvTranspose(X, w, b) -> Y  kernel=2  stride=2  order="NHWC"', last)]


@of("Im2Col", "Col2Im")
def columns(draw: Draw) -> List[Case]:
    n, c, h, w = *draw.sizes(2, 1, 3), *draw.sizes(2, 4, 6)
    x = draw.normal(n, c, h, w)
    columns = draw.normal(n, 4 * c, h - 1, w - 1)
    return [
        Case("Im2Col(X) -> Y  kernel=3  stride=2  pad=1", {"X": x}),
        Case("Col2Im(C, X) -> Y  kernel=2", {"C": columns, "X": x}, to=["C"]),
    ]


@of(
    *(f"{kind}Pool{dims}" for kind in ("Max", "Average") for dims in ("", "1D", "2D", "3D")),
    "LpPool",
)
def pools(draw: Draw) -> List[Case]:
    n, c, h, w = *draw.sizes(2, 1, 3), *draw.sizes(2, 4, 7)
    x, line, cube = draw.distinct(n, c, h, w), draw.distinct(n, c, 9), draw.distinct(n, c, 4, 5, 4)
    cases = []
    for kind in ("Max", "Average"):
        cases += [
            Case(f"{kind}Pool(X) -> Y  kernel=2  stride=2", {"X": x}),
            Case(f"{kind}Pool(X) -> Y  kernel=3  stride=2  pad=1", {"X": x}),
            Case(f"{kind}Pool2D(X) -> Y  kernels=[3, 2]  strides=[1, 2]  pads=[1, 0, 2, 1]", {"X": x}),
            Case(f"{kind}Pool(X) -> Y  kernel=3  stride=2  legacy_pad=3", {"X": x}),
            Case(f"{kind}Pool(X) -> Y  global_pooling=1", {"X": x}),
            Case(f'{kind}Pool(X) -> Y  kernel=2  stride=1  order="NHWC"', {"X": draw.distinct(n, h, w, c)}),
            Case(f"{kind}Pool1D(X) -> Y  kernels=[3]  strides=[2]", {"X": line}),
            Case(f"{kind}Pool3D(X) -> Y  kernels=[2, 2, 2]  strides=[2, 1, 2]", {"X": cube}),
        ]
    return [
        *cases,
        Case("AveragePool(X) -> Y  kernel=3  stride=2  pad=1  count_include_pad=1", {"X": x}),
        Case("LpPool(X) -> Y  kernel=2  stride=2  p=3.0", {"X": draw.positive(n, c, h, w)}),
    ]


@of("Softmax", "LRN", "Normalize", "LpNorm", "AffineChannel")
def norms(draw: Draw) -> List[Case]:
    n, c, h, w = draw.sizes(4, 2, 5)
    x = draw.normal(n, c, h, w)
    channels = {"X": x, "s": draw.normal(c), "b": draw.normal(c)}
    return [
        Case("Softmax(X) -> Y", {"X": x}),
        Case("Softmax(X) -> Y  axis=3", {"X": x}),
        Case("LRN(X) -> Y, s  size=3  alpha=0.5  beta=0.75  bias=1.0", {"X": x}),
        Case('LRN(X) -> Y  size=4  alpha=0.5  beta=0.6  bias=2.0  order="NHWC"', {"X": x}),
        Case("Normalize(X) -> Y  axis=1", {"X": x}),
        Case("LpNorm(X) -> Y  p=2  average=1", {"X": x}),
        Case("LpNorm(X) -> Y  p=1", {"X": x}),
        Case("AffineChannel(X, s, b) -> Y  is_learnable=1", channels),
        Case("AffineChannel(X, s, b) -> Y", channels, to=["X"]),
    ]


@of("SpatialBN", "InstanceNorm", "GroupNorm", "LayerNorm", "RMSNorm")
def standard_norms(draw: Draw) -> List[Case]:
    n, c, h, w = *draw.sizes(1, 2, 4), 2 * draw.size(1, 3), *draw.sizes(2, 2, 4)
    x, last = draw.normal(n, c, h, w), draw.normal(n, h, w, c)
    two = {"s": draw.positive(c), "b": draw.normal(c)}
    running = {**two, "m": draw.normal(c), "v": draw.positive(c)}
    flat = {"s": draw.positive(c * h * w), "b": draw.normal(c * h * w)}
    to = ["X", "s", "b"]
    train = "SpatialBN(X, s, b, m, v) -> Y, m, v, sm, sv  is_test=0  epsilon=0.01"
    return [
        Case(train, {"X": x, **running}, to=to),
        Case(f'{train}  order="NHWC"', {"X": last, **running}, to=to),
        Case("SpatialBN(X, s, b, m, v) -> Y  is_test=1  epsilon=0.01", {"X": x, **running}, to=to),
        Case("InstanceNorm(X, s, b) -> Y, mean, inverse  epsilon=0.01", {"X": x, **two}),
        Case("InstanceNorm(X, s, b) -> Y  epsilon=0.01", {"X": x, **two}),
        Case('InstanceNorm(X, s, b) -> Y, mean, inverse  order="NHWC"', {"X": last, **two}),
        Case("GroupNorm(X, s, b) -> Y, mean, inverse  group=2", {"X": x, **two}),
        Case('GroupNorm(X, s, b) -> Y, mean, inverse  group=2  order="NHWC"', {"X": last, **two}),
        Case("LayerNorm(X, s, b) -> Y, mean, std  axis=1  elementwise_affine=1", {"X": x, **flat}),
        Case("LayerNorm(X) -> Y, mean, std  axis=2", {"X": x}),
        Case("RMSNorm(X, s, b) -> Y, r  axis=1  eps=0.01", {"X": x, **flat}),
    ]


@of("SpatialBNRelu", "SpatialBNAddRelu")
def fused_batch_norms(draw: Draw) -> List[Case]:
    n, c, h = draw.sizes(3, 2, 4)
    feeds = {"X": draw.normal(n, c, h), "s": draw.positive(c), "b": draw.normal(c)}
    running = {"m": draw.normal(c), "v": draw.positive(c)}
    outputs = "Y, m, v, sm, sv, mask  is_test=0  epsilon=0.01"
    addend = {"A": draw.normal(n, c, h)}
    to = ["X", "s", "b"]
    return [
        Case(f"SpatialBNRelu(X, s, b, m, v) -> {outputs}", {**feeds, **running}, to=to),
        Case(f"SpatialBNAddRelu(X, s, b, m, v, A) -> {outputs}", {**feeds, **running, **addend}, to=[*to, "A"]),
    ]


@of("BatchMoments", "Moments")
def moments(draw: Draw) -> List[Case]:
    x = draw.normal(*draw.sizes(4, 2, 4))
    return [
        Case("BatchMoments(X) -> Y, Z", {"X": x}, ys=["Y", "Z"]),
        Case("Moments(X) -> Y, Z  axes=[0, 2]", {"X": x}, ys=["Y", "Z"]),
        Case("Moments(X) -> Y, Z  keepdims=0", {"X": x}, ys=["Y", "Z"]),
    ]


@of(*(f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "L1", "L2")), "SumElements", "AveragedLoss")
def reductions(draw: Draw) -> List[Case]:
    x = draw.distinct(*draw.sizes(3, 2, 4)) + 0.01
    types = [f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "L1", "L2")]
    cases = [Case(f"{type}(X) -> Y  axes=[0, 2]  keepdims={keep}", {"X": x}) for type in types for keep in (0, 1)]
    cases += [Case(f"{type}(X) -> Y", {"X": x}) for type in (*types, "SumElements", "AveragedLoss")]
    return [*cases, Case("SumElements(X) -> Y  average=1", {"X": x})]


@of(
    *(f"Reduce{side}{kind}" for side in ("Front", "Back") for kind in ("Sum", "Mean", "Max")),
    "RowwiseMax",
    "ColwiseMax",
)
def reductions_of_sides(draw: Draw) -> List[Case]:
    n, m, k = draw.sizes(3, 2, 4)
    x = draw.distinct(n, m, k)
    cases = [Case(f"{type}(X) -> Y", {"X": x}) for type in ("RowwiseMax", "ColwiseMax")]
    for side in ("Front", "Back"):
        lengths = draw.integers(n if side == "Front" else k, m * (k if side == "Front" else n)) + 1
        for kind in ("Sum", "Mean", "Max"):
            cases.append(Case(f"Reduce{side}{kind}(X) -> Y  num_reduce_dim=2", {"X": x}))
            feeds = {"X": x, "l": lengths.astype(np.int32)}
            cases.append(Case(f"Reduce{side}{kind}(X, l) -> Y", feeds))
    return cases
