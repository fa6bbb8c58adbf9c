"""TFLite operators and networks as ONNX models: onnxruntime gives the results of LiteRT's reference kernels.

Integers are exact: the tests of the runtime's quantised operators run again with onnxruntime in place of the runtime.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close, assert_network_close
from exporter.tflite.export import from_tflite
from optimize import optimize
from runtime_arm.errors import ArmnetError
from tests.exporter.tflite import cases_layout as tflite_cases_layout
from tests.exporter.tflite.test_networks import FLOAT, INTEGER, exported, outputs_of, recorded
from tests.support import tflite_integers
from tests.support.onnx_models import run_model
from tests.support.tflite_models import reference

pytest.importorskip("onnx", reason="onnx is not installed to write models with")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to run models with")

from exporter.to_onnx.export import to_onnx

MOST_TERMS = 64  # summed by an output element of any case
# Parts of the messages for refused operators: ONNX lacks them, or they depend on data.
REFUSED = "mean the same|only 8-bit|must be known|in ONNX"


def by_onnxruntime(folder: Path, data: bytes, feeds: Dict[str, Any]) -> List[Any]:
    """The outputs of the pair's ONNX model in onnxruntime."""
    (folder / "net.tflite").write_bytes(data)
    return run_model(to_onnx(from_tflite(folder / "net.tflite"), integers="exact"), feeds)


@pytest.fixture(scope="module", autouse=True)
def onnxruntime_in_our_place() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tflite_integers, "ours", by_onnxruntime)
        yield


@pytest.mark.parametrize("name", tflite_cases_layout.CASES)
def test_an_operator(tmp_path: Path, name: str) -> None:
    data, feeds = tflite_cases_layout.CASES[name]()
    try:
        results = by_onnxruntime(tmp_path, data, feeds)
    except ArmnetError as error:
        if re.search(REFUSED, str(error)) is None:
            raise
        pytest.skip(f"refused: {error}")
    for result, wanted in zip(results, reference(data, feeds)):
        assert_close(result, wanted, terms=MOST_TERMS)


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_network(shared: Path, name: str) -> None:
    reference_ = recorded(shared, "references", name)
    plain = exported(shared, name)
    for pair in (plain, optimize(plain)):
        results = run_model(to_onnx(pair), {pair.inputs[0].name: reference_["input"][:1]})
        for result, wanted in zip(results, outputs_of(reference_)):
            assert_network_close(result, wanted[:1], what=name)


@pytest.mark.parametrize("name", INTEGER[1:])
def test_an_integer_network_is_exact(shared: Path, name: str) -> None:
    reference_ = recorded(shared, "references_tflite_builtin_ref", name)
    pair = optimize(exported(shared, name))
    results = run_model(to_onnx(pair, integers="exact"), {pair.inputs[0].name: reference_["input"][:1]})
    for result, wanted in zip(results, outputs_of(reference_)):
        np.testing.assert_array_equal(result, wanted[:1])


def test_detections_are_refused_by_name(shared: Path) -> None:
    with pytest.raises(ArmnetError, match="DetectionPostProcess"):
        to_onnx(exported(shared, INTEGER[0]))
