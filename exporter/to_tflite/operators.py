"""What TFLite's schema says about its operators: the table that holds an operator's options, and its version.

Source: TensorFlow Lite's schema.fbs, and its op_version.cc for versions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, List

import numpy as np

from exporter.to_tflite.model import MISSING, Graph, Operation
from runtime_arm.errors import ExportError

SAME, VALID = 0, 1  # Padding
ACTIVATIONS = {None: 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}  # ActivationFunctionType

OPTIONS: Dict[str, str] = {
    "ADD": "AddOptions",
    "ARG_MAX": "ArgMaxOptions",
    "ARG_MIN": "ArgMinOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CAST": "CastOptions",
    "CONCATENATION": "ConcatenationOptions",
    "CONV_2D": "Conv2DOptions",
    "CONV_3D": "Conv3DOptions",
    "CUMSUM": "CumsumOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions",
    "DIV": "DivOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "GATHER": "GatherOptions",
    "GELU": "GeluOptions",
    "IF": "IfOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MIRROR_PAD": "MirrorPadOptions",
    "MUL": "MulOptions",
    "PACK": "PackOptions",
    "REDUCE_MAX": "ReducerOptions",
    "REDUCE_MIN": "ReducerOptions",
    "REDUCE_PROD": "ReducerOptions",
    "RESHAPE": "ReshapeOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "SOFTMAX": "SoftmaxOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions",
    "SPLIT_V": "SplitVOptions",
    "SQUEEZE": "SqueezeOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "SUB": "SubOptions",
    "SUM": "ReducerOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNPACK": "UnpackOptions",
    "WHILE": "WhileOptions",
}
# Operators that can apply an activation to their result. CONCATENATION and L2_NORMALIZATION have the field, too, but
# their kernels want it to be NONE.
FUSING = {
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
    "TRANSPOSE_CONV",
}

_SINCE_INT8 = {
    "ADD": 2,
    "AVERAGE_POOL_2D": 2,
    "CONCATENATION": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "DEQUANTIZE": 2,
    "FULLY_CONNECTED": 4,
    "LOGISTIC": 2,
    "MAX_POOL_2D": 2,
    "MEAN": 2,
    "MUL": 2,
    "PAD": 2,
    "QUANTIZE": 1,
    "RESIZE_BILINEAR": 2,
    "RESIZE_NEAREST_NEIGHBOR": 2,
    "SOFTMAX": 2,
    "SUB": 2,
    "TANH": 2,
    "TRANSPOSE": 2,
}


def version_of(operation: Operation, graph: Graph) -> int:
    """The version of the operator that has what this operation needs."""
    operands = [graph.tensors[number] for number in (*operation.inputs, *operation.outputs) if number != MISSING]
    type, int8 = operation.type, any(tensor.dtype == np.int8 and tensor.value is None for tensor in operands)
    version = _SINCE_INT8.get(type, 1) if int8 else 1
    if type == "BROADCAST_TO":
        version = 2
    if type == "TRANSPOSE_CONV" and len(operation.inputs) == 4:
        version = max(version, 3)
    if type in ("CONV_2D", "DEPTHWISE_CONV_2D") and any(
        operation.options.get(name, 1) != 1 for name in ("DilationHFactor", "DilationWFactor")
    ):
        version = max(version, 2)
    if type in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR") and operation.options.get("HalfPixelCenters"):
        version = 3
    return version


def require_kernels(graph: Graph) -> None:
    """ExportError if TFLite's kernels do not compute with the types or sizes of an operation."""
    for operation in graph.operations:
        tensors = [graph.tensors[number] for number in (*operation.inputs, *operation.outputs) if number != MISSING]
        result = graph.tensors[operation.outputs[0]]
        kinds = {tensor.dtype for tensor in tensors if tensor.value is None}
        if np.dtype(np.float64) in kinds and operation.type != "CAST":
            raise ExportError(f"TFLite's {operation.type} does not compute with float64 numbers ({result.name!r})")
        if operation.type == "DIV" and np.dtype(np.int64) in kinds:
            raise ExportError(f"TFLite's DIV does not compute with int64 numbers ({result.name!r})")
        if any(0 in tensor.shape for tensor in (graph.tensors[operation.inputs[0]], result)):
            raise ExportError(f"TFLite's {operation.type} does not take tensors without elements ({result.name!r})")


@lru_cache(None)
def fields_of(type: str) -> List[str]:
    """The names of the option fields of a built-in operator."""
    import tflite

    table = OPTIONS.get(type)
    return [name[len(table) + 3 :] for name in dir(tflite) if table and name.startswith(f"{table}Add")]
