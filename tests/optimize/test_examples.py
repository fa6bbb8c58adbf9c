"""The size of pictures that a pair states is an example for measuring."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np
import pytest

from optimize import Report, optimize
from optimize.examples import stored_examples
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

RNG = np.random.default_rng(0)


def fixed(shape: Optional[Sequence[Any]], rule: Dict[str, Any]) -> Pair:
    """A net that takes pictures of 6x6 alone, whatever it declares."""
    weights = {"w": RNG.standard_normal((4, 3 * 36)).astype(np.float32), "b": np.zeros(4, np.float32)}
    pair = pair_of('net "": x, w, b -> y\n Relu(x) -> a\n FC(a, w, b) -> y', weights)
    info = TensorInfo("x", None if shape is None else tuple(shape), "float32")
    return pair.replace(inputs=(info,), meta={"preprocessing": rule})


@pytest.mark.parametrize(
    ("shape", "rule", "found"),
    [
        ((None, 3, "h", None), {"resize": [6, 7]}, (1, 3, 6, 7)),
        ((None, 3, None, None), {"resize": [6, 7], "layout": "NCWH"}, (1, 3, 7, 6)),
        ((2, None, None, 3), {"resize": [6, 7], "layout": "NHWC"}, (2, 6, 7, 3)),
        ((None, 3, 6, 6), {"resize": [6, 6]}, None),
        ((None, 3), {"resize": [6, 6]}, None),
        (None, {"resize": [6, 6]}, None),
        ((None, 3, None, None), {"resize": 6}, None),
        ((None, 3, None, None), {"resize": [6, 0]}, None),
        ((None, 3, None, None), {"resize": [6, 6], "layout": "elsewhere"}, None),
        ((None, 3, None, None), {}, None),
    ],
)
def test_the_stated_size_is_used_where_the_picture_is_open(shape: Any, rule: Dict[str, Any], found: Any) -> None:
    assert stored_examples(fixed(shape, rule)) == ({} if found is None else {"x": found})


def test_the_batch_can_be_chosen() -> None:
    assert stored_examples(fixed((None, 3, None, None), {"resize": [6, 6]}), 3) == {"x": (3, 3, 6, 6)}


def test_results_are_compared_where_the_net_takes_that_size_alone() -> None:
    pair = fixed((None, 3, None, None), {})
    alone, told = Report(), Report()
    optimize(pair, report=alone)
    assert any("only shapes and dtypes of results were compared" in note for note in alone.notes)
    made = optimize(pair.replace(meta={"preprocessing": {"resize": [6, 6]}}), report=told)
    assert not told.notes
    assert made.inputs == pair.inputs
