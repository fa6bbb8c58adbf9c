"""Each TFLite operator, exported and run, gives the results of LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from device_tests.suite.tolerance import assert_close
from tests.exporter.tflite.cases_layout import CASES
from tests.support.tflite_models import ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
MOST_TERMS = 64  # summed by an output element of any case


@pytest.mark.parametrize("name", CASES)
def test_an_operator_computes_what_litert_computes(tmp_path: Path, name: str) -> None:
    data, feeds = CASES[name]()
    expected = reference(data, feeds)
    results = ours(tmp_path, data, feeds)
    for result, wanted in zip(results, expected):
        assert_close(result, wanted, terms=MOST_TERMS)
