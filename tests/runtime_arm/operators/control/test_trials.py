"""What a trial on drawn inputs may take, and that nothing else is held to it."""

from __future__ import annotations

import threading
from typing import Any, List

import numpy as np
import pytest

from optimize import optimize
from runtime_arm.errors import ResourceError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.operators.control import control, trials
from runtime_arm.pair.metadata import TensorInfo
from tests.optimize.nets import pair_of

DOUBLING = """net "n": m, x -> y
 onnx.Loop(m, "", x) -> y  body={
  net "body": i, c, a -> c, b
  Concat(a, a) -> b, l  axis=0
 }"""


def test_a_loop_that_doubles_is_tried_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often it runs is drawn at random, up to a hundred times."""
    handed_on: List[int] = []

    def require(what: Any, blobs: Any) -> None:
        handed_on.append(max(blob.nbytes for blob in blobs))
        trials.require_small_trip(what, blobs)

    monkeypatch.setattr(trials, "MOST_IN_A_TRIAL", 1 << 12)
    monkeypatch.setattr(control, "require_small_trip", require)
    pair = pair_of(DOUBLING, shapes={"m": (), "x": (4,)})
    pair = pair.replace(inputs=(TensorInfo("m", (), "int64"), pair.inputs[1]))
    fast = optimize(pair)
    assert max(handed_on) == 1 << 12
    with Predictor(fast) as predictor:
        (y,) = predictor.run({"m": np.array(10), "x": np.ones(4, np.float32)}).values()
    assert y.shape == (4096,)


def test_other_threads_and_later_runs_are_not_held_to_it() -> None:
    blobs = [np.zeros(trials.MOST_IN_A_TRIAL // 4 + 1, np.float32)]
    found: List[str] = []

    def elsewhere(problems: List[str]) -> None:
        trials.require_small_trip(lambda: "elsewhere", blobs)
        problems.append("none")

    with trials.trying(), trials.trying():
        thread = threading.Thread(target=elsewhere, args=(found,))
        thread.start()
        thread.join()
        with pytest.raises(ResourceError, match="a trip of here hands on"):
            trials.require_small_trip(lambda: "here", blobs)
    trials.require_small_trip(lambda: "later", blobs)
    assert found == ["none"]
