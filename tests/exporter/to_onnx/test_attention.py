"""Attention that the optimizer has made is decomposed in formats that lack it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter.to_tflite.export import translated
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers
from tests.support.operands import random

pytest.importorskip("onnx", reason="writing ONNX needs the package onnx")
pytest.importorskip("onnxruntime", reason="the models are run by onnxruntime")

from exporter.to_onnx.export import to_onnx
from tests.exporter.to_onnx.test_export import run

FLAT = {"q": (2, 5, 12), "k": (2, 7, 12), "v": (2, 7, 18)}
APART = {"q": (2, 3, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 6)}
HEADS = {"q_num_heads": 3, "kv_num_heads": 3}


def pair_of(shapes: Dict[str, Sequence[int]], mask: Optional[Any] = None, **arguments: Any) -> Pair:
    names = [*shapes] if mask is None else [*shapes, "mask"]
    op = OperatorDef.of("Attention", names, ["y"], domain="onnx", **arguments)
    given = dict(shapes) if mask is None else {**shapes, "mask": mask.shape}
    infos = tuple(
        TensorInfo(name, tuple(shape), "float32" if name != "mask" or mask is None else mask.dtype.name)
        for name, shape in given.items()
    )
    return Pair(NetDef("init"), NetDef("net", (op,), tuple(names), ("y",)), infos).check()


def feeds_of(pair: Pair, mask: Optional[Any]) -> Dict[str, Any]:
    feeds = {info.name: random(info.shape or (), seed) for seed, info in enumerate(pair.inputs)}
    return feeds if mask is None else {**feeds, "mask": mask}


def types(model: Any) -> List[str]:
    return sorted({node.op_type for node in model.graph.node})


@pytest.mark.parametrize(("shapes", "heads"), [(FLAT, HEADS), (APART, {})], ids=["flat", "apart"])
@pytest.mark.parametrize("mask", [None, random((5, 7), 9), random((2, 1, 1, 7), 9)], ids=["plain", "matrix", "row"])
def test_plain_attention_is_spelled_out(shapes: Any, heads: Dict[str, int], mask: Any) -> None:
    pair = pair_of(shapes, mask, scale=0.5, **heads)
    feeds = feeds_of(pair, mask)
    expected, model = numbers(pair, feeds)["y"], to_onnx(pair)
    assert "Attention" not in types(model)
    assert "Softmax" in types(model)
    assert_close(run(model, feeds)[0], expected, terms=256, magnitude=4)
    written = pytest.importorskip("tests.exporter.to_tflite.written", reason="the files are run by LiteRT")
    assert_close(written.run_written(pair, feeds)[1]["y"], expected, terms=256, magnitude=4)


@pytest.mark.parametrize(
    ("mask", "arguments"),
    [
        (None, {"is_causal": 1, "scale": 0.5}),
        (None, {}),
        (random((5, 4), 9), {"scale": 0.5}),
        (np.eye(5, 7, dtype=bool), {"scale": 0.5}),
    ],
    ids=["causal", "own scale", "short mask", "bools"],
)
def test_other_attention_stays(mask: Any, arguments: Dict[str, Any]) -> None:
    pair = pair_of(APART, mask, **arguments)
    assert types(to_onnx(pair)) == ["Attention"]
    with pytest.raises(OperatorError, match="no operators that mean the same"):
        translated(pair, {})
