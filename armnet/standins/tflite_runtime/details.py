"""What an interpreter says about tensors and operators, in TensorFlow Lite's dictionaries."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np

from exporter.tflite.flatbuffer import Table
from exporter.tflite.reader import Graph, Tensor
from runtime_arm.netdef import Array

_INDICES = {1: ("Int32Vector", "i4"), 2: ("Uint16Vector", "u2"), 3: ("Uint8Vector", "u1")}


def tensor_details(tensor: Tensor, shape: Sequence[int]) -> Dict[str, Any]:
    """Name, index, present shape, dtype, quantisation and sparsity of a tensor. ValueError for a type that has no
    dtype."""
    dtype = numpy_type(tensor)
    if dtype is None:
        raise ValueError(f"tensor {tensor.name!r} has the type {tensor.type}, which armnet does not have")
    table = tensor.quantization
    scales = np.empty(0, np.float32) if table is None else table.vector("scale", "f4").astype(np.float32)
    zeros = np.empty(0, np.int32) if table is None or not scales.size else table.vector("zero_point", "i8")
    if scales.size and not zeros.size:
        zeros = np.zeros(scales.size, np.int32)
    is_open = None in tensor.dims
    signature = [-1 if dim is None else dim for dim in tensor.dims] if is_open else list(shape)
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": dtype,
        "quantization": (float(scales[0]), int(zeros[0])) if scales.size == 1 else (0.0, 0),
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zeros.astype(np.int32),
            "quantized_dimension": 0 if table is None else table.integer("quantized_dimension"),
            "block_size": 0,
        },
        "sparsity_parameters": {} if tensor.sparsity is None else _sparsity(tensor.sparsity),
    }


def numpy_type(tensor: Tensor) -> Optional[type]:
    """NumPy's scalar type of a tensor's elements; None if it has none."""
    if tensor.type == "STRING":
        return np.bytes_
    return None if tensor.dtype is None else tensor.dtype.type


def _sparsity(table: Table) -> Dict[str, Any]:
    return {
        "traversal_order": np.array(table.integers("traversal_order"), np.int32),
        "block_map": np.array(table.integers("block_map"), np.int32),
        "dim_metadata": [_dimension(one) for one in table.tables("dim_metadata", "DimensionMetadata")],
    }


def _dimension(table: Table) -> Dict[str, Any]:
    kind = table.integer("format")
    if not kind:
        return {"format": 0, "dense_size": table.integer("dense_size")}
    return {
        "format": kind,
        "array_segments": _indices(table, "array_segments"),
        "array_indices": _indices(table, "array_indices"),
    }


def _indices(table: Table, field: str) -> Array:
    name, dtype = _INDICES.get(table.integer(f"{field}_type"), ("", ""))
    found = table.table(field, name) if name else None
    return np.empty(0, np.int32) if found is None else found.vector("values", dtype)


def operation_details(graph: Graph, index: int) -> Dict[str, Any]:
    """Name, tensors and dtypes of an operator. ValueError if there is no such operator."""
    if not 0 <= index < len(graph.operations):
        raise ValueError(f"Invalid node index {index}: there are {len(graph.operations)} operators")
    operation = graph.operations[index]
    inputs = [-1 if at is None else at for at in operation.inputs]

    def types(indices: Sequence[int]) -> list[Any]:
        return [numpy_type(graph.tensors[at]) for at in indices if at != -1]

    return {
        "index": index,
        "op_name": operation.custom or operation.type,
        "inputs": np.array(inputs, np.int32),
        "outputs": np.array(operation.outputs, np.int32),
        "operand_types": types(inputs),
        "result_types": types(operation.outputs),
    }
