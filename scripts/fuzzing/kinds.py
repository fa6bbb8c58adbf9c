"""Kinds of operators for random graphs, as exporters of networks write them: one function each, chosen equally often.

A function adds random operators to the graph; Unsuitable if they do not fit, which is mostly found by onnx.
"""

from __future__ import annotations

from typing import Any, Callable, List

from onnx import helper

from scripts.fuzzing.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    FLOATS,
    HALF,
    INT8,
    INT32,
    INT64,
    NUMBERS,
    UINT8,
    Graph,
    Unsuitable,
    Value,
)
from scripts.fuzzing.kinds_of_language import bags, packed_product

FUNCTIONS = (
    *(
        "Relu",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Celu",
        "ThresholdedRelu",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Mish",
        "Gelu",
    ),
    *("Tanh", "Erf", "Softplus", "Softsign", "Exp", "Sqrt", "Log", "Sin", "Cos", "Abs", "Neg", "Sign", "Reciprocal"),
    *("Floor", "Ceil", "Round", "Identity"),
)
SOME_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
REDUCTIONS = (*SOME_REDUCTIONS, "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
LOWEST = {FLOAT: -1e9, HALF: -6e4, DOUBLE: -1e300}
MANY_CHANNELS = 24  # more are not convolved
ALL = (1 << 63) - 1  # the end of a slice that has none


def function(g: Graph) -> None:
    x, type = g.value(FLOATS), g.choose(*FUNCTIONS)
    g.emit(type, [g.emit("Abs", [x]) if type in ("Sqrt", "Log") else x])  # what NaN becomes is not specified


def with_constant(g: Graph) -> None:
    """Arithmetic with a weight that broadcasts."""
    x = g.value(FLOATS)
    sizes = [size if isinstance(size, int) and g.chance(0.6) else 1 for size in x.shape]
    weight = g.weight(*sizes[g.integer(0, x.rank) :], type=x.type, scale=1)
    reads = [x, weight] if g.chance(0.7) else [weight, x]
    g.emit(g.choose("Add", "Sub", "Mul", "Div", "Max", "Min"), reads)


def with_number(g: Graph) -> None:
    x = g.value(FLOATS)
    type = g.choose("Pow", "Div", "PRelu", "Add", "Mul")
    number = 0.25 if type == "PRelu" else g.choose(2, 0.5, 3, 1.4142, 8, 1)
    x = g.emit("Abs", [x]) if type == "Pow" and number % 1 else x
    g.emit(type, [x, g.constant([number] if type == "PRelu" else number, x.type)])


def of_two(g: Graph) -> None:
    x = g.value(NUMBERS)
    others: List[str] = ["Div", "Mean", "Sum"] if x.type in (FLOAT, DOUBLE) else []
    g.emit(
        g.choose("Add", "Sub", "Mul", "Max", "Min", *others), [x, g.like(x) if g.chance(0.6) else g.value((x.type,))]
    )


def clip(g: Graph) -> None:
    x = g.value(NUMBERS)
    bounds = g.choose((0, 6), (0, 1), (-1, 1), (1, -1), (None, 3), (0, None), (None, None), (0, 0))
    g.emit("Clip", [x, *("" if one is None else g.constant(one, x.type) for one in bounds)])


def integers(g: Graph) -> None:
    """Arithmetic on integers that are made from floats. These floats do not come from integers: a step of theirs could
    become any number.
    """
    if g.has("QuantizeLinear"):
        raise Unsuitable
    x, type = g.value(), g.choose(INT32, INT64, UINT8, INT8)
    low, high = {UINT8: (0, 127), INT8: (-128, 127)}.get(type, (-1000, 1000))
    scaled = g.emit("Mul", [x, g.constant(g.choose(1, 20, 100), FLOAT)])
    y = g.emit("Cast", [g.emit("Clip", [scaled, g.constant(low, FLOAT), g.constant(high, FLOAT)])], to=type)
    for _ in range(g.integer(0, 2)):
        y = g.emit(
            g.choose("Add", "Mul", "Sub", "Div", "Mod", "Max", "Min"), [y, g.constant(g.choose(1, 2, 3, 7), type)]
        )
    if g.chance(0.6):
        g.emit("Cast", [y], to=FLOAT)


def cast(g: Graph) -> None:
    x = g.value((*NUMBERS, BOOL))
    whole = [INT32, INT64] if x.type not in FLOATS else []  # floats too large for integers become what the CPU likes
    g.emit("Cast", [x], to=g.choose(FLOAT, FLOAT, HALF, DOUBLE, BOOL, *whole))


def where(g: Graph) -> None:
    x = g.value(FLOATS)
    other = g.constant(g.choose(0, 0.3, -1), x.type)
    mask = g.emit(g.choose("Greater", "Less", "GreaterOrEqual", "LessOrEqual"), [x, g.choose(g.like(x), other)])
    if g.chance(0.3):
        mask = g.emit("Not", [mask])
    if g.chance(0.3):
        mask = g.emit(g.choose("And", "Or", "Xor"), [mask, g.like(mask)])
    branches = [x, g.choose(other, g.constant(LOWEST[x.type], x.type), g.like(x))]
    g.emit("Where", [mask, *(branches if g.chance(0.6) else branches[::-1])])


def reduction(g: Graph) -> None:
    x = g.value((FLOAT, FLOAT, FLOAT, DOUBLE, INT32, INT64))
    type = g.choose(*(REDUCTIONS if x.type == FLOAT else SOME_REDUCTIONS))
    axes = [g.either(axis, x) for axis in sorted(g.shuffled(x.rank)[: g.integer(1, x.rank)])]
    if g.opset >= 18 or type == "ReduceSum":
        g.emit(type, [x, g.constant(axes)], keepdims=g.choose(0, 1))
    else:
        g.emit(type, [x], axes=axes, keepdims=g.choose(0, 1))


def largest(g: Graph) -> None:
    """Where the largest are, or the first of many."""
    x = g.value((FLOAT, FLOAT, INT32, INT64))
    axis = g.axis(x)
    if g.chance(0.5):
        last = g.choose(None, 1)
        g.emit(
            g.choose("ArgMax", "ArgMin"), [x], axis=g.either(axis, x), keepdims=g.choose(0, 1), select_last_index=last
        )
        return
    count = g.integer(1, x.known(axis))
    x = g.emit("Round", [x]) if x.type == FLOAT and g.chance(0.4) else x
    g.emit_all("TopK", [x, g.constant([count])], 2, axis=g.either(axis, x), largest=g.choose(0, 1))


def nonzero(g: Graph) -> None:
    x = g.value((FLOAT, BOOL, INT64))
    places = g.emit("NonZero", [g.emit("Relu", [x]) if x.type == FLOAT else x])
    if g.chance(0.5):
        g.emit("GatherND", [x, g.emit("Transpose", [places], perm=[1, 0])])


def suppression(g: Graph) -> None:
    x = g.value(ranks=(2, 3, 4), fits=lambda one: one.shape[-1] in (4, 8))
    boxes = g.emit("Reshape", [x, g.constant([1, -1, 4])])
    scores = g.emit("Unsqueeze", [g.emit("ReduceSum", [boxes, g.constant([2])], keepdims=0), g.constant([1])])
    limits = [
        g.constant(g.choose(1, 5, 100)),
        g.constant(g.choose(0.3, 0.5), FLOAT),
        g.constant(g.choose(-1, 0.5), FLOAT),
    ]
    g.emit("NonMaxSuppression", [boxes, scores, *limits], center_point_box=g.choose(0, 1))


def concat(g: Graph) -> None:
    x = g.value(NUMBERS)
    axis = g.axis(x)
    parts = [x, *(g.like(x) if g.chance(0.5) else g.value((x.type,), (x.rank,)) for _ in range(g.integer(1, 2)))]
    g.emit("Concat", [parts[place] for place in g.shuffled(len(parts))], axis=g.either(axis, x))


def split(g: Graph) -> None:
    x = g.value(NUMBERS)
    axis = g.axis(x)
    first = g.integer(1, max(1, x.known(axis) - 1))
    g.emit_all("Split", [x, g.constant([first, x.known(axis) - first])], 2, axis=g.either(axis, x))


def slices(g: Graph) -> None:
    x = g.value(NUMBERS)
    axes = g.shuffled(x.rank)[: g.integer(1, min(3, x.rank))]
    ways = (
        (0, ALL, 1),
        (1, ALL, 1),
        (-2, ALL, 1),
        (0, -1, 1),
        (0, ALL, 2),
        (1, ALL, 3),
        (-1, -ALL, -1),
        (-1, -ALL, -2),
        (0, 3, 1),
    )
    starts, ends, steps = zip(*(g.choose(*ways) for _ in axes))
    places = [g.either(axis, x) for axis in axes]
    g.emit("Slice", [x, *map(g.constant, (starts, ends, places, steps))])


def gather(g: Graph) -> None:
    x = g.value(NUMBERS)
    axis = g.axis(x)
    most = x.known(axis) if g.chance(0.7) else 1
    indices = g.choose(0, -1, [most - 1], [0, -1], [-1, 0, most - 1], [[0, most - 1], [-most, 0]])
    g.emit("Gather", [x, g.constant(indices, g.choose(INT64, INT32))], axis=g.either(axis, x))


def transpose(g: Graph) -> None:
    x = g.value((*NUMBERS, BOOL), (2, 3, 4, 5))
    order = g.choose([0, 2, 3, 1], [0, 3, 1, 2]) if x.rank == 4 and g.chance(0.5) else g.shuffled(x.rank)
    y = g.emit("Transpose", [x], perm=order)
    if g.chance(0.3):
        y = g.emit("Relu", [y]) if x.type == FLOAT else y
        g.emit("Transpose", [y], perm=[order.index(axis) for axis in range(x.rank)])


def size_of(g: Graph, x: Value, axis: int) -> Value:
    """A size as PyTorch asks for it, of rank 1."""
    size = g.emit("Gather", [g.emit("Shape", [x]), g.constant(g.either(axis, x))], axis=0)
    return g.emit("Unsqueeze", [size, g.constant([0])])


def reshape(g: Graph) -> None:
    x = g.value(NUMBERS, (2, 3, 4, 5))
    way = g.integer(0, 3)
    if way == 0:
        g.emit("Flatten", [x], axis=g.integer(1, x.rank))
    elif way == 1:
        rest = g.choose([-1], [g.choose(1, 2, 4), -1], [-1, g.choose(1, 2, 3)])
        g.emit("Reshape", [x, g.emit("Concat", [size_of(g, x, 0), g.constant(rest)], axis=0)])
    elif way == 2:
        merged = g.emit("Mul", [size_of(g, x, 0), size_of(g, x, 1)])
        g.emit("Reshape", [x, g.emit("Concat", [merged, g.constant([-1])], axis=0)])
    else:
        g.emit("Reshape", [x, g.constant(g.choose([0, -1], [0, -1, 2], [-1], [0, 1, -1], [1, 0, -1]))])


def singleton(g: Graph) -> None:
    """Dimensions of size 1, added or removed."""
    x = g.value(NUMBERS)
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if ones and g.chance(0.6):
        g.emit("Squeeze", [x, g.constant([g.either(g.choose(*ones), x)])])
    else:
        g.emit("Unsqueeze", [x, g.constant([g.integer(0, x.rank)])])


def expand(g: Graph) -> None:
    x = g.value(NUMBERS)
    way = g.integer(0, 2)
    if way == 0:
        filled = helper.make_tensor("", x.type, [1], [g.choose(0, 1, 2)])
        g.emit("Add", [g.emit("ConstantOfShape", [g.emit("Shape", [x])], value=filled), x])
    elif way == 1:
        g.emit("Tile", [x, g.constant([g.choose(1, 1, 2, 3) for _ in x.shape])])
    else:
        g.emit("Expand", [x, g.constant([g.choose(1, 3) if size == 1 else 1 for size in x.shape])])


def pad(g: Graph) -> None:
    x = g.value(NUMBERS, (2, 3, 4))
    mode = g.choose("constant", "constant", "reflect", "edge")
    inner = [0] * (x.rank - 2)
    amounts = [*inner, g.integer(0, 2), g.integer(0, 2), *inner, g.integer(0, 1), g.integer(-1, 2)]
    value = [g.constant(g.choose(0, 1, -3), x.type)] if mode == "constant" and g.chance(0.6) else []
    g.emit("Pad", [x, g.constant(amounts), *value], mode=mode)


def picture(g: Graph, *types: int) -> Value:
    """A blob that can be convolved."""
    return g.value(
        types or (FLOAT,),
        (3, 4, 4, 4, 5),
        lambda one: isinstance(one.shape[1], int) and 0 < one.shape[1] <= MANY_CHANNELS,
    )


def convolution(g: Graph) -> None:
    x = picture(g, FLOAT, FLOAT, FLOAT, DOUBLE, HALF)
    channels, axes = x.known(1), x.rank - 2
    groups = g.choose(1, 1, 1, channels, *(count for count in (2, 3) if channels % count == 0))
    filters = groups * g.choose(1, 1, 2, 3) if groups > 1 else g.choose(1, 3, 4, 6, 8)
    kernel = [g.choose(1, 1, 3, 3, 2, 5)] * axes if g.chance(0.6) else [g.choose(1, 2, 3, 5) for _ in range(axes)]
    strides = [g.choose(1, 1, 2)] * axes if g.chance(0.7) else [g.choose(1, 2, 3) for _ in range(axes)]
    padding: Any = {
        "pads": [size // 2 for size in kernel] * 2 if g.chance(0.6) else [g.integer(0, 2) for _ in kernel * 2]
    }
    leaves_out = any(stride - size > 1 for stride, size in zip(strides, kernel))  # there runtimes begin at other pixels
    if g.chance(0.3) and not leaves_out:
        padding = {"auto_pad": g.choose("SAME_UPPER", "SAME_LOWER", "VALID")}
    else:
        padding["dilations"] = [g.choose(1, 1, 1, 2)] * axes
    weights = [g.weight(filters, channels // groups, *kernel, type=x.type)]
    weights += [g.weight(filters, type=x.type, scale=0.5)] if g.chance(0.6) else []
    y = g.emit("Conv", [x, *weights], kernel_shape=kernel, strides=strides, group=groups, **padding)
    behind = g.choose("", "", "Relu", "Clip", "Mul", "BatchNormalization")
    if behind == "Mul":
        g.emit("Mul", [y, g.emit("Sigmoid", [y])])
    elif behind == "Clip":
        g.emit("Clip", [y, g.constant(0, x.type), g.constant(6, x.type)])
    elif behind == "Relu":
        g.emit("Relu", [y])
    elif behind and x.type == FLOAT:
        batch_normalization(g, y)


def batch_normalization(g: Graph, x: Value) -> None:
    count = x.known(1)
    variance = g.constant([g.choose(0.3, 1, 2.5) for _ in range(count)], FLOAT)
    g.emit("BatchNormalization", [x, *(g.weight(count, scale=1) for _ in range(3)), variance])


def transposed_convolution(g: Graph) -> None:
    x = picture(g)
    channels, axes = x.known(1), x.rank - 2
    groups = g.choose(1, 1, *(count for count in (2, channels) if channels % count == 0))
    kernel, stride = g.choose(1, 2, 3, 4), g.choose(1, 2)
    weights = [g.weight(channels, g.choose(1, 2, 3), *[kernel] * axes)]
    padding = [g.integer(0, (kernel - 1) // 2)] * 2 * axes
    g.emit(
        "ConvTranspose",
        [x, *weights],
        kernel_shape=[kernel] * axes,
        strides=[stride] * axes,
        group=groups,
        pads=padding,
    )


def pool(g: Graph) -> None:
    x = picture(g)
    axes, kernel = x.rank - 2, g.choose(1, 2, 3)
    if g.chance(0.3):
        g.emit(g.choose("GlobalAveragePool", "GlobalMaxPool"), [x])
        return
    type = g.choose("MaxPool", "AveragePool")
    counted = {"count_include_pad": g.choose(0, 1)} if type == "AveragePool" else {}
    padding = [g.integer(0, kernel // 2)] * 2 * axes
    sizes = {"kernel_shape": [kernel] * axes, "strides": [g.choose(1, 2)] * axes, "pads": padding}
    g.emit(type, [x], ceil_mode=g.choose(0, 1), **sizes, **counted)


def resize(g: Graph) -> None:
    x = picture(g)
    mode = g.choose("nearest", "nearest", "linear")
    places = g.choose("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    scale = g.choose(2, 3) if places == "align_corners" else g.choose(2, 1.5, 3, 0.5)  # onnxruntime rounds sizes there
    scales = g.constant([1, 1, *[scale] * (x.rank - 2)], FLOAT)
    nearest = g.choose("floor", "round_prefer_floor", "ceil") if mode == "nearest" else None
    g.emit("Resize", [x, "", scales], mode=mode, coordinate_transformation_mode=places, nearest_mode=nearest)


def normalization(g: Graph) -> None:
    x = g.value(ranks=(2, 3, 4))
    way = g.choose(
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "Softmax",
        "LogSoftmax",
        "LpNormalization",
        "LRN",
    )
    if way == "BatchNormalization":
        batch_normalization(g, x)
    elif way == "InstanceNormalization":
        g.emit(way, [x, g.weight(x.known(1), scale=1), g.weight(x.known(1), scale=1)])
    elif way == "LayerNormalization" and g.opset >= 17:
        g.emit(way, [x, g.weight(x.known(-1), scale=1), g.weight(x.known(-1), scale=1)], axis=-1)
    elif way == "LRN" and x.rank == 4:
        g.emit(way, [x], size=3)
    elif way in ("Softmax", "LogSoftmax"):
        g.emit(way, [x], axis=g.either(g.axis(x), x))


def product(g: Graph) -> None:
    x = g.value((FLOAT, FLOAT, FLOAT, DOUBLE), (2, 3, 4))
    columns = g.choose(1, 3, 5, 8)
    if x.rank == 2 and g.chance(0.4):
        reads = [x, g.weight(columns, x.known(1), type=x.type), g.weight(columns, type=x.type, scale=1)]
        g.emit("Gemm", reads, transB=1, alpha=g.choose(1.0, 0.5), beta=g.choose(1.0, 2.0))
        return
    y = g.emit("MatMul", [x, g.weight(x.known(-1), columns, type=x.type)])
    if g.chance(0.6):
        g.emit("Add", [y, g.weight(columns, type=x.type, scale=1)])


def attention(g: Graph) -> None:
    """Scaled scores of every two rows, a Softmax, and rows mixed by it."""
    x = g.value(ranks=(3,), fits=lambda one: isinstance(one.shape[2], int) and one.shape[2] >= 2)
    depth = x.known(2)
    query, key, mixed = (g.emit("MatMul", [x, g.weight(depth, depth)]) for _ in range(3))
    scores = g.emit("MatMul", [query, g.emit("Transpose", [key], perm=[0, 2, 1])])
    scaled = g.emit("Div", [scores, g.constant(depth**0.5, FLOAT)])
    g.emit("MatMul", [g.emit("Softmax", [scaled], axis=-1), mixed])


def recurrent(g: Graph) -> None:
    x = g.value(ranks=(3,))
    x.known(0)  # onnxruntime ends the process where there are no steps
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}
    type, hidden, both = g.choose(*gates), g.choose(2, 4), g.chance(0.4)
    rows, directions = gates[type] * hidden, 1 + both
    weights = [
        g.weight(directions, rows, x.known(2)),
        g.weight(directions, rows, hidden),
        g.weight(directions, 2 * rows),
    ]
    direction = "bidirectional" if both else g.choose("forward", "reverse")
    reset = g.choose(0, 1) if type == "GRU" else None
    g.emit_all(type, [x, *weights], 2, hidden_size=hidden, direction=direction, linear_before_reset=reset)


def quantised(g: Graph) -> None:
    """Floats that are integers between QuantizeLinear and DequantizeLinear, as onnxruntime's tool writes them."""
    if g.has("Mod"):
        raise Unsuitable
    x, type = g.value(), g.choose(UINT8, INT8)
    steps = [g.constant(g.choose(0.02, 0.05), FLOAT), g.constant(g.choose(0, 10) if type == UINT8 else 0, type)]

    def rounded(value: Value) -> Value:
        return g.emit("DequantizeLinear", [g.emit("QuantizeLinear", [value, *steps]), *steps])

    y = rounded(x)
    way = g.integer(0, 4)
    if way == 0 and x.rank == 4:
        filters = g.constant([[[[g.integer(-127, 127)]]] * x.known(1)] * 3, INT8)
        weight = g.emit("DequantizeLinear", [filters, g.constant(0.01, FLOAT), g.constant(0, INT8)])
        rounded(g.emit("Conv", [y, weight], kernel_shape=[1, 1]))
    elif way == 1:
        columns = g.constant([[g.integer(-127, 127) for _ in range(4)] for _ in range(x.known(-1))], INT8)
        weight = g.emit("DequantizeLinear", [columns, g.constant(0.01, FLOAT), g.constant(0, INT8)])
        rounded(g.emit("MatMul", [y, weight]))
    elif way == 2:
        rounded(g.emit("Add", [y, y]))
    else:
        rounded(g.emit(g.choose("Relu", "Sigmoid", "Tanh"), [y]))


def branch(g: Graph) -> None:
    """A branch that reads blobs of the graph around it."""
    x = g.value()
    y, name = g.like(x), f"if{len(g.nodes)}"
    condition = g.emit("Greater", [g.emit("ReduceSum", [x], keepdims=0), g.constant(0, FLOAT)])
    bodies = [
        helper.make_graph([node], name, [], [helper.make_tensor_value_info(node.output[0], x.type, None)])
        for node in (
            helper.make_node("Relu", [x.name], [f"{name}_then"]),
            helper.make_node(g.choose("Add", "Mul"), [y.name, x.name], [f"{name}_else"]),
        )
    ]
    node = helper.make_node("If", [condition.name], [name], then_branch=bodies[0], else_branch=bodies[1])
    g.add(node, [Value(name, x.type, x.shape)])


def loop(g: Graph) -> None:
    """A loop that carries one blob, reads another and collects results; sometimes a size gives the number of trips."""
    x = g.value(fits=lambda one: all(isinstance(size, int) for size in one.shape))
    y, trips = g.like(x), g.choose(1, 3)
    number, size = g.constant(trips), trips
    if g.chance(0.4):
        other = g.value()
        axis = g.axis(other)
        number, size = size_of(g, other, axis).name, other.shape[axis]
    name = f"loop{len(g.nodes)}"

    def info(suffix: str, type: int = FLOAT, shape: Any = None) -> Any:
        return helper.make_tensor_value_info(name + suffix, type, shape)

    nodes = [
        helper.make_node("Identity", [f"{name}_go"], [f"{name}_on"]),
        helper.make_node("Mul", [f"{name}_x", y.name], [f"{name}_m"]),
        helper.make_node("Add", [f"{name}_m", x.name], [f"{name}_next"]),
        helper.make_node("Tanh", [f"{name}_next"], [f"{name}_one"]),
    ]
    inputs = [info("_trip", INT64, []), info("_go", BOOL, []), info("_x")]
    body = helper.make_graph(nodes, name, inputs, [info("_on", BOOL, []), info("_next"), info("_one")])
    reads = [number, g.constant(True, BOOL), x.name]
    node = helper.make_node("Loop", reads, [f"{name}_last", f"{name}_all"], body=body)
    g.add(node, [Value(f"{name}_last", FLOAT, x.shape), Value(f"{name}_all", FLOAT, (size, *x.shape))])


def sums(g: Graph) -> None:
    x = g.value((FLOAT, INT64))
    axis = g.axis(x)
    g.emit("CumSum", [x, g.constant(g.either(axis, x))], exclusive=g.choose(0, 1), reverse=g.choose(0, 1))


def blocks(g: Graph) -> None:
    """Channels to pixels, or pixels to channels."""
    x = g.value(ranks=(4,), fits=lambda one: all(isinstance(size, int) for size in one.shape[1:]))
    if x.known(1) % 4 == 0:
        g.emit("DepthToSpace", [x], blocksize=2, mode=g.choose("DCR", "CRD"))
    elif x.known(2) % 2 == x.known(3) % 2 == 0:
        g.emit("SpaceToDepth", [x], blocksize=2)


def scattered(g: Graph) -> None:
    x = g.value((FLOAT, INT64), (2, 3), lambda one: all(isinstance(size, int) for size in one.shape))
    rows = g.shuffled(x.known(0))
    if g.chance(0.5):
        row = g.emit("Slice", [x, g.constant([0]), g.constant([1])])
        g.emit("ScatterND", [x, g.constant([[rows[0]]]), row])
    elif x.rank == 2:
        g.emit("GatherElements", [x, g.constant([[row] * x.known(1) for row in rows])], axis=0)


def triangle(g: Graph) -> None:
    g.emit("Trilu", [g.value((FLOAT, INT64), (2, 3, 4)), g.constant(g.choose(-1, 0, 1))], upper=g.choose(0, 1))


def shuffle(g: Graph) -> None:
    """Channels of two groups interleaved, as in ShuffleNet."""
    x = g.value(ranks=(4,), fits=lambda one: all(isinstance(size, int) for size in one.shape[1:]))
    channels, height, width = x.known(1), x.known(2), x.known(3)
    if channels % 2:
        raise Unsuitable
    y = g.emit("Reshape", [x, g.constant([-1, 2, channels // 2, height, width])])
    g.emit("Reshape", [g.emit("Transpose", [y], perm=[0, 2, 1, 3, 4]), g.constant([-1, channels, height, width])])


def squeeze_and_excitation(g: Graph) -> None:
    x = g.value(ranks=(4,), fits=lambda one: isinstance(one.shape[1], int) and 0 < one.shape[1] <= MANY_CHANNELS)
    channels = x.known(1)
    y = g.emit("Conv", [g.emit("GlobalAveragePool", [x]), g.weight(channels, channels, 1, 1), g.weight(channels)])
    gate = g.emit(g.choose("Sigmoid", "HardSigmoid", "Relu"), [y])
    g.emit("Mul", [x, gate] if g.chance(0.5) else [gate, x])


KINDS: List[Callable[[Graph], None]] = [
    function,
    with_constant,
    with_number,
    of_two,
    clip,
    integers,
    cast,
    where,
    reduction,
    largest,
    nonzero,
    suppression,
    concat,
    split,
    slices,
    gather,
    transpose,
    reshape,
    singleton,
    expand,
    pad,
    convolution,
    transposed_convolution,
    pool,
    resize,
    normalization,
    product,
    attention,
    recurrent,
    quantised,
    branch,
    loop,
    sums,
    blocks,
    scattered,
    triangle,
    shuffle,
    squeeze_and_excitation,
    bags,
    packed_product,
]
