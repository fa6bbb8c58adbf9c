"""Single ONNX nodes: the cases of ONNX's own backend test, and one-node models run by onnxruntime as a witness.

Where onnx is not installed there are no cases, and what asks the witness is skipped from there on.
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

if TYPE_CHECKING:
    import onnx

DTYPE_ATTRIBUTES = ("dtype", "output_dtype", "output_datatype", "precision", "to")


class NodeCase(NamedTuple):
    """One node with what it is fed and what it should compute."""

    name: str
    op: OperatorDef
    inputs: List[Any]
    outputs: List[Any]


@cache
def _backend_cases() -> List[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(collect_testcases(None))


def node_cases(*types: str, without: Sequence[str] = ()) -> List[NodeCase]:
    """The backend test's one-node cases of these types, but for those whose names contain one of ``without``."""
    if find_spec("onnx") is None:
        return []
    found = []
    for case in _backend_cases():
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in types and not any(word in case.name for word in without):
            for inputs, outputs in case.data_sets:
                operands = iter(inputs)
                given = [_array(next(operands)) if name else None for name in nodes[0].input]
                found.append(NodeCase(case.name, operator_of(nodes[0]), given, [_array(y) for y in outputs]))
    assert {case.op.type for case in found} == set(types), f"no cases of some of {types}"
    return found


def _array(value: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def operator_of(node: onnx.NodeProto) -> OperatorDef:
    """The node as an operator of its own domain."""
    from onnx import helper

    arguments: Dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    arguments.update((a.name, _array(a.t)) for a in node.attribute if a.HasField("t"))
    for name in DTYPE_ATTRIBUTES:
        if name in arguments:
            arguments[name] = number_of(helper.tensor_dtype_to_np_dtype(arguments[name]))
    return OperatorDef.of(node.op_type, node.input, node.output, domain=node.domain or "onnx", **arguments)


def witness(op: OperatorDef, inputs: Sequence[Any], outputs: Sequence[Any], opset: int = 21) -> List[Any]:
    """What onnxruntime computes for the operator; ``outputs`` are the dtypes. Inputs that are None are left out."""
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
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {first: fed[first]}))
