"""What is outside of the images of a blob in tiles stays as it is where no step reads it."""

from __future__ import annotations

from typing import Dict

import numpy as np
import pytest

from runtime_arm import Predictor
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.plan import Segment
from tests.optimize.nets import pair_of
from tests.support.tiles import tiles_everywhere

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    name: RANDOM.standard_normal(shape).astype(np.float32)
    for name, shape in {"d": (32, 1, 3, 3), "p": (16, 32, 1, 1), "q": (32, 16, 1, 1)}.items()
}
FILTERED = "ConvRelu(x, d) -> f  kernel=3 pad=1 group=32"
PICTURE = RANDOM.standard_normal((1, 32, 13, 9)).astype(np.float32)


def pair(operators: str, outputs: str = "y") -> Pair:
    return pair_of(f'net "": x, {", ".join(WEIGHTS)} -> {outputs}\n {operators}', WEIGHTS, {"x": PICTURE.shape})


def ragged(predictor: Predictor) -> Dict[str, bool]:
    """Of the blobs in tiles, by name."""
    steps = predictor.plan().steps
    return {value.name: value.ragged for step in steps for value in step.outputs if value.layout is not None}


@pytest.mark.parametrize(
    ("operators", "outputs", "expected"),
    [
        (f"{FILTERED}\n Conv(f, p) -> y  kernel=1", "y", True),
        (f"{FILTERED}\n Conv(f, p) -> y  kernel=1", "y, f", True),
        (f"{FILTERED}\n Conv(f, p) -> a  kernel=1\n Relu(a) -> y", "y", True),
        (f"{FILTERED}\n ConvRelu(f, d) -> y  kernel=3 pad=1 group=32", "y", False),
        (f"{FILTERED}\n Conv(f, p) -> y  kernel=1\n AveragePool(f) -> z  global_pooling=1", "y, z", False),
        (f"{FILTERED}\n Conv(f, p) -> y  kernel=1\n MaxPool(f) -> z  kernel=3", "y, z", False),
        (f"{FILTERED}\n ConvRelu(f, p) -> a  kernel=1\n Conv(a, q) -> b  kernel=1\n Sum(b, f) -> y", "y", False),
    ],
)
def test_blobs_are_ragged_where_each_position_is_read_for_itself(
    operators: str, outputs: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = pair(operators, outputs)
    with tiles_everywhere(), Predictor(net, threads=1) as predictor:
        found = ragged(predictor)
        results = predictor.run({"x": PICTURE})
        assert found.get("f", expected) == expected  # where a merge leaves it
        poisoned = run_paranoid(net, {"x": PICTURE}).outputs
    monkeypatch.setattr(Segment, "_leave_ragged", lambda segment, layout: None)
    with tiles_everywhere(), Predictor(net, threads=1) as predictor:
        assert not any(ragged(predictor).values())
        for name, wanted in predictor.run({"x": PICTURE}).items():
            np.testing.assert_array_equal(results[name], wanted)
            np.testing.assert_array_equal(poisoned[name], wanted)
