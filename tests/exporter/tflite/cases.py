"""TFLite operators as models of one operator each, which tests compare with LiteRT's reference kernels.

A case builds a model and gives its inputs by name. Several cases of one operator have different names behind a colon.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from tests.support.tflite_models import TYPES, Model

Case = Tuple[bytes, Dict[str, Any]]
CASES: Dict[str, Callable[[], Case]] = {}


def case(
    name: str,
    inputs: Sequence[Any],
    options: str = "",
    *,
    outputs: int = 1,
    dtypes: Sequence[str] = (),
    signature: bool = False,
    **fields: Any,
) -> None:
    """One operator ``name`` with inputs: an array is fed, an array in a list is a constant, None is left out.

    dtypes: of the outputs, by default that of the first input. signature: the first dimension of fed inputs is open.
    """

    def build() -> Case:
        model, feeds, indices = Model(), {}, []
        for position, given in enumerate(inputs):
            if given is None:
                indices.append(-1)
            elif isinstance(given, list):
                indices.append(model.constant(f"c{position}", given[0]))
            else:
                array = np.asarray(given)
                array = array.astype(np.float32) if array.dtype == np.float64 else array
                more = {"signature": (-1, *array.shape[1:])} if signature else {}
                indices.append(model.input(f"x{position}", array.shape, array.dtype.name, **more))
                feeds[f"x{position}"] = array
        first = next(iter(feeds.values())).dtype.name if feeds else "float32"
        results = [
            model.tensor(f"y{i}", dtype=(dtypes or [first])[i if i < len(dtypes) else -1]) for i in range(outputs)
        ]
        model.operator(name.split(":")[0], indices, results, options, **fields)
        return model.to_bytes(results), feeds

    if name in CASES:
        raise RuntimeError(f"two cases {name}")
    CASES[name] = build


_rng = np.random.default_rng(20)


def floats(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Any:
    return (np.abs(floats(*shape)) + 0.1).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Any:
    return _rng.integers(low, high, shape).astype(dtype)


def flags(*shape: int) -> Any:
    return _rng.random(shape) < 0.5


def i32(*values: Any) -> List[Any]:
    """A constant vector."""
    return [np.array(values, np.int32)]


def scalar(value: int) -> List[Any]:
    return [np.array(value, np.int32)]


PICTURE = (2, 7, 6, 4)

# Elementwise, one input
for _name in (
    "ABS",
    "CEIL",
    "COS",
    "ELU",
    "EXP",
    "FLOOR",
    "HARD_SWISH",
    "LOGISTIC",
    "NEG",
    "RELU",
    "RELU6",
    "RELU_0_TO_1",
    "RELU_N1_TO_1",
    "ROUND",
    "SIGN",
    "SIN",
    "SQUARE",
    "TANH",
):
    case(_name, [3 * floats(*PICTURE)])
for _name in ("LOG", "RSQRT", "SQRT"):
    case(_name, [positive(*PICTURE)])
case("SIGN:nan", [np.array([-np.inf, -2, 0, np.nan, 3], np.float32)])
case("LOGICAL_NOT", [flags(3, 4)])
case("LEAKY_RELU", [floats(3, 4)], "LeakyReluOptions", Alpha=0.3)
case("GELU", [floats(3, 4)], "GeluOptions", Approximate=False)
case("GELU:approximate", [floats(3, 4)], "GeluOptions", Approximate=True)
case("ABS:int32", [integers(-9, 9, 5)])
case("NEG:int32", [integers(-9, 9, 5)])
case("SQUARE:channels", [floats(3, 4)])
case("PRELU", [floats(*PICTURE), [floats(1, 1, 4)]])
case("PRELU:one", [floats(*PICTURE), [floats(1, 1, 1)]])
case("PRELU:pixels", [floats(*PICTURE), [floats(7, 6, 4)]])

# Elementwise, two inputs
for _name, _options in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
    case(_name, [floats(*PICTURE), positive(*PICTURE)], _options)
    case(f"{_name}:channels", [floats(*PICTURE), [positive(4)]], _options, FusedActivationFunction=1)
    case(f"{_name}:broadcast", [floats(2, 1, 6, 4), positive(7, 1, 4)], _options, FusedActivationFunction=3)
    case(f"{_name}:int32", [integers(-50, 50, 3, 4), integers(1, 9, 3, 4)], _options)
    for _activation in (1, 2, 3):
        _given = [integers(-50, 50, 3, 4), integers(1, 9, 3, 4)]
        case(f"{_name}:int32_activation_{_activation}", _given, _options, FusedActivationFunction=_activation)
for _name in (
    "MAXIMUM",
    "MINIMUM",
    "SQUARED_DIFFERENCE",
    "EQUAL",
    "NOT_EQUAL",
    "LESS",
    "LESS_EQUAL",
    "GREATER",
    "GREATER_EQUAL",
):
    _result = ["bool"] if _name[:4] in ("EQUA", "NOT_", "LESS", "GREA") else []
    case(_name, [floats(3, 4), floats(3, 4)], dtypes=_result)
    case(f"{_name}:int32", [integers(-3, 3, 3, 4), integers(-3, 3, 4)], dtypes=_result)
case("POW", [positive(3, 4), floats(3, 4)])
case("POW:int32", [integers(-3, 4, 3, 4), integers(0, 4, 3, 4)])
case("LOGICAL_AND", [flags(9), flags(9)])
case("LOGICAL_OR", [flags(9), flags(9)])
case("FLOOR_DIV", [5 * floats(3, 4), floats(3, 4)])
case("FLOOR_DIV:int32", [integers(-50, 50, 3, 4), [np.array([-7, 3, 5, -2], np.int32)]])
case("FLOOR_MOD", [5 * floats(3, 4), floats(3, 4)])
case("FLOOR_MOD:int32", [integers(-50, 50, 3, 4), [np.array([-7, 3, 5, -2], np.int32)]])
case("ATAN2", [floats(3, 4), floats(3, 4)])
case("BITWISE_XOR", [integers(-50, 50, 3, 4), integers(-50, 50, 3, 4)])
case("RIGHT_SHIFT", [integers(-500, 500, 3, 4), integers(0, 9, 3, 4)])
case("ADD_N", [floats(3, 4), floats(3, 4), floats(3, 4)])
case("CAST", [5 * floats(3, 4)], "CastOptions", dtypes=["int32"], InDataType=0, OutDataType=2)
for _to in ("int8", "uint8", "int16"):
    _beyond = [20000 * floats(3, 40)]
    case(f"CAST:beyond_{_to}", _beyond, "CastOptions", dtypes=[_to], InDataType=0, OutDataType=TYPES[_to])
case("CAST:from_bool", [flags(9)], "CastOptions", dtypes=["float32"], InDataType=6, OutDataType=0)
case(
    "CAST:from_uint8",
    [integers(0, 255, 9, dtype="uint8")],
    "CastOptions",
    dtypes=["float32"],
    InDataType=3,
    OutDataType=0,
)
case("BITCAST", [floats(3, 4)], "BitcastOptions", dtypes=["int32"])
case("FAKE_QUANT", [3 * floats(3, 4)], "FakeQuantOptions", Min=-1.3, Max=2.1, NumBits=8)
case("FAKE_QUANT:few_bits", [3 * floats(3, 4)], "FakeQuantOptions", Min=-1.3, Max=2.1, NumBits=4)

# Convolutions and pools
for _padding in (0, 1):
    _suffix = ":valid" if _padding else ":same"
    case(
        f"CONV_2D{_suffix}",
        [floats(*PICTURE), [floats(5, 3, 3, 4)], [floats(5)]],
        "Conv2DOptions",
        Padding=_padding,
        StrideW=1,
        StrideH=2,
        FusedActivationFunction=1,
    )
    case(
        f"CONV_2D{_suffix}_dilated",
        [floats(1, 9, 9, 4), [floats(5, 3, 2, 4)], [floats(5)]],
        "Conv2DOptions",
        Padding=_padding,
        StrideW=1,
        StrideH=1,
        DilationWFactor=2,
        DilationHFactor=3,
    )
    case(
        f"DEPTHWISE_CONV_2D{_suffix}",
        [floats(*PICTURE), [floats(1, 3, 3, 4)], [floats(4)]],
        "DepthwiseConv2DOptions",
        Padding=_padding,
        StrideW=2,
        StrideH=2,
        DepthMultiplier=1,
        FusedActivationFunction=3,
    )
    case(
        f"DEPTHWISE_CONV_2D{_suffix}_multiplied",
        [floats(*PICTURE), [floats(1, 3, 2, 12)], [floats(12)]],
        "DepthwiseConv2DOptions",
        Padding=_padding,
        StrideW=1,
        StrideH=1,
        DepthMultiplier=3,
    )
    case(
        f"CONV_3D{_suffix}",
        [floats(1, 5, 6, 4, 3), [floats(2, 3, 2, 3, 4)], [floats(4)]],
        "Conv3DOptions",
        Padding=_padding,
        StrideD=1,
        StrideW=2,
        StrideH=1,
    )
    for _name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        case(
            f"{_name}{_suffix}",
            [floats(*PICTURE)],
            "Pool2DOptions",
            Padding=_padding,
            StrideW=2,
            StrideH=2,
            FilterWidth=3,
            FilterHeight=2,
        )
    case(
        f"TRANSPOSE_CONV{_suffix}",
        [i32(1, 8 + _padding, 10 + _padding, 5), [floats(5, 3, 3, 4)], floats(1, 4, 5, 4), [floats(5)]],
        "TransposeConvOptions",
        Padding=_padding,
        StrideW=2,
        StrideH=2,
    )
case(
    "CONV_2D:groups",
    [floats(*PICTURE), [floats(6, 3, 3, 2)], [floats(6)]],
    "Conv2DOptions",
    Padding=0,
    StrideW=1,
    StrideH=1,
)
case(
    "CONV_2D:batch",
    [floats(3, 7, 6, 4), [floats(5, 3, 3, 4)], [floats(5)]],
    "Conv2DOptions",
    Padding=0,
    StrideW=2,
    StrideH=2,
    signature=True,
)
case(
    "CONV_2D:computed",
    [floats(*PICTURE), floats(5, 3, 3, 4), floats(5)],
    "Conv2DOptions",
    Padding=0,
    StrideW=1,
    StrideH=1,
)
case(
    "TRANSPOSE_CONV:odd",
    [i32(1, 7, 9, 5), [floats(5, 3, 3, 4)], floats(1, 4, 5, 4)],
    "TransposeConvOptions",
    Padding=0,
    StrideW=2,
    StrideH=2,
)
case(
    "CONV_3D_TRANSPOSE",
    [i32(1, 4, 8, 10, 5), [floats(2, 3, 3, 5, 4)], floats(1, 2, 4, 5, 4)],
    "Conv3DOptions",
    Padding=0,
    StrideD=2,
    StrideW=2,
    StrideH=2,
)

# Linear
case("FULLY_CONNECTED", [floats(3, 8), [floats(5, 8)], [floats(5)]], "FullyConnectedOptions", FusedActivationFunction=1)
case("FULLY_CONNECTED:no_bias", [floats(3, 8), [floats(5, 8)], None], "FullyConnectedOptions")
case("FULLY_CONNECTED:flattened", [floats(3, 2, 4), [floats(5, 8)], [floats(5)]], "FullyConnectedOptions")
case("FULLY_CONNECTED:kept", [floats(3, 2, 8), [floats(5, 8)], [floats(5)]], "FullyConnectedOptions", KeepNumDims=True)
case("BATCH_MATMUL", [floats(2, 3, 4), floats(2, 4, 5)], "BatchMatMulOptions")
case("BATCH_MATMUL:transposed", [floats(2, 4, 3), floats(1, 5, 4)], "BatchMatMulOptions", AdjX=True, AdjY=True)

# Normalisations
case("SOFTMAX", [floats(3, 8)], "SoftmaxOptions", Beta=1.0)
case("SOFTMAX:beta", [floats(2, 3, 8)], "SoftmaxOptions", Beta=0.5)
case("LOG_SOFTMAX", [floats(3, 8)])
case("L2_NORMALIZATION", [floats(3, 8)], "L2NormOptions")
case(
    "LOCAL_RESPONSE_NORMALIZATION",
    [floats(1, 3, 3, 9)],
    "LocalResponseNormalizationOptions",
    Radius=2,
    Bias=1.5,
    Alpha=0.3,
    Beta=0.75,
)

# Resizing
for _name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
    _options = "ResizeBilinearOptions" if _name == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    for _sizes in ((14, 12), (5, 9), (3, 3)):
        _suffix = f"{_sizes[0]}x{_sizes[1]}"
        case(f"{_name}:{_suffix}", [floats(*PICTURE), i32(*_sizes)], _options)
        case(f"{_name}:{_suffix}_corners", [floats(*PICTURE), i32(*_sizes)], _options, AlignCorners=True)
        case(f"{_name}:{_suffix}_halves", [floats(*PICTURE), i32(*_sizes)], _options, HalfPixelCenters=True)

# Reductions
for _name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
    case(f"{_name}:pixels", [floats(*PICTURE), i32(1, 2)], "ReducerOptions")
    case(f"{_name}:kept", [floats(*PICTURE), i32(-1)], "ReducerOptions", KeepDims=True)
    case(f"{_name}:int32", [integers(-5, 6, 3, 4), i32(0)], "ReducerOptions")
case("REDUCE_ALL", [flags(3, 4), i32(1)], "ReducerOptions")
case("REDUCE_ANY", [flags(3, 4), i32(0)], "ReducerOptions", KeepDims=True)
case("CUMSUM", [floats(3, 4), scalar(1)], "CumsumOptions")
case("CUMSUM:exclusive", [floats(3, 4), scalar(0)], "CumsumOptions", Exclusive=True, Reverse=True)
case("ARG_MAX", [floats(3, 4, 5), scalar(-1)], "ArgMaxOptions", dtypes=["int32"], OutputType=2)
case("ARG_MIN", [floats(3, 4, 5), scalar(1)], "ArgMinOptions", dtypes=["int64"], OutputType=4)
