"""Single ONNX nodes: the cases of ONNX's backend suite, and one-node models run in onnxruntime as a reference.

Without onnx there are no cases; without onnx or onnxruntime a test that calls ``onnxruntime_outputs`` is skipped.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Sequence

import numpy as np
import pytest

from runtime_arm.netdef import OperatorDef
from runtime_arm.netdef.dtypes import number_of
from runtime_arm.registry.schema import registered

if TYPE_CHECKING:
    import onnx

DATA_TYPES = "FLOAT DOUBLE FLOAT16 BOOL STRING INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"
ML_OPSET = 3  # of ai.onnx.ml; opset 5 defines the tree operators differently
DTYPE_ATTRIBUTES = ("dtype", "output_dtype", "output_datatype", "precision", "to")


class NodeCase(NamedTuple):
    """One node with its inputs and expected outputs."""

    name: str
    op: OperatorDef
    inputs: List[Any]
    outputs: List[Any]


def node_cases(*types: str) -> List[Any]:
    """Parameters for pytest: the NodeCases of these operators, by default of all operators of the runtime.

    Only cases of one node without sub-nets whose data types the runtime has.
    """
    if find_spec("onnx") is None:
        return []
    known = {(schema.domain, schema.type) for schema in registered()}
    cases = [
        case for case in _all_cases() if (case.op.type in types if types else (case.op.domain, case.op.type) in known)
    ]
    assert not set(types) - {case.op.type for case in cases}, f"no cases of some of {types}"
    return [pytest.param(case, id=f"{case.op.full_type}-{case.name[len('test_') :]}") for case in cases]


@cache
def node_tests() -> List[Any]:
    """The node tests of ONNX's backend suite, each with its model and data."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in collect_testcases(None) if case.model is not None]


@cache
def _all_cases() -> List[NodeCase]:
    found = []
    for case in node_tests():
        node = case.model.graph.node[0]
        if len(case.model.graph.node) > 1 or any(attribute.HasField("g") for attribute in node.attribute):
            continue
        for inputs, outputs in case.data_sets:
            if all(map(_is_supported, [*inputs, *outputs])):
                operands = iter(inputs)
                given = [_array(next(operands)) if name else None for name in node.input]
                found.append(NodeCase(case.name, operator_of(node), given, [_array(y) for y in outputs]))
    return found


def _is_supported(value: Any) -> bool:
    """Whether a recorded operand is a tensor whose data type the runtime has: no bfloat16, no 4-bit or 8-bit floats."""
    import onnx

    types = {onnx.TensorProto.DataType.Value(name) for name in DATA_TYPES.split()}
    if isinstance(value, onnx.TensorProto):
        return value.data_type in types
    return isinstance(value, (np.ndarray, np.generic)) and number_of(value.dtype) is not None


def _array(value: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    if array.dtype.kind not in "OSU":
        return array
    texts = np.empty(array.shape, object)
    texts.reshape(-1)[:] = [text.encode() if isinstance(text, str) else text for text in array.reshape(-1)]
    return texts


def operator_of(node: onnx.NodeProto) -> OperatorDef:
    """The node as an operator in its own domain."""
    from onnx import helper

    arguments: Dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    arguments.update((a.name, _array(a.t)) for a in node.attribute if a.HasField("t"))
    for name in DTYPE_ATTRIBUTES:
        if name in arguments:
            arguments[name] = number_of(helper.tensor_dtype_to_np_dtype(arguments[name]))
    return OperatorDef.of(node.op_type, node.input, node.output, domain=node.domain or "onnx", **arguments)


def onnxruntime_outputs(op: OperatorDef, inputs: Sequence[Any], outputs: Sequence[Any], opset: int = 21) -> List[Any]:
    """The results of the operator in onnxruntime; ``outputs`` are the dtypes. Inputs that are None are left out."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to compare with")
    helper = pytest.importorskip("onnx.helper", reason="onnx is not installed to compare with")
    from onnx import numpy_helper

    domain = "" if op.domain == "onnx" else op.domain
    attributes: Dict[str, Any] = {}
    for arg in op.arg:
        value = getattr(arg, arg.kind) if arg.kind else []
        attributes[arg.name] = value.tolist() if isinstance(value, np.ndarray) else value
    node = helper.make_node(op.type, op.input, op.output, domain=domain, **attributes)
    fed = {name: value for name, value in zip(op.input, inputs) if value is not None}
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in list(fed.items())[1:]]
    first = next(iter(fed))
    typed = [helper.make_tensor_value_info(first, helper.np_dtype_to_tensor_dtype(fed[first].dtype), fed[first].shape)]
    results = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
        for name, dtype in zip(op.output, outputs)
    ]
    graph = helper.make_graph([node], "one_node", typed, results, constants)
    opsets = [
        helper.make_opsetid("", opset),
        helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("ai.onnx.ml", ML_OPSET),
    ]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {first: fed[first]}))
