"""Convolutional nets drawn at random.

They have branches, residual additions, concatenations, views, shared weights, in-place writes, several outputs and
intermediate blobs as outputs. On request they also have runs of operators that a plan merges, and operators whose
output shape depends on data.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
from hypothesis import strategies as st

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

Shape = Tuple[int, int, int, int]


class RandomNet(NamedTuple):
    """A net over the input "x" with its weights."""

    net: NetDef
    weights: Dict[str, np.ndarray]
    shape: Shape

    def pair(self) -> Pair:
        """The net with its weights."""
        init = NetDef("init", tuple(fill(name, value) for name, value in self.weights.items()))
        return Pair(init, self.net, (TensorInfo("x", self.shape, "float32"),)).check()

    def feed(self, seed: int = 0) -> Dict[str, np.ndarray]:
        return {"x": np.random.default_rng(seed).standard_normal(self.shape).astype(np.float32)}


class Drawing:
    """A net under construction: each operator that is drawn reads blobs that exist already."""

    def __init__(self, draw: st.DrawFn, shape: Shape):
        self.draw = draw
        self.shapes: Dict[str, Shape] = {"x": shape}
        self.ops: List[OperatorDef] = []
        self.weights: Dict[str, np.ndarray] = {}
        self.lists: List[str] = []  # sequences, which are no outputs
        self.rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def blob(self) -> str:
        return self.draw(st.sampled_from(sorted(self.shapes)))

    def like(self, name: str) -> str:
        same = sorted(other for other, shape in self.shapes.items() if shape == self.shapes[name])
        return self.draw(st.sampled_from(same))

    def weight(self, *shape: int) -> str:
        for name, array in self.weights.items():
            if (array.shape, array.dtype) == (shape, np.float32) and self.draw(st.booleans()):
                return name
        name = f"w{len(self.weights)}"
        scale = 1.0 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        self.weights[name] = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        return name

    def emit(self, type: str, inputs: List[str], result: Shape, extra_outputs: int = 0, **arguments: object) -> None:
        reusable = [name for name in inputs if self.shapes.get(name) == result and name != "x"]
        in_place = type in ("Relu", "Sigmoid", "Add") and reusable and self.draw(st.integers(0, 4)) == 0
        output = reusable[0] if in_place else f"b{len(self.ops)}"
        extras = [f"{output}_extra{i}_{len(self.ops)}" for i in range(extra_outputs)]
        self.ops.append(OperatorDef.of(type, inputs, [output, *extras], **arguments))
        self.shapes[output] = result


def _unary(d: Drawing) -> None:
    x = d.blob()
    d.emit(d.draw(st.sampled_from(["Relu", "Sigmoid"])), [x], d.shapes[x])


def _binary(d: Drawing) -> None:
    x = d.blob()
    d.emit(d.draw(st.sampled_from(["Add", "Mul", "Sub"])), [x, d.like(x)], d.shapes[x])


def _convolution(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    kernel = d.draw(st.sampled_from([1, 1, 3, 3, 2]))
    stride, dilation, pad = d.draw(st.integers(1, 2)), d.draw(st.integers(1, 2)), d.draw(st.integers(0, 2))
    group = d.draw(st.sampled_from([g for g in (1, 2, c) if c % g == 0]))
    m = group * d.draw(st.integers(1, 3))
    reach = dilation * (kernel - 1) + 1
    height, width = (h + 2 * pad - reach) // stride + 1, (w + 2 * pad - reach) // stride + 1
    if min(h, w) + 2 * pad < reach or m > 12:
        return
    inputs = [x, d.weight(m, c // group, kernel, kernel)] + ([d.weight(m)] if d.draw(st.booleans()) else [])
    d.emit("Conv", inputs, (n, m, height, width), kernel=kernel, stride=stride, dilation=dilation, pad=pad, group=group)


def _normalisation(d: Drawing) -> None:
    x = d.blob()
    c = d.shapes[x][1]
    variance = d.weight(c)
    positive = f"{variance}_positive"
    d.weights[positive] = np.abs(d.weights[variance]) + np.float32(0.5)
    d.emit("SpatialBN", [x, d.weight(c), d.weight(c), d.weight(c), positive], d.shapes[x], is_test=1)


def _pool(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    if min(h, w) >= 2:
        d.emit(d.draw(st.sampled_from(["MaxPool", "AveragePool"])), [x], (n, c, h // 2, w // 2), kernel=2, stride=2)


def _concat(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    others = [name for name, shape in d.shapes.items() if (shape[0], *shape[2:]) == (n, h, w)]
    y = d.draw(st.sampled_from(sorted(others)))
    if c + d.shapes[y][1] <= 24:
        d.emit("Concat", [x, y], (n, c + d.shapes[y][1], h, w), extra_outputs=1, axis=1)


def _view(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    d.emit("Reshape", [x], (n, c, 1, h * w), extra_outputs=1, shape=[n, c, 1, -1])


def _transpose(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    d.emit("Transpose", [x], (n, c, w, h), axes=[0, 1, 3, 2])


def _split(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    if c >= 2:
        first = d.draw(st.integers(1, c - 1))
        parts = [f"b{len(d.ops)}", f"b{len(d.ops)}_rest"]
        d.ops.append(OperatorDef.of("Split", [x], parts, axis=1, split=[first, c - first]))
        d.shapes.update({parts[0]: (n, first, h, w), parts[1]: (n, c - first, h, w)})


def _slice(d: Drawing) -> None:
    x = d.blob()
    n, c, h, w = d.shapes[x]
    start = d.draw(st.integers(0, c - 1))
    d.emit("Slice", [x], (n, c - start, h, w), starts=[0, start, 0, 0], ends=[-1, -1, -1, -1])


def _separable_block(d: Drawing) -> None:
    """A 1x1, a depthwise and a 1x1 convolution, which a plan may run as one step."""
    x = d.blob()
    n, c, h, w = d.shapes[x]
    if c > 8 or min(h, w) < 3:
        return
    expanded, stride = 4 * c, int(d.draw(st.integers(1, 2)))
    d.emit("Conv", [x, d.weight(expanded, c, 1, 1)], (n, expanded, h, w), kernel=1)
    y = d.ops[-1].output[0]
    h, w = (h + 1) // 2 if stride == 2 else h, (w + 1) // 2 if stride == 2 else w
    depthwise = {"kernel": 3, "pad": 1, "stride": stride, "group": expanded}
    d.emit("Conv", [y, d.weight(expanded, 1, 3, 3)], (n, expanded, h, w), **depthwise)
    d.emit("Conv", [d.ops[-1].output[0], d.weight(c, expanded, 1, 1)], (n, c, h, w), kernel=1)


def _pooled_convolution(d: Drawing) -> None:
    """A convolution followed by a max pool, which a plan may run as one step."""
    x = d.blob()
    n, c, h, w = d.shapes[x]
    if min(h, w) >= 2:
        d.emit("Conv", [x, d.weight(8, c, 3, 3)], (n, 8, h, w), kernel=3, pad=1)
        d.emit("MaxPool", [d.ops[-1].output[0]], (n, 8, h // 2, w // 2), kernel=2, stride=2)


def _border(d: Drawing) -> None:
    """NonZero, whose output shape depends on data, and an image to which a small multiple of its result is added.

    NonZero finds the elements of the input above zero, or all those of another blob, so that rounding changes nothing.
    """
    source, image, number = d.draw(st.sampled_from(["x", d.blob()])), d.blob(), len(d.ops)
    large, places, floats, total, small = (
        f"{what}{number}" for what in ("large", "places", "floats", "total", "small")
    )
    d.weights.update(
        zero=np.zeros((), np.float32), least=np.full((), -1e30, np.float32), tiny=np.full((1, 1), 1e-6, np.float32)
    )
    d.ops += [
        OperatorDef.of("Greater", [source, "zero" if source == "x" else "least"], [large], domain="onnx"),
        OperatorDef.of("NonZero", [large], [places], domain="onnx"),
        OperatorDef.of("Cast", [places], [floats], to=1),
        OperatorDef.of("ReduceSum", [floats], [total], axes=[0, 1], keepdims=1),
        OperatorDef.of("Mul", [total, "tiny"], [small]),
    ]
    d.emit("Add", [image, small], d.shapes[image])


def _branch(d: Drawing) -> None:
    """An If whose condition depends on data; both of its nets read blobs of the enclosing net by name."""
    x, number = d.blob(), len(d.ops)
    y, output = d.like(x), f"b{number}"
    mean, condition = f"mean{number}", f"condition{number}"
    d.weights.update(zero=np.zeros((), np.float32))
    nets = [
        NetDef(type, (OperatorDef.of(type, [blob], [output]),), (), (output,))
        for type, blob in (("Relu", x), ("Abs", y))
    ]
    d.ops += [
        OperatorDef.of("ReduceMean", ["x"], [mean], axes=[0, 1, 2, 3], keepdims=0),
        OperatorDef.of("Greater", [mean, "zero"], [condition], domain="onnx"),
        OperatorDef.of("If", [condition], [output], then_net=nets[0], else_net=nets[1]),
    ]
    d.shapes[output] = d.shapes[x]


Kind = Callable[[Drawing], None]
KINDS: Sequence[Kind] = (
    _unary,
    _unary,
    _binary,
    _binary,
    _convolution,
    _convolution,
    _convolution,
    _normalisation,
    _pool,
    _concat,
    _view,
    _transpose,
)

PARTS: Sequence[Kind] = (_unary, _unary, _binary, _concat, _concat, _split, _split, _slice, _view, _pool)
TILED: Sequence[Kind] = (
    _convolution,
    _convolution,
    _convolution,
    _convolution,
    _concat,
    _concat,
    _concat,
    _concat,
    _normalisation,
    _pool,
    _binary,
)
DATA_DEPENDENT: Sequence[Kind] = (_border, _branch)
MERGED: Sequence[Kind] = (
    _separable_block,
    _separable_block,
    _pooled_convolution,
    _pooled_convolution,
    _convolution,
    _concat,
    _unary,
    _binary,
)


@st.composite
def random_nets(
    draw: st.DrawFn, most_operators: int = 12, kinds: Sequence[Kind] = KINDS, sizes: Tuple[int, int] = (1, 9)
) -> RandomNet:
    """A net drawn from up to ``most_operators`` of these kinds; it computes finite numbers from finite inputs.

    sizes: the smallest and the largest height and width of the input.
    """
    height, width = (draw(st.integers(*sizes)) for _ in range(2))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 5)), height, width)
    drawing = Drawing(draw, shape)
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most_operators)):
        kind(drawing)
    if not drawing.ops:
        _unary(drawing)
    written = list(dict.fromkeys(op.output[0] for op in drawing.ops if op.output[0] not in drawing.lists))
    outputs = draw(st.lists(st.sampled_from(written), min_size=1, max_size=3, unique=True))
    used = [name for name in drawing.weights if any(name in op.reads() for op in drawing.ops)]
    net = NetDef("random", tuple(drawing.ops), ("x", *used), tuple(outputs))
    return RandomNet(net, {name: drawing.weights[name] for name in used}, shape)
