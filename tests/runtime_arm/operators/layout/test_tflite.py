"""SpaceToBatchND and BatchToSpaceND: inverses, engines, refusals; TensorFlow Lite's own results are in the exporter's
tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same

THERE, BACK = (
    OperatorDef.of(type, ["X", "block", "pads"], ["Y"], domain="tflite", value=7.0)
    for type in ("SpaceToBatchND", "BatchToSpaceND")
)
AXIS = st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(0, 5), st.integers(1, 3))


@given(st.lists(AXIS, min_size=1, max_size=3), st.integers(0, 2), st.sampled_from([(), (2,), (2, 3)]))
def test_one_undoes_the_other(axes: Any, batch: int, rest: Any) -> None:
    """Also where the padding is wider than a block or than the picture."""
    block = np.array([b for b, *_ in axes])
    head, tail = (np.array([axis[place] for axis in axes]) for place in (1, 2))
    sizes = [b * count - (pads % b) for (b, *_, count), pads in zip(axes, head + tail)]
    x = np.arange(batch * int(np.prod(sizes)) * int(np.prod(rest))).reshape(batch, *sizes, *rest).astype(np.int16)
    pads = np.stack([head, tail], axis=1)
    if 0 in sizes:
        return
    assert assert_engines_match_reference(THERE, [x, block, pads], constants=[1, 2]) == ["NUMPY"]
    (deep,) = run_kernel(THERE, [x, block, pads], "NUMPY", [1, 2])
    assert int((deep == 7).sum()) >= deep.size - x.size
    assert assert_engines_match_reference(BACK, [deep, block, pads], constants=[1, 2]) == ["NUMPY"]
    assert_same(run_kernel(BACK, [deep, block, pads], "NUMPY", [1, 2])[0], x)


@pytest.mark.parametrize(
    ("op", "shape", "block", "pads", "reason"),
    [
        (THERE, (1, 5, 4), [2], [[0, 0]], "do not divide"),
        (THERE, (1, 4, 4), [0], [[0, 0]], "the block must be positive"),
        (THERE, (1, 4), [2, 2], [[0, 0]] * 2, "the block must be positive"),
        (THERE, (1, 4, 4), [2], [[0, 0]] * 2, "pads must hold a pair"),
        (THERE, (1, 4, 4), [2], [[-1, 1]], "pads must hold a pair"),
        (BACK, (3, 4, 4), [2], [[0, 0]], "is not made of blocks"),
        (BACK, (4, 2, 4), [2], [[3, 2]], "the crops are larger"),
    ],
)
def test_refusals(op: OperatorDef, shape: Any, block: Any, pads: Any, reason: str) -> None:
    with pytest.raises(OperatorError, match=reason):
        run_kernel(op, [np.zeros(shape, np.float32), np.array(block), np.array(pads)], "REFERENCE", [1, 2])
