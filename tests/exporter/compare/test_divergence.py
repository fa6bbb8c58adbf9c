"""The differences between two runs, and the suggested causes."""

from __future__ import annotations

import numpy as np
import pytest

from exporter.common.original_run import OriginalBlob, OriginalRun
from exporter.compare.divergence import Divergence, divergences, likely_cause, relative_error
from runtime_arm.netdef import OperatorDef

X = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)


def bordered(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = x.copy()
    y[:, :, 0] += 1
    return y


def operator(type: str) -> OperatorDef:
    return OperatorDef.of(type, ["x"], ["y"])


def compared(theirs: np.ndarray, ours: np.ndarray, type: str = "Relu", exact: bool = False) -> Divergence:
    original = OriginalRun("somebody", [OriginalBlob("theirs", "y", theirs)], exact)
    (row,) = divergences(original, {"y": ours}, {"y": operator(type)}, 1e-4)
    return row


PER_CHANNEL = np.array([1.01, 1.02, 1.04], np.float32).reshape(1, 3, 1, 1)


@pytest.mark.parametrize(
    ("theirs", "ours", "type", "cause"),
    [
        (X, X[:, ::-1], "Conv", "channel order"),
        (X.transpose(0, 2, 3, 1), X[:, ::-1].transpose(0, 2, 3, 1), "Conv", "channel order"),
        (X, bordered(X), "Conv", "padding"),
        (X, np.roll(X, (1, -1), (2, 3)), "Conv", "the picture is shifted by (1, -1) pixels"),
        (X.transpose(0, 2, 3, 1), np.roll(X.transpose(0, 2, 3, 1), 1, 1), "Conv", "padding"),
        (X, bordered(X), "AveragePool", "ceil mode"),
        (X.transpose(0, 2, 3, 1), bordered(X).transpose(0, 2, 3, 1), "AveragePool", "only the border differs"),
        (X, bordered(X), "Resize", "resize rounding"),
        (X, X.swapaxes(2, 3), "Transpose", "layout"),
        (X, 2 * X, "Mul", "a constant factor of 2: a scale"),
        (X, np.float32(1.01) * X, "SpatialBN", "epsilon"),
        (X, PER_CHANNEL * X + PER_CHANNEL, "SpatialBN", "epsilon"),
        (X, X + np.float32(0.5), "Add", "a constant offset of 0.5"),
        (X, np.where(X > 2, np.nan, X), "Div", "infinities or NaN"),
        (X, X**3, "Mul", "different arithmetic"),
        (X, X**3, "onnx.Resize", "resize rounding"),
        (X, X**3, "LRN", "epsilon"),
        (X, X**3, "Conv", "padding"),
        (X, X.transpose(0, 2, 3, 1), "Copy", "layout"),
        (X, X[:, :, :-1, :-1], "MaxPool", "ceil mode"),
        (X, X[:, :, :-2, :-2], "Conv", "padding"),
        (X, X[:, :, :-2, :-2], "ResizeNearest", "resize rounding"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_likely_cause_is_suggested(theirs: np.ndarray, ours: np.ndarray, type: str, cause: str) -> None:
    row = compared(theirs, ours, type)
    assert row.diverges
    assert cause in row.cause


def test_a_cause_is_suggested_even_if_the_operator_is_unknown() -> None:
    assert "different arithmetic" in likely_cause(X, X**3)


def test_the_cause_may_lie_in_operators_between_the_compared_blobs() -> None:
    original = OriginalRun("somebody", [OriginalBlob("y", "y", X)])
    producers = {"y": operator("Relu"), "x": OperatorDef.of("Conv", ["data"], ["x"])}
    (row,) = divergences(original, {"y": X**3}, producers, 1e-4)
    assert row.producer == "Relu(x) -> y"
    assert "padding" in row.cause


def test_floats_made_from_integers_are_put_down_to_quantisation() -> None:
    original = OriginalRun("somebody", [OriginalBlob("y", "y", X)])
    weight = OperatorDef.of("DequantizeLinear", ["weight_int8", "scale"], ["weight"], domain="onnx")
    producers = {"y": OperatorDef.of("Conv", ["data", "weight"], ["y"]), "weight": weight}
    (row,) = divergences(original, {"y": X**3}, producers, 1e-4)
    assert row.cause.startswith("quantisation")


def test_integers_may_differ_by_a_step_unless_they_must_be_exact() -> None:
    theirs = np.arange(100, dtype=np.int8)
    ours = theirs + np.int8(1)
    assert not compared(theirs, ours).diverges
    assert compared(theirs, ours, exact=True).diverges
    assert "rounding" in compared(theirs, ours, exact=True).cause


def test_errors_are_relative_to_the_largest_magnitude() -> None:
    assert relative_error(np.array([100.0, 0.0]), np.array([100.0, 1.0])) == pytest.approx(0.01)


def test_rounding_errors_of_tiny_blobs_are_not_a_divergence() -> None:
    eps = np.finfo(np.float32).eps
    small = np.full(4, 1e-5, np.float32)
    assert relative_error(small, small + eps) == 0
    assert relative_error(small, 2 * small) == pytest.approx(1, rel=1e-6)


def test_infinities_must_have_the_same_positions() -> None:
    assert relative_error(np.array([np.inf, 1.0]), np.array([np.inf, 1.0])) == 0
    assert relative_error(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0])) == np.inf
