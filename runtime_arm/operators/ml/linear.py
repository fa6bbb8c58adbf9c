"""Linear models and support vector machines.

Where ai.onnx.ml leaves something open, this follows onnxruntime (core/providers/cpu/ml/svmclassifier.cc and the files
beside it).
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.ml.scores import both_classes, label_pair, labels_of, logistic, transform_of, transformed
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

ROWS = ("float32", "float64", "int32", "int64")


def _rows(x: TensorSpec) -> Tuple[int, int]:
    """The numbers of rows and of columns; a vector is one row."""
    return (x.shape[0] if x.ndim > 1 else 1), x.shape[-1]


def _matrix(op: OperatorDef, x: TensorSpec, targets: int) -> Array:
    """The coefficients as (targets, features), float64."""
    require(op, x.ndim in (1, 2), "X must be (features) or (N, features)", x)
    coefficients = np.asarray(op.get_floats("coefficients"), np.float64)
    if targets < 1 or coefficients.size != targets * _rows(x)[1]:
        raise ArgumentError(op, f"{coefficients.size} coefficients do not make {targets} times {_rows(x)[1]} features")
    return coefficients.reshape(targets, -1)


def _products(op: OperatorDef, x: Array, targets: int) -> Array:
    """X times the coefficients, plus the intercepts; X is rounded to float32, the rest is computed in float64."""
    spec = TensorSpec.known(x)
    rows = x.reshape(_rows(spec)).astype(np.float32).astype(np.float64)
    intercepts = np.asarray(op.get_floats("intercepts"), np.float64)
    totals: Array = rows @ _matrix(op, spec, targets).T
    return totals + intercepts if intercepts.size else totals


def _check_intercepts(op: OperatorDef, targets: int) -> None:
    count = len(op.get_floats("intercepts"))
    if count not in (0, targets):
        raise ArgumentError(op, f"intercepts needs {targets} numbers, got {count}")


def _coefficients_per_row(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """The multiply-adds: one per row of X for each coefficient and for each number in the support vectors."""
    (x,) = inputs
    assert x is not None
    return _rows(x)[0] * (len(op.get_floats("coefficients")) + len(op.get_floats("support_vectors")))


@operator("LinearRegressor", domain="ai.onnx.ml", dtypes=ROWS, multiply_adds=_coefficients_per_row)
def linear_regressor(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = post_transform(X coefficients^T + intercepts). X: (N, features), Y: (N, targets) float32."""
    targets = op.get_int("targets", 1)
    _matrix(op, x, targets)
    _check_intercepts(op, targets)
    transform_of(op)
    return [TensorSpec((_rows(x)[0], targets), np.float32)]


@linear_regressor.reference
def linear_regressor_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [transformed(_products(op, x, op.get_int("targets", 1)), transform_of(op)).astype(np.float32)]


@operator("LinearClassifier", domain="ai.onnx.ml", outputs=2, dtypes=ROWS, multiply_adds=_coefficients_per_row)
def linear_classifier(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The label with the highest score, (N,) int64 or strings, and the scores, (N, classes) float32.

    The scores are  X coefficients^T + intercepts,  one per intercept. With one score s and two labels, the second label
    wins if s is above 0, and the scores are (1 - s, s), or with LOGISTIC (logistic(-s), logistic(s)).
    """
    targets = max(len(op.get_floats("intercepts")), 1)
    labels = labels_of(op, "classlabels_ints")
    _matrix(op, x, targets)
    transform_of(op)
    if targets > 1 and labels.size != targets:
        raise ArgumentError(op, f"{targets} scores need as many labels, got {labels.size}")
    classes = 2 if targets == 1 and labels.size == 2 else targets
    return [TensorSpec((_rows(x)[0],), labels.dtype), TensorSpec((_rows(x)[0], classes), np.float32)]


@linear_classifier.reference
def linear_classifier_reference(op: OperatorDef, x: Array) -> List[Any]:
    targets, labels = max(len(op.get_floats("intercepts")), 1), labels_of(op, "classlabels_ints")
    scores, transform = _products(op, x, targets), transform_of(op)
    if targets > 1:
        return [labels[scores.argmax(axis=1)], transformed(scores, transform).astype(np.float32)]
    chosen = label_pair(labels)[(scores[:, 0] > 0).astype(np.intp)]
    if labels.size == 2:
        scores = both_classes(scores[:, 0], transform, transform != "LOGISTIC")
    return [chosen, scores.astype(np.float32)]


_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _similarities(op: OperatorDef, x: Array, vectors: Array, kind: str) -> Array:
    """The kernel function of each row of X and each support vector, (N, vectors)."""
    gamma, coef0, degree = op.get_floats("kernel_params", (0.0, 0.0, 3.0))
    with np.errstate(all="ignore"):
        if kind == "RBF":
            distances = np.square(x).sum(1)[:, None] - 2 * x @ vectors.T + np.square(vectors).sum(1)
            result: Array = np.exp(-gamma * np.maximum(distances, 0))
            return result
        products: Array = x @ vectors.T
        if kind == "POLY":
            powers: Array = (gamma * products + coef0) ** degree
            return powers
        return np.tanh(gamma * products + coef0) if kind == "SIGMOID" else products


def _kernel_of(op: OperatorDef) -> str:
    kind = op.get_str("kernel_type", "LINEAR")
    if len(op.get_floats("kernel_params", (0.0, 0.0, 3.0))) != 3:
        raise ArgumentError(op, "kernel_params needs 3 numbers: gamma, coef0, degree")
    if kind not in _KERNELS:
        raise ArgumentError(op, f"kernel_type must be one of {', '.join(_KERNELS)}, got {kind!r}")
    return kind


def _vectors(op: OperatorDef, count: int, features: int) -> Array:
    vectors = np.asarray(op.get_floats("support_vectors"), np.float64)
    if vectors.size != count * features:
        raise ArgumentError(op, f"support_vectors needs {count} times {features} numbers, got {vectors.size}")
    return vectors.reshape(count, features)


@operator("SVMRegressor", domain="ai.onnx.ml", dtypes=ROWS, multiply_adds=_coefficients_per_row)
def svm_regressor(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[n] = sum over i of coefficients[i] * K(X[n], vector i), plus rho; (N, 1) float32.

    K: LINEAR x.v, POLY (gamma x.v + coef0)^degree, RBF exp(-gamma |x - v|^2), SIGMOID tanh(gamma x.v + coef0), with
    ``kernel_params`` = gamma, coef0, degree. Without support vectors (``n_supports`` 0), Y = X coefficients + rho. With
    ``one_class``, Y is 1 where this is above 0, else -1.
    """
    _kernel_of(op)
    require(op, x.ndim in (1, 2), "X must be (features) or (N, features)", x)
    rows, features = _rows(x)
    count = op.get_int("n_supports", 0)
    if count < 0:
        raise ArgumentError(op, f"n_supports must not be negative, got {count}")
    _vectors(op, count, features)
    coefficients = len(op.get_floats("coefficients"))
    if coefficients != (count or features) or len(op.get_floats("rho")) != 1:
        raise ArgumentError(op, f"needs {count or features} coefficients and 1 rho, got {coefficients} coefficients")
    return [TensorSpec((rows, 1), np.float32)]


@svm_regressor.reference
def svm_regressor_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows: Array = x.reshape(_rows(TensorSpec.known(x))).astype(np.float32).astype(np.float64)
    count = op.get_int("n_supports", 0)
    weights = np.asarray(op.get_floats("coefficients"), np.float64)
    seen = _similarities(op, rows, _vectors(op, count, rows.shape[1]), _kernel_of(op)) if count else rows
    y = seen @ weights + op.get_floats("rho")[0]
    if op.get_int("one_class", 0):
        y = np.where(y > 0, 1.0, -1.0)
    return [y[:, None].astype(np.float32)]


@operator("SVMClassifier", domain="ai.onnx.ml", outputs=2, dtypes=ROWS, multiply_adds=_coefficients_per_row)
def svm_classifier(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The winning label, (N,) int64 or strings, and the scores, float32.

    As in libsvm, there is a machine for each pair of classes i < j. Its value is the sum, over the support vectors of
    i and j, of coefficient * K(x, vector), plus rho; above 0 it votes for i, otherwise for j. The label with the most
    votes wins. With ``prob_a`` and ``prob_b`` the scores are probabilities, (N, classes), by pairwise coupling (Wu,
    Lin, Weng, JMLR 5, 2004, algorithm 2). Without them the scores are the machines' values, (N, machines). For two
    classes the single value s gives (-s, s), with LOGISTIC (logistic(-s), logistic(s)), and with any other transform
    (1 - s, s). Without support vectors the scores are  X coefficients^T + rho,  with a row of coefficients for each
    class, and the highest score wins. K: as for SVMRegressor.
    """
    _kernel_of(op)
    transform_of(op)
    labels = labels_of(op, "classlabels_ints")
    require(op, x.ndim in (1, 2), "X must be (features) or (N, features)", x)
    rows, features = _rows(x)
    per_class = op.get_ints("vectors_per_class")
    count, machines = sum(per_class), labels.size * (labels.size - 1) // 2
    if count == 0:
        _matrix(op, x, labels.size)
        require(op, len(op.get_floats("rho")) >= 1, "rho needs a number")
        return [TensorSpec((rows,), labels.dtype), TensorSpec((rows, labels.size), np.float32)]
    if len(per_class) != labels.size or min(per_class) < 0 or labels.size < 2:
        raise ArgumentError(op, f"vectors_per_class needs {labels.size} numbers, at least 2, none negative")
    _vectors(op, count, features)
    lengths = [len(op.get_floats(name)) for name in ("coefficients", "rho", "prob_a", "prob_b")]
    proba = lengths[2] > 0
    if lengths[:2] != [(labels.size - 1) * count, machines] or lengths[2:] != [machines * proba] * 2:
        raise ArgumentError(
            op, f"needs {(labels.size - 1) * count} coefficients and {machines} of rho, prob_a, prob_b; got {lengths}"
        )
    scores = labels.size if proba else max(machines, 2)
    return [TensorSpec((rows,), labels.dtype), TensorSpec((rows, scores), np.float32)]


@svm_classifier.reference
def svm_classifier_reference(op: OperatorDef, x: Array) -> List[Any]:
    rows: Array = x.reshape(_rows(TensorSpec.known(x))).astype(np.float32).astype(np.float64)
    labels, transform = labels_of(op, "classlabels_ints"), transform_of(op)
    if not sum(op.get_ints("vectors_per_class")):
        scores = rows @ _matrix(op, TensorSpec.known(x), labels.size).T + op.get_floats("rho")[0]
        return [labels[scores.argmax(axis=1)], transformed(scores, transform).astype(np.float32)]
    values, votes = _duels(op, rows, labels.size)
    winners = labels[votes.argmax(axis=1)]
    if op.has("prob_a") and op.get_floats("prob_a"):
        likely = 1 - logistic(values * np.array(op.get_floats("prob_a")) + np.array(op.get_floats("prob_b")))
        scores = np.stack([_coupled(row, labels.size) for row in np.clip(likely, 1e-7, 1 - 1e-7)])
        scores = scores.reshape(rows.shape[0], labels.size)
    elif labels.size == 2:
        scores = both_classes(values[:, 0], transform, transform not in ("NONE", "LOGISTIC"))
        return [winners, scores.astype(np.float32)]
    else:
        scores = values
    return [winners, transformed(scores, transform).astype(np.float32)]


def _duels(op: OperatorDef, rows: Array, classes: int) -> Tuple[Array, Array]:
    """The values of the machines, (N, machines), and the votes, (N, classes)."""
    per_class = op.get_ints("vectors_per_class")
    starts = np.concatenate([[0], np.cumsum(per_class)])
    vectors = _vectors(op, int(starts[-1]), rows.shape[1])
    seen = _similarities(op, rows, vectors, _kernel_of(op))
    weights = np.asarray(op.get_floats("coefficients"), np.float64).reshape(classes - 1, -1)
    values: List[Array] = []
    votes = np.zeros((rows.shape[0], classes), np.int64)
    for i in range(classes - 1):
        for j in range(i + 1, classes):
            of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            value = seen[:, of_i] @ weights[j - 1, of_i] + seen[:, of_j] @ weights[i, of_j]
            value = value + op.get_floats("rho")[len(values)]
            votes[:, i] += value > 0
            votes[:, j] += value <= 0
            values.append(value)
    return np.stack(values, axis=1), votes


def _coupled(pairwise: Array, classes: int) -> Array:
    """The probabilities of the classes, from those of each pair of classes: algorithm 2 of Wu, Lin and Weng."""
    r = np.zeros((classes, classes))
    upper = np.triu_indices(classes, 1)
    r[upper], r.T[upper] = pairwise, 1 - pairwise
    q = -r.T * r
    np.fill_diagonal(q, np.square(r).sum(axis=0))
    p = np.full(classes, 1.0 / classes)
    for _ in range(100):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < 0.005 / classes:
            break
        for i in range(classes):
            step = (pqp - qp[i]) / q[i, i]
            pqp = (pqp + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) ** 2
            qp = (qp + step * q[i]) / (1 + step)
            p[i] += step
            p /= 1 + step
    return p
