"""Commands that draw inputs at random, for nets whose integers must be small: indices into tables, lengths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import pytest

from tests.support.commands import Armnet

onnx = pytest.importorskip("onnx", reason="the models are written with onnx")

Model = Tuple[str, Dict[str, Any], Dict[str, Tuple[Any, Tuple[int, ...]]]]  # a node, weights, inputs

RNG = np.random.default_rng(0)
FLOAT, LONG, INT = np.float32, np.int64, np.int32
MODELS: Dict[str, Model] = {
    "an embedding of 3 rows": (
        "Gather table i",
        {"table": RNG.standard_normal((3, 8), FLOAT)},
        {"i": (LONG, (1, 12))},
    ),
    "columns of a table": (
        "GatherElements table i",
        {"table": RNG.standard_normal((4, 5), FLOAT)},
        {"i": (INT, (4, 40))},
    ),
    "one-hot": (
        "OneHot i depth values",
        {"depth": np.asarray(7), "values": np.asarray([0, 1], FLOAT)},
        {"i": (LONG, (2, 9))},
    ),
    "a cross-attention with lengths": (
        "Attention q k v - - - lengths",
        {},
        {
            "q": (FLOAT, (2, 4, 6, 8)),
            "k": (FLOAT, (2, 4, 2, 8)),
            "v": (FLOAT, (2, 4, 2, 8)),
            "lengths": (LONG, (2,)),
        },
    ),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    text, weights, inputs = MODELS[request.param]
    kind, *names = text.split()
    attributes = {"axis": 1} if kind == "GatherElements" else {}
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node(kind, ["" if name == "-" else name for name in names], ["a"], **attributes),
            helper.make_node("Relu", ["a"], ["y"]),
        ],
        "net",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for name, (dtype, shape) in inputs.items()
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), path)
    return path


def test_every_command_finds_inputs_that_the_net_takes(armnet: Armnet, model: Path, tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    assert armnet("export", model, "-o", pair)[0] == 0
    for words in (
        ["optimize", pair, "-o", tmp_path / "fast", "--engines", "measure", "--threads", 1, "--paranoid"],
        ["optimize", pair, "-o", tmp_path / "exact", "--accuracy", 1e-6],
        ["bench", pair, "--threads", 1, "--runs", 1],
        ["profile", pair, "--threads", 1, "--rounds", 1],
        ["pack", pair, "-o", tmp_path / "net.pyz"],
    ):
        status, _, err = armnet(*words)
        assert status == 0, (words, err)
        assert "not known" not in err


def test_the_runtime_of_the_original_takes_them_too(armnet: Armnet, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    assert armnet("export", model, "-o", tmp_path / "pair")[0] == 0
    status, out, err = armnet("compare", model, tmp_path / "pair", "--json")
    assert status == 0, err
    assert json.loads(out)["blobs"] == 2
