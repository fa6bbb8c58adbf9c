"""Models for the checks of onnxruntime's interface."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FLOAT = 1  # onnx.TensorProto.FLOAT
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def _value(helper: Any, name: str, dims: Any, kind: int = FLOAT, denotations: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, dims, shape_denotation=denotations)


def _saved(helper: Any, path: Path, nodes: Any, inputs: Any, outputs: Any, weights: Any = (), **about: Any) -> Any:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, list(weights))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, **about)
    path.write_bytes(model.SerializeToString())
    return model


@pytest.fixture(scope="session")
def interface_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``scripts/onnx_interface.py`` describes."""
    onnx = pytest.importorskip("onnx", reason="the models of the checks are written with onnx")
    from onnx import helper

    value, saved = partial(_value, helper), partial(_saved, helper)
    folder = tmp_path_factory.mktemp("models")
    about = {"producer_name": "tests", "domain": "org.example", "model_version": 7, "doc_string": "a model"}
    weight = onnx.numpy_helper.from_array(X, "W")
    product = [helper.make_node("Mul", ["X", "W"], ["Y"], name="product")]
    edges = [value("X", [3, 2])], [value("Y", [3, 2])]
    model = saved(folder / "mul.onnx", product, *edges, [weight], **about)
    helper.set_model_props(model, {"key": "value"})
    (folder / "mul.onnx").write_bytes(model.SerializeToString())
    options = {"inter_op_num_threads": 5, "intra_op_num_threads": 2, "enable_profiling": 1}
    helper.set_model_props(model, {"ort_config": json.dumps({"session_options": options})})
    (folder / "config.onnx").write_bytes(model.SerializeToString())
    outside = onnx.TensorProto(name="W", data_type=FLOAT, dims=[3, 2], data_location=1)
    outside.external_data.add(key="location", value="weights.bin")
    saved(folder / "outside.onnx", product, *edges, [outside])
    words = [value(name, [2, 2], onnx.TensorProto.STRING) for name in ("input:0", "output:0")]
    saved(folder / "text.onnx", [helper.make_node("Identity", ["input:0"], ["output:0"])], words[:1], words[1:])
    open_sizes = ["Dim1", "Dim2", 5]
    x = value("x", open_sizes, denotations=["DATA_BATCH", "DATA_CHANNEL", ""])
    saved(folder / "free.onnx", [helper.make_node("Abs", ["x"], ["y"])], [x], [value("y", open_sizes)])
    ten = onnx.numpy_helper.from_array(np.float32(10), "ten")
    passed = value("x", [1, 2])
    adding = [helper.make_node("Add", ["x", "ten"], ["more"])]
    saved(folder / "passed.onnx", adding, [passed], [value("more", [1, 2]), passed], [ten])
    classify = helper.make_node(
        "LinearClassifier",
        ["X"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[1.0, 0.0, 0.0, 1.0],
        intercepts=[0.0, 0.0],
        classlabels_ints=[3, 5],
        post_transform="SOFTMAX",
    )
    zipped = helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[3, 5])
    scores = helper.make_map_type_proto(onnx.TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(scores))
    label = value("label", [None], onnx.TensorProto.INT64)
    saved(folder / "maps.onnx", [classify, zipped], [value("X", [None, 2])], [label, maps])
    summands = [value("a", ["m"]), value("b", ["n"])]
    saved(folder / "sum.onnx", [helper.make_node("Add", ["a", "b"], ["y"])], summands, [value("y", ["k"])])
    return folder
