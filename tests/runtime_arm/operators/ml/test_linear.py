"""Linear models and support vector machines: agreement with onnxruntime, and refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.onnx_nodes import onnxruntime_outputs

FEATURES = 4
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
X = np.random.RandomState(7).randn(20, FEATURES).astype(np.float32)


def numbers(seed: int, *shape: int) -> Any:
    return [float(value) for value in np.random.RandomState(seed).randn(*shape).astype(np.float32).reshape(-1)]


def op_of(type: str, **attributes: Any) -> OperatorDef:
    outputs = ["L", "Z"] if type.endswith("Classifier") else ["Y"]
    return OperatorDef.of(type, ["X"], outputs, domain="ai.onnx.ml", **attributes)


def assert_answers_as_onnxruntime_does(op: OperatorDef, x: Any = X) -> None:
    expected = onnxruntime_outputs(op, [x], [np.int64, np.float32] if len(op.output) == 2 else [np.float32])
    for ours, theirs in zip(lookup(op).evaluate(op, [x]), expected):
        assert_close(ours, theirs, terms=FEATURES)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_linear_regressors(targets: int, transform: str) -> None:
    weights = {"coefficients": numbers(0, targets, FEATURES), "intercepts": numbers(1, targets)}
    assert_answers_as_onnxruntime_does(op_of("LinearRegressor", targets=targets, post_transform=transform, **weights))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_linear_classifiers(targets: int, transform: str, dtype: Any) -> None:
    weights = {"coefficients": numbers(0, targets, FEATURES), "intercepts": numbers(1, targets)}
    labels = list(range(5, 5 + max(targets, 2)))
    op = op_of("LinearClassifier", classlabels_ints=labels, post_transform=transform, **weights)
    assert_answers_as_onnxruntime_does(op, (X * 3).astype(dtype))


def machine(kernel: str, classes: int, likely: bool) -> Dict[str, Any]:
    per_class = [3, 2, 4, 3][:classes]
    machines = classes * (classes - 1) // 2
    attributes: Dict[str, Any] = {
        "vectors_per_class": per_class,
        "support_vectors": numbers(2, sum(per_class), FEATURES),
        "coefficients": numbers(3, classes - 1, sum(per_class)),
        "rho": numbers(4, machines),
        "kernel_type": kernel,
        "kernel_params": [0.25, 0.5, 3.0],
        "classlabels_ints": list(range(5, 5 + classes)),
    }
    if likely:
        attributes.update(prob_a=[-abs(value) for value in numbers(5, machines)], prob_b=numbers(6, machines))
    return attributes


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("likely", [False, True], ids=["votes", "probabilities"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_svm_classifiers(kernel: str, classes: int, likely: bool, transform: str) -> None:
    assert_answers_as_onnxruntime_does(
        op_of("SVMClassifier", post_transform=transform, **machine(kernel, classes, likely))
    )


def test_svm_classifiers_without_vectors_are_linear() -> None:
    op = op_of(
        "SVMClassifier",
        coefficients=numbers(0, 3, FEATURES),
        rho=[0.5],
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 3.0],
        classlabels_ints=[5, 6, 7],
    )
    assert_answers_as_onnxruntime_does(op)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("count", [0, 5])
def test_svm_regressors(kernel: str, one_class: int, count: int) -> None:
    op = op_of(
        "SVMRegressor",
        n_supports=count,
        coefficients=numbers(3, count or FEATURES),
        rho=[0.25],
        kernel_type=kernel if count else "LINEAR",
        kernel_params=[0.25, 0.5, 3.0],
        one_class=one_class,
        **({"support_vectors": numbers(2, count, FEATURES)} if count else {}),
    )
    assert_answers_as_onnxruntime_does(op)


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (op_of("LinearRegressor", coefficients=[1.0, 2.0, 3.0]), "3 coefficients do not make 1 times 4 features"),
        (op_of("LinearRegressor", coefficients=[1.0] * 4, intercepts=[1.0, 2.0]), "intercepts needs 1 numbers, got 2"),
        (op_of("LinearClassifier", coefficients=[1.0] * 12, intercepts=[1.0] * 3, classlabels_ints=[1]), "3 scores"),
        (op_of("SVMClassifier", **{**machine("RBF", 3, False), "kernel_type": "COSINE"}), "kernel_type must be one of"),
        (op_of("SVMClassifier", **{**machine("RBF", 3, False), "rho": [1.0]}), "3 of rho"),
        (op_of("SVMClassifier", **{**machine("RBF", 3, False), "support_vectors": [1.0]}), "9 times 4 numbers, got 1"),
        (op_of("SVMClassifier", **{**machine("RBF", 3, False), "vectors_per_class": [9]}), "vectors_per_class needs 3"),
        (op_of("SVMRegressor", coefficients=[1.0], rho=[1.0], n_supports=-1), "n_supports must not be negative"),
        (op_of("SVMRegressor", coefficients=[1.0], rho=[1.0], kernel_params=[1.0]), "kernel_params needs 3 numbers"),
    ],
)
def test_refuses(op: OperatorDef, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        run_kernel(op, [X])
