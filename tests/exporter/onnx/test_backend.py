"""ONNX's own backend suite. ``expected_failures.txt`` lists the tests that fail; the list must be accurate."""

from __future__ import annotations

import os
import unittest
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Dict, Iterator, Type

import onnx
import pytest
from onnx.backend.test import BackendTest

from exporter.onnx_backend import Backend

EXPECTED_FAILURES = Path(__file__).with_name("expected_failures.txt")
LISTED_FOR = "1.23"  # the onnx whose suite the list describes


def listed() -> Dict[str, bool]:
    """Name patterns, and whether such a test must fail; one with "?" may also pass. The file's comments are reasons."""
    lines = [line for line in EXPECTED_FAILURES.read_text().splitlines() if line and not line.startswith("#")]
    return {f"{line.lstrip('?')}_cpu": not line.startswith("?") for line in lines}


def cases() -> Dict[str, Type[unittest.TestCase]]:
    """The suite's classes by name, without GPU tests; the listed tests are expected to fail."""
    failures = listed()
    found = BackendTest(Backend, __name__).test_cases
    for case in found.values():
        for name, test in list(vars(case).items()):
            if name.endswith("_cuda"):
                delattr(case, name)
            for pattern in failures:
                if fnmatchcase(name, pattern):
                    setattr(case, name, pytest.mark.xfail(strict=failures[pattern])(test))
    return found


globals().update(cases())


@pytest.fixture(autouse=True, scope="module")
def _models_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Point ONNX_MODELS, the folder in which the suite stores its networks, to a temporary folder."""
    before = os.environ.get("ONNX_MODELS")
    os.environ["ONNX_MODELS"] = str(tmp_path_factory.mktemp("onnx_models"))
    yield
    os.environ.pop("ONNX_MODELS")
    if before is not None:
        os.environ["ONNX_MODELS"] = before


@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is that of onnx {LISTED_FOR}")
def test_every_listed_name_is_a_test_of_the_suite() -> None:
    names = {name for case in cases().values() for name in vars(case) if name.startswith("test_")}
    assert not [pattern for pattern in listed() if not any(fnmatchcase(name, pattern) for name in names)]


def test_devices() -> None:
    assert Backend.supports_device("CPU")
    assert not Backend.supports_device("CUDA:0")


def test_run_node_takes_inputs_by_position_or_name() -> None:
    import numpy as np

    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x = np.array([-1, 2], np.float32)
    for inputs in ([x], {"x": x}):
        (y,) = Backend.run_node(node, inputs)
        np.testing.assert_array_equal(y, [0, 2])
