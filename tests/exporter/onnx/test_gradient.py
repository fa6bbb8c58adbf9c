"""ONNX's Gradient: against differences of the forward pass; its two models are in test_backend.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from device_tests.suite.tolerance import assert_each_close
from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import value

TRAINING = "ai.onnx.preview.training"


def with_gradient(nodes: Any, xs: Any, zs: Any, y: str, inputs: Any = None) -> onnx.ModelProto:
    outputs = [f"of_{x}" for x in xs]
    attributes = {"zs": zs} if zs else {}
    last = helper.make_node("Gradient", inputs or [*xs, *zs], outputs, domain=TRAINING, xs=xs, y=y, **attributes)
    graph = helper.make_graph(
        [*nodes, last],
        "graph",
        [value("a", [3, 4]), value("b", [4, 2])],
        [value(name, None) for name in (y, *outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)])


LAYERS = [
    helper.make_node("MatMul", ["a", "b"], ["p"]),
    helper.make_node("Tanh", ["p"], ["t"]),
    helper.make_node("Mul", ["t", "t"], ["s"]),
]


def test_gradients_are_those_of_differences() -> None:
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("a", (3, 4)), ("b", (4, 2)))}
    with Predictor(export(with_gradient(LAYERS, ["a", "b"], [], "s"))) as predictor:
        found = predictor.run(feeds)

    def total(changed: Any) -> float:
        return float((np.tanh(changed["a"].astype(np.float64) @ changed["b"]) ** 2).sum())

    for name, x in feeds.items():
        for place in np.ndindex(*x.shape):
            shifts = []
            for shift in (1e-4, -1e-4):
                moved = x.astype(np.float64)
                moved[place] += shift
                shifts.append(total({**feeds, name: moved}))
            assert found[f"of_{name}"][place] == pytest.approx((shifts[0] - shifts[1]) / 2e-4, abs=1e-4)  # differences


def test_what_zs_names_stays_constant() -> None:
    with Predictor(export(with_gradient(LAYERS, ["p"], [], "s"))) as predictor:
        feeds = {"a": np.ones((3, 4), np.float32), "b": np.full((4, 2), 0.1, np.float32)}
        wanted = np.full((3, 2), 2 * np.tanh(0.4) * (1 - np.tanh(0.4) ** 2))
        assert_each_close(predictor.run(feeds)["of_p"], wanted, terms=4)


def test_what_has_no_gradient_is_named() -> None:
    with pytest.raises(ExportError, match="'t' has no gradient with respect to a"):
        export(with_gradient(LAYERS, ["a"], ["p"], "t"))
    with pytest.raises(ExportError, match="the inputs must be the blobs that xs and zs name"):
        export(with_gradient(LAYERS, ["a"], [], "t", ["b"]))
    with pytest.raises(ExportError, match="no operator of this graph makes 'a'"):
        export(with_gradient(LAYERS, ["b"], [], "a"))
