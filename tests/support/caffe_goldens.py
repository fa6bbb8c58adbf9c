"""Recorded runs of the real Caffe: prototxt, caffemodel, inputs and every blob. They lie in ../shared/goldens."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.pair import Pair
from tests.support.paths import GOLDENS, module_at

TERMS = 1024  # no recorded sum has more terms; Caffe also added them in float32
# Cases with layer types of forks, which armnet knows and BVLC's Caffe does not.
ACCEPTED_FROM_FORKS = ("ReLU6_000",)
_SPLIT = re.compile(r"(.+)_split_\d+")

Case = Dict[str, Any]


@cache
def load_cases() -> List[Case]:
    """Every recorded case; none where the recordings are absent."""
    return list(module_at(GOLDENS / "load_goldens.py").caffe_cases()) if GOLDENS.is_dir() else []


def golden_cases(*statuses: str) -> List[Any]:
    """Parameters for pytest, one per case with these statuses; one skipped with the reason if there are none."""
    cases = [case for case in load_cases() if case["status"] in statuses]
    if not cases:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {GOLDENS}"))]
    return [pytest.param(case, id=case["id"]) for case in cases]


def exported(case: Case, folder: Path) -> Pair:
    """The pair of a case's files, written into the folder; a refused case has no caffemodel."""
    prototxt, caffemodel = folder / "net.prototxt", folder / "net.caffemodel"
    state = "" if case["phase"] == "TEST" else f"state {{ phase: {case['phase']} }}\n"  # the phase that Caffe ran in
    prototxt.write_text(state + case["prototxt"])
    if "caffemodel" not in case:
        return export(prototxt)
    caffemodel.write_bytes(case["caffemodel"])
    return export(prototxt, caffemodel)


def recorded_blobs(case: Case) -> Dict[str, Any]:
    """The blobs that Caffe computed, without its copies of blobs with several readers."""
    return {name: value for name, value in case["out"].items() if not _SPLIT.fullmatch(name)}


def run_case(case: Case) -> None:
    """Exports and runs the net and compares every blob; a net that Caffe refused must be refused, naming the layer."""
    with tempfile.TemporaryDirectory() as folder:
        if case["status"] == "ok":
            _compare(case, exported(case, Path(folder)))
        elif case["id"] in ACCEPTED_FROM_FORKS:
            exported(case, Path(folder))
        else:
            _assert_refused(case, Path(folder))


def _compare(case: Case, pair: Pair) -> None:
    expected = recorded_blobs(case)
    with Predictor(pair) as predictor:
        results = predictor.run(case["in"], keep=list(expected))
    for name, wanted in expected.items():
        assert_close(results[name], np.asarray(wanted, np.float32), terms=TERMS, what=f"{case['id']}: {name}")


def _assert_refused(case: Case, folder: Path) -> None:
    with pytest.raises(ArmnetError) as caught:
        exported(case, folder)
    assert "net.prototxt: layer " in str(caught.value), caught.value
    assert "caffemodel missing" not in str(caught.value) or "Unknown layer type" in case["error"], caught.value
