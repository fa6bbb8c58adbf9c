"""Arguments, types and orders of Caffe2's operators that the recorded runs lack; the results are Caffe2's."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import numpy as np
import pytest

from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef.text_parser import parse_net


class Case(NamedTuple):
    net: str
    feeds: Dict[str, Any]
    results: Dict[str, Any]


def f32(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


def i32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


SEQUENCE = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)
FOUR = f32(1, 4, 2, 3).reshape(1, 1, 4)
KEYS = i32(3, 4, 6)
ADAM = {"p": f32(1), "m": f32(1), "v": f32(4), "i": i32(0), "g": f32(2), "r": f32(0.5)}
CASES = [
    Case("MaxPool(X) -> Y  kernel=2  stride=2", {"X": FOUR}, {"Y": f32(4, 3).reshape(1, 1, 2)}),
    Case("AveragePool1D(X) -> Y  kernel=2  pad=1", {"X": FOUR}, {"Y": f32(1, 2.5, 3, 2.5, 3).reshape(1, 1, 5)}),
    Case(
        'MaxPool(X) -> Y  kernel_h=2  kernel_w=3  stride_h=2  stride_w=1  order="NHWC"',
        {"X": FOUR.reshape(1, 4, 1)},
        {"Y": f32(4, 3).reshape(1, 2, 1)},
    ),
    Case(
        'SequenceMask(X, n) -> Y  mode="sequence"  axis=1  repeat_from_axis=2  fill_val=0.0',
        {"X": SEQUENCE, "n": i32(1, 2)},
        {"Y": f32(1, 2, 0, 0, 5, 6, 7, 8).reshape(2, 2, 2)},
    ),
    Case(
        'SequenceMask(X, n) -> Y  mode="sequence"  axis=1  repeat_from_axis=-1  fill_val=0.0',
        {"X": SEQUENCE, "n": i32(0, 1)},
        {"Y": f32(0, 0, 0, 0, 5, 6, 0, 0).reshape(2, 2, 2)},
    ),
    Case(
        'SequenceMask(X, n) -> Y  mode="sequence"  axis=2  batch=0  fill_val=0.0',
        {"X": SEQUENCE, "n": i32(1, 2)},
        {"Y": f32(1, 0, 3, 4, 5, 0, 7, 8).reshape(2, 2, 2)},
    ),
    Case(
        'SequenceMask(X) -> Y  mode="upper"  axis=2  batch=0  fill_val=0.0',
        {"X": SEQUENCE},
        {"Y": f32(1, 0, 3, 4, 5, 0, 7, 8).reshape(2, 2, 2)},
    ),
    Case(
        'SequenceMask(X, n) -> Y  mode="sequence"  axis=1  fill_val=0.0',
        {"X": f32(1, 2, 3, 4).reshape(2, 2), "n": i32(1, 0, 7)},
        {"Y": f32(1, 0, 0, 0).reshape(2, 2)},
    ),
    Case(
        "SparseLengthsSum(X, i, l) -> Y",
        {"X": np.array([[1, 2], [3, 4]], np.float16), "i": i32(0, 1, 1), "l": i32(2, 1)},
        {"Y": f32(4, 6, 3, 4).reshape(2, 2)},
    ),
    Case(
        "Partition(k, X) -> a, b, c, d", {"k": KEYS, "X": f32(1, 2, 3)}, {"a": i32(4, 6), "b": f32(2, 3), "c": i32(3)}
    ),
    Case(
        "LengthsPartition(l, k, X) -> a, b, c, d, e, f",
        {"l": i32(1, 2), "k": KEYS, "X": f32(1, 2, 3)},
        {"a": i32(0, 2), "b": i32(4, 6), "c": f32(2, 3), "d": i32(1, 0), "e": i32(3), "f": f32(1)},
    ),
    Case(
        "BatchBucketize(X, i, b, l) -> Y",
        {"X": f32(0.5, 2).reshape(1, 2), "i": i32(1, 0), "b": f32(1, 1.5, 0.7), "l": i32(2, 1)},
        {"Y": i32(2, 0).reshape(1, 2)},
    ),
    Case(
        "BatchBucketOneHot(X, l, b) -> Y",
        {"X": f32(1).reshape(1, 1), "l": i32(3), "b": f32(1, 1, 2)},
        {"Y": f32(0, 1, 0, 0).reshape(1, 4)},
    ),
    Case("DivGradient(b, c, g) -> da, db", {"b": f32(2, 4), "c": f32(3, 5), "g": f32(1, 8)}, {"da": f32(0.5, 2)}),
    Case("DivGradient(b, c, g) -> da, db", {"b": f32(2, 4), "c": f32(3, 5), "g": f32(1, 8)}, {"db": f32(-1.5, -10)}),
    Case(
        "LeakyReluGradient(y, g) -> d  alpha=0.5",
        {"y": f32(0, -0.0, -1, 1), "g": f32(1, 2, 3, 4)},
        {"d": f32(1, 2, 1.5, 4)},
    ),
    Case("NumpyTile(X, n) -> Y", {"X": f32(1, 2), "n": np.array([2])}, {"Y": f32(1, 2, 1, 2)}),
    Case("LengthsSplit(l, n) -> Y  n_split=3", {"l": i32(4), "n": i32(2)}, {"Y": i32(2, 2)}),
    Case("NegateGradient(X) -> X", {"X": f32(1, 2)}, {"X": f32(1, 2)}),
    Case("IndexHash(i) -> i  seed=3  modulo=100", {"i": np.array([7, 8])}, {"i": np.array([96, 25])}),
    Case(
        "ReversePackedSegs(X, l) -> Y",
        {"X": f32(1, 2, 3).reshape(3, 1, 1), "l": np.array([2])},
        {"Y": f32(2, 1, 3).reshape(3, 1, 1)},
    ),
    Case(
        "Wngrad(p, b, g, r) -> p, b, e, u  epsilon=1.0",
        {"p": f32(1, 2), "b": f32(1), "g": f32(2, 4), "r": f32(0.5)},
        {"p": f32(1.5, 3), "b": f32(11), "e": f32(0.25), "u": f32(0.5, 1)},
    ),
    Case(
        "SparseAdagrad(p, h, i, g, r) -> p, h",
        {"p": f32(1), "h": f32(2), "i": np.zeros(0, np.int64), "g": f32(), "r": f32(0.1)},
        {"p": f32(1), "h": f32(2)},
    ),
    Case(
        "SparseAdam(p, m, v, i, g, r, t) -> p, m, v  beta1=0.5  beta2=0.5  enableRAdam=1",
        {**ADAM, "t": np.array([0])},
        {"p": f32(2.5), "m": f32(1.5), "v": f32(4)},
    ),
    Case(
        "SparseAdam(p, m, v, i, g, r, t) -> p, m, v  beta1=0.5  beta2=0.9  epsilon=0.0  enableRAdam=1",
        {**ADAM, "t": np.array([9])},
        {"p": f32(1.1492538), "m": f32(1.5), "v": f32(4)},
    ),
    Case(
        "NGramFromCategorical(X) -> Y  col_ids=[0]  categorical_limits=[2]  vals=[5, 7]",
        {"X": f32(7, 5).reshape(2, 1)},
        {"Y": np.array([1, 0])},
    ),
    Case(
        "InstanceNorm(X, s, b) -> Y, m\nInstanceNormGradient(X, s, b, g, m) -> dX, ds, db",
        {"X": f32(0, 2, 4).reshape(1, 1, 3), "s": f32(1), "b": f32(0), "g": f32(1, 0, 0).reshape(1, 1, 3)},
        {"db": f32(1)},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.net.split("(")[0])
def test_they_mean_what_they_mean_in_caffe2(case: Case) -> None:
    workspace = Workspace()
    for name, value in case.feeds.items():
        workspace.feed(name, value)
    workspace.run_net_once(parse_net(case.net))
    for name, wanted in case.results.items():
        found = workspace.fetch(name)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), name
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_strings_are_packed_with_empty_ones() -> None:
    workspace = Workspace()
    workspace.feed("l", i32(2, 1))
    workspace.feed("X", np.array([b"a", b"b", b"c"], object))
    workspace.run_net_once(parse_net("PackSegments(l, X) -> Y"))
    assert workspace.fetch("Y").tolist() == [[b"a", b"b"], [b"c", b""]]
