"""Small ONNX models for tests."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np
import onnx
from onnx import helper, numpy_helper

from exporter import export
from runtime_arm import Predictor

Shape = Optional[Sequence[Union[int, str, None]]]


def value(name: str, shape: Shape = None, dtype: Any = np.float32) -> onnx.ValueInfoProto:
    """A declared input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[Any],
    weights: Optional[Mapping[str, Any]] = None,
    opset: int = 18,
    **more: Any,
) -> onnx.ModelProto:
    """A model; an output is a declared value, or a name without a declared type."""
    declared = [onnx.ValueInfoProto(name=output) if isinstance(output, str) else output for output in outputs]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), declared, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def named(inputs: Sequence[Any]) -> Dict[str, Any]:
    """The inputs of a node by name: a, b, c, ...; None marks an input that is left out."""
    return {name: np.asarray(array) for name, array in zip("abcdefgh", inputs) if array is not None}


def one_node(
    type: str,
    inputs: Sequence[Any],
    opset: int = 18,
    outputs: int = 1,
    constants: Sequence[int] = (),
    shapes: Optional[Sequence[Shape]] = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node with outputs y, z, ...

    constants: the indices of inputs that are initializers. shapes: the declared shapes, if not the inputs' own.
    """
    names = ["" if array is None else name for name, array in zip("abcdefgh", inputs)]
    results = list("yzuvw")[:outputs]
    arrays = named(inputs)
    weights = {names[index]: arrays[names[index]] for index in constants}
    declared = dict(zip(arrays, shapes or [array.shape for array in arrays.values()]))
    given = [value(name, declared[name], array.dtype) for name, array in arrays.items() if name not in weights]
    node = helper.make_node(type, names, results, name=type.lower(), **attributes)
    return model([node], given, results, weights, opset)


def operators(proto: onnx.ModelProto, **options: Any) -> List[str]:
    """The operators of the translated model as text, one per line, without their names."""
    lines = export(proto, **options).predict_net.to_text().splitlines()[1:]
    return [re.sub(r'  name="[^"]*"', "", line) for line in lines]


def types(proto: onnx.ModelProto, **options: Any) -> List[str]:
    """The operator types of the translated model."""
    return [op.full_type for op in export(proto, **options).predict_net.op]


def run(proto: onnx.ModelProto, *inputs: Any, **options: Any) -> List[Any]:
    """The outputs of the translated model."""
    with Predictor(export(proto, **options)) as predictor:
        return list(predictor.run([np.asarray(array) for array in inputs]).values())
