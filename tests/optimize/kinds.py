"""Kinds of operators for random nets, chosen so that passes find something to do."""

from __future__ import annotations

from typing import Any, List

import numpy as np
from hypothesis import strategies as st

from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.random_nets import Drawing, Shape


def latest(d: Drawing) -> str:
    """Usually the blob written last, sometimes another."""
    return d.ops[-1].output[0] if d.ops and d.draw(st.integers(0, 3)) else d.blob()


def copying(d: Drawing) -> None:
    x = latest(d)
    copies: List[Any] = [
        ("Copy", {}),
        ("Alias", {}),
        ("StopGradient", {}),
        ("Dropout", {"is_test": 1}),
        ("Cast", {"to": 1}),
    ]
    type, arguments = d.draw(st.sampled_from(copies))
    d.emit(type, [x], d.shapes[x], **arguments)


def viewing(d: Drawing) -> None:
    """Views of views, some of which change nothing."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    shape: Shape = d.draw(st.sampled_from([(n, c, h, w), (n, c, 1, h * w), (n, 1, c * h, w), (n, c, w, h)]))
    d.emit("Reshape", [x], shape, extra_outputs=1, shape=list(shape))


def stacking(d: Drawing) -> None:
    """One blob or two stacked along a new dimension, perhaps activated, and brought back to four dimensions."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    axis, name = int(d.draw(st.integers(0, 4))), f"stacked{len(d.ops)}"
    parts = [x, d.like(x)] if c <= 12 and d.draw(st.integers(0, 2)) == 0 else [x]
    d.ops.append(OperatorDef.of("Concat", parts, [name, f"{name}_lengths"], axis=axis, add_axis=1))
    if d.draw(st.booleans()):
        d.ops.append(OperatorDef.of("Relu", [name], [f"{name}_activated"]))
        name = f"{name}_activated"
    if len(parts) == 1 and d.draw(st.booleans()):
        d.emit("Squeeze", [name], (n, c, h, w), dims=[axis])
    else:
        shape = (n, len(parts) * c, h, w)
        d.emit("Reshape", [name], shape, extra_outputs=1, shape=list(shape))


def open_viewing(d: Drawing) -> None:
    """A view whose shape also holds for other sizes of the input."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    shape, result = d.draw(
        st.sampled_from(
            [((0, 0, -1, 1), (n, c, h * w, 1)), ((0, c, 1, -1), (n, c, 1, h * w)), ((-1, 1, 0, w), (n * c, 1, h, w))]
        )
    )
    d.emit("Reshape", [x], result, extra_outputs=1, shape=list(shape))


def clamping(d: Drawing) -> None:
    """The first five rows of an image, or all rows if there are fewer."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    d.weights.update(first=np.zeros(1, np.int64), last=np.full(1, 5, np.int64), rows=np.full(1, 2, np.int64))
    d.emit("Slice", [x, "first", "last", "rows"], (n, c, min(h, 5), w), domain="onnx")


def squeezing(d: Drawing) -> None:
    """The mean of each channel or row, or over the batch, and an image scaled or shifted by it."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    axes, mean = d.draw(st.sampled_from([([2, 3], (n, c, 1, 1)), ([3], (n, c, h, 1)), ([0], (1, c, h, w))]))
    d.emit("ReduceMean", [x], mean, axes=axes, keepdims=1)
    d.emit(d.draw(st.sampled_from(["Mul", "Add"])), [x, d.ops[-1].output[0]], d.shapes[x])


def of_any_width(d: Drawing) -> None:
    """Arithmetic with single numbers, which fits any number of channels."""
    x = latest(d)
    for _ in range(int(d.draw(st.integers(1, 3)))):
        number = d.weight(*d.draw(st.sampled_from([(1,), (1, 1, 1), (1, 1, 1, 1)])))
        d.emit(d.draw(st.sampled_from(["Add", "Mul", "Sub"])), [x, number], d.shapes[x])
        x = d.ops[-1].output[0]


def transposing(d: Drawing) -> None:
    x = latest(d)
    shape = d.shapes[x]
    axes = d.draw(st.sampled_from([(0, 1, 3, 2), (0, 1, 3, 2), (0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1)]))
    permuted = (shape[axes[0]], shape[axes[1]], shape[axes[2]], shape[axes[3]])
    d.emit("Transpose", [x], permuted, axes=list(axes))


def of_constants(d: Drawing) -> None:
    """An operator on weights alone, and one that uses the result."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    a, b = d.weight(1, c, 1, 1), d.weight(1, c, 1, 1)
    name = f"c{len(d.ops)}"
    d.ops.append(OperatorDef.of(d.draw(st.sampled_from(["Add", "Mul"])), [a, b], [name]))
    d.emit("Add", [x, name], (n, c, h, w))


def times_a_size(d: Drawing) -> None:
    """A product with one of the sizes of a blob."""
    x = latest(d)
    name = f"size{len(d.ops)}"
    d.ops.append(OperatorDef.of("Shape", [d.blob()], [name], axes=[d.draw(st.integers(0, 3))]))
    d.ops.append(OperatorDef.of("Cast", [name], [f"{name}_float"], to=1))
    d.emit("Mul", [x, f"{name}_float"], d.shapes[x])


def repeating(d: Drawing) -> None:
    """A repeated operator, with other names for its outputs."""
    known = [op for op in d.ops if op.output[0] in d.shapes]
    if known:
        op = d.draw(st.sampled_from(known))
        if not set(op.input) & {name for other in d.ops for name in other.output if name in other.input}:
            again = op.replace(output=tuple(f"{name}_again{len(d.ops)}" for name in op.output))
            d.ops.append(again)
            d.shapes[again.output[0]] = d.shapes[op.output[0]]


def twin_weights(d: Drawing) -> None:
    """Two biases, which are equal or differ by a factor of 1.5."""
    x = latest(d)
    c = d.shapes[x][1]
    first, second = d.weight(1, c, 1, 1), f"w{len(d.weights)}_twin"
    d.weights[second] = d.weights[first] * np.float32(d.draw(st.sampled_from([1.0, 1.5])))
    d.emit("Add", [x, first], d.shapes[x])
    d.emit("Add", [x, second], d.shapes[x])


ACTIVATIONS: List[Any] = [
    ("Relu", {}),
    ("Relu", {}),
    ("Clip", {"min": 0.0, "max": 6.0}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("Swish", {}),
]


def activating(d: Drawing) -> None:
    x = latest(d)
    type, arguments = d.draw(st.sampled_from(ACTIVATIONS))
    d.emit(type, [x], d.shapes[x], **arguments)


def normalising(d: Drawing) -> None:
    x = latest(d)
    c = d.shapes[x][1]
    variance = d.weight(c)
    positive = f"{variance}_positive"
    d.weights[positive] = np.abs(d.weights[variance]) + np.float32(0.5)
    d.emit("SpatialBN", [x, d.weight(c), d.weight(c), d.weight(c), positive], d.shapes[x], is_test=1, epsilon=1e-3)


def scaling(d: Drawing) -> None:
    """Arithmetic with one number per channel, broadcast by Caffe2's old rule or NumPy's, or with a single number."""
    x = latest(d)
    c = d.shapes[x][1]
    type = d.draw(st.sampled_from(["Add", "Mul", "Sub", "Div"]))
    shape = d.draw(st.sampled_from([(c, 1, 1), (1, c, 1, 1), (1,), (c,)]))
    weight = d.weight(*shape)
    if type == "Div":
        d.weights[f"{weight}_divisor"] = np.abs(d.weights[weight]) + np.float32(0.5)
        weight = f"{weight}_divisor"
    if shape == (c,):
        d.emit(type, [x, weight], d.shapes[x], broadcast=1, axis=1)
    else:
        swapped = type in ("Add", "Mul", "Sub") and bool(d.draw(st.booleans()))
        d.emit(type, [weight, x] if swapped else [x, weight], d.shapes[x])


def convolving(d: Drawing) -> None:
    """A convolution of the blob written last, grouped or not, transposed or not; or a fully connected layer."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    kind, m = d.draw(st.integers(0, 5)), int(d.draw(st.integers(1, 4)))
    if kind == 0:
        d.emit("FC", [x, d.weight(m, c * h * w), d.weight(m)], (n, m, 1, 1))
        d.ops.append(
            OperatorDef.of("Reshape", [d.ops[-1].output[0]], [f"b{len(d.ops)}", f"old{len(d.ops)}"], shape=[n, m, 1, 1])
        )
        d.shapes[d.ops[-1].output[0]] = (n, m, 1, 1)
        del d.shapes[d.ops[-2].output[0]]
    elif kind == 1 and h * w <= 64:
        group = c if d.draw(st.booleans()) else 1
        weights = [d.weight(c, m, 2, 2), *([d.weight(m * group)] if d.draw(st.booleans()) else [])]
        d.emit("ConvTranspose", [x, *weights], (n, m * group, 2 * h, 2 * w), kernel=2, stride=2, group=group)
    else:
        group, kernel = c if kind == 2 else 1, 1 if kind == 3 else 3
        weights = [d.weight(m * group, c // group, kernel, kernel), *([d.weight(m * group)] if kind % 2 else [])]
        if min(h, w) >= 3 or kernel == 1:
            pad = kernel // 2 if d.draw(st.booleans()) else 0
            grow = 2 * pad - kernel + 1
            d.emit("Conv", [x, *weights], (n, m * group, h + grow, w + grow), kernel=kernel, pad=pad, group=group)


def padding(d: Drawing) -> None:
    """Zeros around a blob, and an operator that reads the padded image."""
    x = latest(d)
    if d.draw(st.booleans()):
        d.emit("Relu", [x], d.shapes[x])
        x = d.ops[-1].output[0]
    n, c, h, w = d.shapes[x]
    top, left, bottom, right = (int(d.draw(st.integers(0, 1))) for _ in range(4))
    if h + top + bottom < 3 or w + left + right < 3:
        return
    d.emit("PadImage", [x], (n, c, h + top + bottom, w + left + right), pads=[top, left, bottom, right])
    padded = d.ops[-1].output[0]
    out = (n, c, h + top + bottom - 2, w + left + right - 2)
    reader = d.draw(st.sampled_from(["Conv", "MaxPool", "AveragePool"]))
    d.emit(reader, [padded, d.weight(c, c, 3, 3)] if reader == "Conv" else [padded], out, kernel=3)


def flat_layer(d: Drawing) -> None:
    """A flattened blob, a fully connected layer, perhaps an activation, and a view back to four dimensions."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    m, flat, matrix = 3, f"flat{len(d.ops)}", f"matrix{len(d.ops)}"
    d.ops.append(OperatorDef.of("Flatten", [x], [flat]))
    d.ops.append(OperatorDef.of("FC", [flat, d.weight(m, c * h * w), d.weight(m)], [matrix]))
    if d.draw(st.booleans()):
        type, arguments = d.draw(st.sampled_from(ACTIVATIONS))
        d.ops.append(OperatorDef.of(type, [matrix], [f"{matrix}_activated"], **arguments))
        matrix = f"{matrix}_activated"
    d.emit("Reshape", [matrix], (n, m, 1, 1), extra_outputs=1, shape=[n, m, 1, 1])


def matrix_layer(d: Drawing) -> None:
    """The product of a blob's last dimension with a matrix, and a bias for each column, row or channel."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    m = int(d.draw(st.integers(1, 4)))
    d.emit("BatchMatMul", [x, d.weight(w, m)], (n, c, h, m), broadcast=1)
    bias = d.draw(st.sampled_from([(m,), (m,), (1,), (1, 1, 1, m), (h, 1), (c, 1, 1)]))
    d.emit("Add", [d.ops[-1].output[0], d.weight(*bias)], (n, c, h, m))


def activated_parts(d: Drawing) -> None:
    """A concatenation of activated parts, mostly with the same activation."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    if c <= 12:
        type, arguments = d.draw(st.sampled_from(ACTIVATIONS))
        parts = []
        for name in (x, d.like(x)):
            d.emit(type, [name], d.shapes[x], **arguments)
            parts.append(d.ops[-1].output[0])
            type, arguments = d.draw(st.sampled_from([(type, arguments)] * 3 + ACTIVATIONS[:1]))
        d.emit("Concat", parts, (n, 2 * c, h, w), extra_outputs=1, axis=1)


def branching(d: Drawing) -> None:
    """Parallel 1x1 convolutions of one blob."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    for _ in range(int(d.draw(st.integers(2, 3)))):
        m = int(d.draw(st.integers(1, 3)))
        bias = [d.weight(m)] if d.draw(st.booleans()) else []
        d.emit("Conv", [x, d.weight(m, c, 1, 1), *bias], (n, m, h, w), kernel=1)


def residual(d: Drawing) -> None:
    """A convolution or normalisation, added to a blob of the same shape."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    if d.draw(st.booleans()):
        d.emit("Conv", [x, d.weight(c, c, 1, 1), d.weight(c)], (n, c, h, w), kernel=1)
    else:
        normalising(d)
    made = d.ops[-1].output[0]
    terms = [made, d.like(made)]
    d.emit(d.draw(st.sampled_from(["Add", "Sum"])), terms if d.draw(st.booleans()) else terms[::-1], d.shapes[made])
    if d.draw(st.booleans()):
        activating(d)


def projected(d: Drawing) -> None:
    """A fused convolution that adds the results of another convolution; both have a bias."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    d.emit("Conv", [x, d.weight(4, c, 1, 1), d.weight(4)], (n, 4, h, w), kernel=1)
    made = d.ops[-1].output[0]
    others = [name for name, shape in d.shapes.items() if (shape[0], *shape[2:]) == (n, h, w) and name != made]
    z = d.draw(st.sampled_from(sorted(others)))
    inputs = [z, d.weight(4, d.shapes[z][1], 1, 1), d.weight(4), made]
    d.emit("FusedConv", inputs, (n, 4, h, w), domain="armnet", kernel=1)


def gating(d: Drawing) -> None:
    """A blob times its own sigmoid or hard sigmoid, or times that of another blob."""
    x = latest(d)
    type, arguments = d.draw(st.sampled_from([("Sigmoid", {}), ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5})]))
    d.emit(type, [x], d.shapes[x], **arguments)
    gate = d.ops[-1].output[0]
    other = x if d.draw(st.integers(0, 3)) else d.like(x)
    d.emit("Mul", [other, gate], d.shapes[x])


def activated_layer(d: Drawing) -> None:
    """A convolution or normalisation, and the activation that follows it."""
    (convolving if d.draw(st.booleans()) else normalising)(d)
    if d.ops and d.ops[-1].output[0] in d.shapes:
        type, arguments = d.draw(st.sampled_from(ACTIVATIONS))
        d.emit(type, [d.ops[-1].output[0]], d.shapes[d.ops[-1].output[0]], **arguments)


def rectified_convolution(d: Drawing) -> None:
    """A convolution, and the ReLU that follows it."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    m = int(d.draw(st.integers(1, 4)))
    d.emit("Conv", [x, d.weight(m, c, 1, 1), *([d.weight(m)] if d.draw(st.booleans()) else [])], (n, m, h, w), kernel=1)
    d.emit("Relu", [d.ops[-1].output[0]], (n, m, h, w))


def gate_of_convolution(d: Drawing) -> None:
    """A convolution, and the HardSigmoid that follows it."""
    convolving(d)
    if d.ops and d.ops[-1].output[0] in d.shapes:
        made = d.ops[-1].output[0]
        d.emit("HardSigmoid", [made], d.shapes[made], alpha=1 / 6, beta=0.5)


def hard_gating(d: Drawing) -> None:
    """HardSigmoid or HardSwish, written out; sometimes the gate multiplies another blob."""
    x = latest(d)
    shape = d.shapes[x]
    d.weights.update(three=np.float32(3), six=np.float32(6))
    d.emit("Add", [x, "three"], shape)
    d.emit("Clip", [d.ops[-1].output[0]], shape, min=0.0, max=6.0)
    if d.draw(st.booleans()):
        other = x if d.draw(st.integers(0, 3)) else d.like(x)
        d.emit("Mul", [other, d.ops[-1].output[0]], shape)
    d.emit("Div", [d.ops[-1].output[0], "six"], shape)


def spelled_gelu(d: Drawing) -> None:
    """GELU, written out; sometimes the factor multiplies another blob."""
    x = latest(d)
    shape = d.shapes[x]
    d.weights.update(one=np.float32(1), half=np.float32(0.5), root=np.float32(2**0.5))
    for type, operand in (("Div", "root"), ("Erf", ""), ("Add", "one")):
        d.emit(type, [d.ops[-1].output[0] if type != "Div" else x, *([operand] if operand else [])], shape)
    other = x if d.draw(st.integers(0, 3)) else d.like(x)
    d.emit("Mul", [other, d.ops[-1].output[0]], shape)
    d.emit("Mul", [d.ops[-1].output[0], "half"], shape)


def attending(d: Drawing) -> None:
    """A blob of four dimensions that attends to itself; sometimes with a scale, or its scores for others. The scale
    may be divided between queries and keys."""
    x = latest(d)
    n, c, h, w = shape = d.shapes[x]
    d.emit("Transpose", [x], (n, c, w, h), axes=[0, 1, 3, 2])
    queries, keys = x, d.ops[-1].output[0]
    if d.draw(st.booleans()):
        d.weights.update(half=np.float32(0.5))
        d.emit("Mul", [x, "half"], shape)
        queries = d.ops[-1].output[0]
        d.emit("Mul", [keys, "half"], (n, c, w, h))
        keys = d.ops[-1].output[0]
    d.emit("BatchMatMul", [queries, keys], (n, c, h, h))
    if d.draw(st.booleans()):
        d.weights.update(six=np.float32(6))
        d.emit("Div", [d.ops[-1].output[0], "six"], (n, c, h, h))
    scores = d.ops[-1].output[0]
    d.emit("Softmax", [scores], (n, c, h, h), axis=3)
    d.emit("BatchMatMul", [d.ops[-1].output[0], x], shape)
    if not d.draw(st.integers(0, 3)):
        d.emit("Relu", [scores], (n, c, h, h))


def pooled_activation(d: Drawing) -> None:
    """ReLU or Clip, alone or after a convolution, and a pool, mostly with overlapping windows."""
    if d.draw(st.booleans()):
        convolving(d)
    x = latest(d)
    n, c, h, w = d.shapes[x]
    type, arguments = d.draw(st.sampled_from([("Relu", {}), ("Relu", {}), ("Clip", {"min": -0.5, "max": 0.5})]))
    d.emit(type, [x], d.shapes[x], **arguments)
    kernel, pad = d.draw(st.sampled_from([(3, 1), (3, 1), (1, 0)]))
    d.emit("MaxPool", [d.ops[-1].output[0]], (n, c, (h + 1) // 2, (w + 1) // 2), kernel=kernel, stride=2, pad=pad)


def joined_parts(d: Drawing) -> None:
    """A concatenation of results, perhaps pooled, and a 1x1 convolution of it."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    if c > 8 or min(h, w) < 2:
        return
    parts = []
    for name in (x, d.like(x)):
        d.emit("Abs", [name], d.shapes[x])
        parts.append(d.ops[-1].output[0])
    d.emit("Concat", parts, (n, 2 * c, h, w), extra_outputs=1, axis=1)
    if d.draw(st.booleans()):
        h, w = h - 1, w - 1
        d.emit(d.draw(st.sampled_from(["MaxPool", "AveragePool"])), [d.ops[-1].output[0]], (n, 2 * c, h, w), kernel=2)
    m = int(d.draw(st.integers(1, 2 * c + 1)))
    bias = [d.weight(m)] if d.draw(st.booleans()) else []
    d.emit(
        d.draw(st.sampled_from(["Conv", "ConvRelu"])),
        [d.ops[-1].output[0], d.weight(m, 2 * c, 1, 1), *bias],
        (n, m, h, w),
        kernel=1,
    )


def chained_blocks(d: Drawing) -> None:
    """A chain of fused convolutions, residual or not, with pools and perhaps a concatenation in between."""
    x = latest(d)
    n, c, h, w = d.shapes[x]
    for _ in range(int(d.draw(st.integers(1, 4)))):
        bias = d.weight(c) if d.draw(st.integers(0, 3)) else ""
        kernel = d.draw(st.sampled_from([1, 1, 1, 3]))
        addend = d.like(x) if d.draw(st.booleans()) else ""
        ends = d.draw(st.sampled_from([{}, {"activation": "Relu"}, {"activation": "Relu"}, {"activation": "Sigmoid"}]))
        inputs = [x, d.weight(c, c, kernel, kernel), bias, *([addend] if addend else [])]
        d.emit("FusedConv", inputs, (n, c, h, w), domain="armnet", kernel=kernel, pad=kernel // 2, **ends)
        x = d.ops[-1].output[0]
        if d.draw(st.integers(0, 3)) == 0:
            kernel = d.draw(st.sampled_from([1, 3]))
            pool = d.draw(st.sampled_from(["MaxPool", "AveragePool"]))
            d.emit(pool, [x], (n, c, h, w), kernel=kernel, pad=kernel // 2)
            x = d.ops[-1].output[0]
    if 2 * c <= 24 and d.draw(st.booleans()):
        d.emit("Concat", [x, d.like(x)], (n, 2 * c, h, w), extra_outputs=1, axis=1)
        d.emit("Conv", [d.ops[-1].output[0], d.weight(c, 2 * c, 1, 1), d.weight(c)], (n, c, h, w), kernel=1)


def looping(d: Drawing) -> None:
    """A loop of few trips that carries an image and a list of images and scans a third; an element, or all joined.

    It reads a blob of the net by name, and it may leave out its condition, return it, or end early by it.
    """
    x, number = latest(d), len(d.ops)
    trips, ends = int(d.draw(st.integers(0, 3))), d.draw(st.sampled_from(["", "never", "never", "early"]))
    counts = {f"trips{trips}": np.array(trips, np.int64), "trips1": np.array(1, np.int64)}
    d.weights.update({**counts, "true": np.array(True)})
    go = OperatorDef.of("Less", ["trip", "trips1"], ["more"], domain="onnx") if ends == "early" else None
    go = go or OperatorDef.of("Copy", ["going"], ["more"])
    body = [
        go,
        OperatorDef.of(d.draw(st.sampled_from(["Sigmoid", "Tanh"])), ["state"], ["changed"]),
        OperatorDef.of("Add", ["changed", d.like(x)], ["next"]),
        OperatorDef.of("SequenceInsert", ["list", "next"], ["longer"], domain="onnx"),
        OperatorDef.of("Abs", ["changed"], ["scanned"]),
    ]
    inputs, outputs = ("trip", "going", "state", "list"), ("more", "next", "longer", "scanned")
    empty, last, made, scan = (f"{what}{number}" for what in ("empty", "last", "made", "scan"))
    given = [f"trips{trips}", "true" if ends else "", x, empty]
    d.lists += [empty, made]
    d.ops.append(OperatorDef.of("SequenceEmpty", [], [empty], domain="onnx"))
    net = NetDef("body", tuple(body), inputs, outputs)
    d.ops.append(OperatorDef.of("Loop", given, [last, made, scan], domain="onnx", body=net))
    d.shapes[last] = d.shapes[x]
    trips = min(trips, 2) if ends == "early" else trips
    if trips:
        _read_list(d, made, trips, d.shapes[x])
        d.ops.append(OperatorDef.of("ReduceMean", [scan], [f"scan_mean{number}"], axes=[0], keepdims=0))
        d.shapes[f"scan_mean{number}"] = d.shapes[x]


def _read_list(d: Drawing, name: str, count: int, shape: Shape) -> None:
    """An element of a sequence of blobs of that shape, or the sequence joined."""
    n, c, h, w = shape
    if d.draw(st.booleans()) or n * count > 6:
        place = int(d.draw(st.integers(-count, count - 1)))
        d.weights[f"place{place}"] = np.array(place, np.int64)
        d.emit("SequenceAt", [name, f"place{place}"], shape, domain="onnx")
    elif d.draw(st.booleans()):
        d.emit("ConcatFromSequence", [name], (n * count, c, h, w), domain="onnx", axis=0)
    else:
        stacked = f"stacked{len(d.ops)}"
        axis = d.draw(st.sampled_from([0, -5]))
        d.ops.append(OperatorDef.of("ConcatFromSequence", [name], [stacked], domain="onnx", axis=axis, new_axis=1))
        d.emit("Reshape", [stacked], (n * count, c, h, w), extra_outputs=1, shape=[n * count, c, h, w])


def listing(d: Drawing) -> None:
    """A sequence of the rows of an image or of other parts of it, changed and read."""
    x, number = latest(d), len(d.ops)
    n, c, h, w = d.shapes[x]
    parts, fewer, more = (f"{what}{number}" for what in ("parts", "fewer", "more"))
    d.lists += [parts, fewer, more]
    each = d.draw(st.sampled_from([size for size in range(1, h + 1) if h % size == 0]))
    d.weights[f"rows{each}"], d.weights[f"rows{each}_of_{h}"] = np.array(each), np.full(h // each, each)
    sizes = d.draw(st.sampled_from([f"rows{each}", f"rows{each}_of_{h}"]))
    d.ops.append(OperatorDef.of("SplitToSequence", [x, sizes], [parts], domain="onnx", axis=2))
    d.ops.append(OperatorDef.of("SequenceErase", [parts], [fewer], domain="onnx"))
    element = f"element{number}"
    d.weights["start"] = np.zeros((), np.int64)
    d.ops.append(OperatorDef.of("SequenceAt", [parts, "start"], [element], domain="onnx"))
    d.ops.append(OperatorDef.of("SequenceInsert", [fewer, element, "start"], [more], domain="onnx"))
    d.shapes[element] = (n, c, each, w)
    _read_list(d, more, h // each, (n, c, each, w))
