"""Features of tabular models: agreement with onnxruntime, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

X = np.array([[1, -2, 0], [0, 0, 0], [3, 4, -12]], np.float32)
STRINGS = np.array([["b", "ü"], ["", "z"]], object)


def op_of(type: str, inputs: str = "X", **attributes: Any) -> OperatorDef:
    return OperatorDef.of(type, inputs.split(), ["Y"], domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize(
    ("op", "x", "dtype"),
    [
        (op_of("Scaler", offset=[0.5], scale=[2.0]), X, np.float32),
        (op_of("Scaler", offset=[0.5, 1.0, 2.0], scale=[2.0, 0.25, -1.0]), X, np.float32),
        (op_of("Scaler", offset=[0.5, 1.0, 2.0], scale=[2.0, 0.25, -1.0]), X.astype(np.int64), np.float32),
        (op_of("Normalizer", norm="L1"), X, np.float32),
        (op_of("Normalizer", norm="L2"), X, np.float32),
        (op_of("Normalizer", norm="MAX"), X[:2], np.float32),
        (op_of("Normalizer", norm="L2"), X[0], np.float32),
        (op_of("Imputer", imputed_value_floats=[9.0]), X, np.float32),
        (op_of("Imputer", imputed_value_floats=[9.0, 8.0, 7.0]), X, np.float32),
        (
            op_of("Imputer", imputed_value_floats=[9.0, 8.0, 7.0], replaced_value_float=float("nan")),
            np.where(X == 0, np.float32(np.nan), X),
            np.float32,
        ),
        (op_of("Imputer", imputed_value_int64s=[9], replaced_value_int64=3), X.astype(np.int64), np.int64),
        (op_of("OneHotEncoder", cats_int64s=[0, 3, 7]), X.astype(np.int64), np.float32),
        (op_of("OneHotEncoder", cats_int64s=[0, 3, 7]), X, np.float32),
        (op_of("OneHotEncoder", cats_strings=["z", "b"]), STRINGS, np.float32),
        (op_of("LabelEncoder", keys_strings=["b", "ü"], values_int64s=[4, 5]), STRINGS, np.int64),
        (op_of("LabelEncoder", keys_strings=["b", "ü"], values_floats=[4.0, 5.0]), STRINGS, np.float32),
        (op_of("LabelEncoder", keys_int64s=[0, 3], values_floats=[4.5, 5.5]), X.astype(np.int64), np.float32),
        (op_of("LabelEncoder", keys_floats=[-2.0, 3.0], values_int64s=[4, 5], default_int64=7), X, np.int64),
    ],
    ids=str,
)
def test_answers_as_onnxruntime_does(op: OperatorDef, x: Any, dtype: Any) -> None:
    (expected,) = onnxruntime_outputs(op, [x], [dtype])
    (y,) = lookup(op).evaluate(op, [x])
    assert_close(y, expected)


def test_columns_of_strings_are_picked() -> None:
    op, columns = op_of("ArrayFeatureExtractor", "X I"), np.array([1], np.int64)
    (expected,) = onnxruntime_outputs(op, [STRINGS, columns], [object])
    (y,) = run_kernel(op, [STRINGS, columns])
    assert y.tolist() == expected.tolist()


def test_labels_become_strings() -> None:
    op = op_of("LabelEncoder", keys_int64s=[0, 3], values_strings=["no", "ja"])
    assert run_kernel(op, [np.array([3, 0, 5])])[0].tolist() == [b"ja", b"no", b"_Unused"]


def test_categories_are_mapped_both_ways() -> None:
    op = op_of("CategoryMapper", cats_strings=["b", "ü"], cats_int64s=[4, 7])
    assert run_kernel(op, [STRINGS])[0].tolist() == [[4, 7], [-1, -1]]
    assert run_kernel(op, [np.array([7, 1])])[0].tolist() == ["ü".encode(), b"_Unused"]


def test_the_oldest_label_encoder_maps_classes_to_indices_and_back() -> None:
    op = op_of("LabelEncoder", classes_strings=["b", "z"], default_int64=9)
    assert run_kernel(op, [STRINGS])[0].tolist() == [[0, 9], [9, 1]]
    assert run_kernel(op, [np.array([1, 5])])[0].tolist() == [b"z", b"_Unused"]


def test_columns_are_joined_cut_and_padded() -> None:
    op = op_of("FeatureVectorizer", "A B", inputdimensions=[2, 4])
    expected = [[1, -2, 1, -2, 0, 0], [0, 0, 0, 0, 0, 0], [3, 4, 3, 4, -12, 0]]
    assert run_kernel(op, [X, X.astype(np.int64)])[0].tolist() == expected


@pytest.mark.parametrize(
    ("op", "x", "rule"),
    [
        (op_of("Scaler", offset=[1.0, 2.0], scale=[1.0]), X, "offset needs 1 or 3 numbers, got 2"),
        (op_of("Normalizer", norm="L3"), X, "norm must be MAX, L1 or L2, got 'L3'"),
        (op_of("Imputer", imputed_value_floats=[1.0, 2.0]), X, "1 or 3 imputed values"),
        (op_of("Imputer", imputed_value_int64s=[1]), X, "imputed values of X's kind, got 0"),
        (op_of("OneHotEncoder", cats_strings=["a"]), X, "needs cats_int64s"),
        (op_of("OneHotEncoder", cats_int64s=[0, 1], zeros=0), X, "in no category, and zeros is 0"),
        (op_of("LabelEncoder", keys_int64s=[1]), np.array([1]), "needs values_strings"),
        (op_of("LabelEncoder", keys_int64s=[1], values_int64s=[1, 2]), np.array([1]), "1 keys and 2 values"),
        (op_of("CategoryMapper", cats_strings=["a"], cats_int64s=[]), STRINGS, "1 strings and 0 integers"),
        (op_of("FeatureVectorizer", inputdimensions=[1, 2]), X, "inputdimensions needs 1 numbers"),
    ],
)
def test_refuses(op: OperatorDef, x: Any, rule: str) -> None:
    with pytest.raises(ArmnetError, match=rule):
        run_kernel(op, [x])
