"""Recorded runs of small nets that Caffe2's mobile exporter wrote: two nets, an input, the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.execution.predictor import Predictor
from runtime_arm.pair.pair import Pair
from tests.support.caffe2_goldens import TERMS, Case, goldens_module
from tests.support.paths import GOLDENS


def load_nets() -> List[Case]:
    """Every recorded net; none where the recordings are absent."""
    return list(goldens_module().caffe2_nets()) if GOLDENS.is_dir() else []


def golden_nets() -> List[Any]:
    """Parameters for pytest, one per net; a single skipped one with the reason where the recordings are absent."""
    nets = load_nets()
    if not nets:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {GOLDENS}"))]
    return [pytest.param(case, id=case["id"]) for case in nets]


def pair_of(case: Case) -> Pair:
    """The pair of the two recorded nets, unchanged."""
    with Predictor(case["init_net"], case["predict_net"], threads=1) as predictor:
        return predictor.pair


def write_files(case: Case, folder: Path) -> List[Path]:
    """Writes the two files as they lie on a phone, and returns their paths."""
    paths = [folder / "init_net.pb", folder / "predict_net.pb"]
    for path, name in zip(paths, ("init_net", "predict_net")):
        path.write_bytes(case[name])
    return paths


def check_net(case: Case, pair: Pair) -> None:
    """Raises AssertionError unless the pair computes the recorded outputs, in the recorded order; twice."""
    with Predictor(pair, threads=1) as predictor:
        for _ in range(2):
            outputs = predictor.run([case["data"]])
            assert list(outputs) == case["external_output"]
            for name, expected in case["outputs"].items():
                assert_close(outputs[name], expected, terms=TERMS, what=f"{case['id']}: {name}")
