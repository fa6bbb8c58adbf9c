"""Tree ensembles: agreement with onnxruntime, the engine against the reference kernel, and refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ResourceError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec
from tests.support.exact import assert_same
from tests.support.forests import EVERY_MODE, forest, rows
from tests.support.onnx_nodes import onnxruntime_outputs

TERMS = 4  # of a sum: three trees and a base value
MODES = {"LEQ": EVERY_MODE[:1], "LT": EVERY_MODE[1:2], "GT and LEQ": ("BRANCH_GT", "BRANCH_LEQ"), "all": EVERY_MODE}
PROBIT = 16.0  # its formula takes the root of a difference of numbers that are nearly equal


def regressor(**attributes: Any) -> OperatorDef:
    return OperatorDef.of("TreeEnsembleRegressor", ["X"], ["Y"], domain="ai.onnx.ml", **attributes)


def classifier(**attributes: Any) -> OperatorDef:
    return OperatorDef.of("TreeEnsembleClassifier", ["X"], ["L", "Z"], domain="ai.onnx.ml", **attributes)


def stump(weights: Any, **attributes: Any) -> Dict[str, Any]:
    """One tree: X <= 0 leads to leaf 1, else to leaf 2. ``weights``: (leaf, class, weight)."""
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0] * len(weights),
        "class_nodeids": [leaf for leaf, _, _ in weights],
        "class_ids": [target for _, target, _ in weights],
        "class_weights": [weight for _, _, weight in weights],
        **attributes,
    }


@pytest.mark.parametrize("missing", [False, True], ids=["", "missing"])
@pytest.mark.parametrize("modes", MODES.values(), ids=MODES)
@pytest.mark.parametrize("seed", range(4))
def test_regressors_answer_as_onnxruntime_does(seed: int, modes: Any, missing: bool) -> None:
    random = np.random.RandomState(seed)
    targets = 1 + seed % 3
    reduce = ["SUM", "AVERAGE", "MIN", "MAX"][seed]
    transform = "NONE" if targets == 1 else ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"][seed % 3]
    attributes = forest(random, "target", targets, modes=modes, missing=missing)
    base = [float(value) for value in random.randn(targets).astype(np.float32)]
    op = regressor(
        n_targets=targets, aggregate_function=reduce, post_transform=transform, base_values=base, **attributes
    )
    x = rows(random, 40, missing=missing)
    (expected,) = onnxruntime_outputs(op, [x], [np.float32])
    assert_close(lookup(op).evaluate(op, [x])[0], expected, terms=TERMS)
    assert_engines_match_reference(op, [x])


@pytest.mark.parametrize("reduce", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_leaf_may_give_several_weights_to_one_target(targets: int, reduce: str) -> None:
    """scikit-learn's exporter writes paths through forests so: of a single target the first weight alone counts."""
    weights = [(1, 0, 1.0), (1, 0, 5.0), (2, targets - 1, 7.0), (2, targets - 1, -2.0)]
    attributes = {name.replace("class_", "target_"): value for name, value in stump(weights).items()}
    op = regressor(n_targets=targets, aggregate_function=reduce, **attributes)
    x = np.array([[-1], [1]], np.float32)
    (expected,) = onnxruntime_outputs(op, [x], [np.float32])
    np.testing.assert_array_equal(lookup(op).evaluate(op, [x])[0], expected)
    assert_engines_match_reference(op, [x])


@pytest.mark.parametrize("modes", MODES.values(), ids=MODES)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("strings", [False, True], ids=["integers", "strings"])
def test_classifiers_answer_as_onnxruntime_does(transform: str, strings: bool, modes: Any) -> None:
    random = np.random.RandomState(len(transform))
    labels: Dict[str, Any] = {"classlabels_strings": ["a", "ü", "c"]} if strings else {"classlabels_int64s": [7, 3, 5]}
    op = classifier(post_transform=transform, **labels, **forest(random, "class", 3, modes=modes))
    x = rows(random, 40)
    chosen, scores = onnxruntime_outputs(op, [x], [object if strings else np.int64, np.float32])
    ours = lookup(op).evaluate(op, [x])
    assert [text.decode() for text in ours[0]] == list(chosen) if strings else ours[0].tolist() == chosen.tolist()
    assert_close(ours[1], scores, terms=TERMS)
    assert_engines_match_reference(op, [x])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [[], [0.25]], ids=["", "base"])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("low", [0.25, -0.25], ids=["positive", "mixed"])
def test_one_score_for_two_classes_answers_as_onnxruntime_does(
    low: float, target: int, base: Any, transform: str
) -> None:
    attributes = stump([(1, target, low), (2, target, 0.75)], classlabels_int64s=[4, 9], post_transform=transform)
    op = classifier(**attributes, **({"base_values": base} if base else {}))
    x = np.array([[-1], [0], [1]], np.float32)
    chosen, scores = onnxruntime_outputs(op, [x], [np.int64, np.float32])
    ours = lookup(op).evaluate(op, [x])
    assert ours[0].tolist() == chosen.tolist()
    assert_close(ours[1], scores, terms=2)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize(
    ("targets", "base"),
    [
        *(([0, 1], base) for base in ([], [0.25], [0.1, -0.2], [-0.3, 0.7])),
        *(([target], base) for target in (0, 1) for base in ([0.1, -0.2], [-0.3, 0.7])),
    ],
    ids=str,
)
@pytest.mark.parametrize("low", [0.0, -1.0], ids=["positive", "mixed"])
@pytest.mark.parametrize("strings", [False, True], ids=["integers", "strings"])
def test_two_scores_for_two_classes_answer_as_onnxruntime_does(
    strings: bool, low: float, targets: Any, base: Any, transform: str
) -> None:
    random = np.random.RandomState(len(transform))
    x = rows(random, 40)
    for _ in range(3):
        weights = [(leaf, target, random.uniform(low, 1.0)) for leaf in (1, 2) for target in targets]
        labels: Dict[str, Any] = {"classlabels_strings": ["a", "b"]} if strings else {"classlabels_int64s": [4, 9]}
        bases = {"base_values": base} if base else {}
        op = classifier(**stump(weights, post_transform=transform, **bases, **labels))
        chosen, scores = onnxruntime_outputs(op, [x], [object if strings else np.int64, np.float32])
        ours = lookup(op).evaluate(op, [x])
        assert [text.decode() for text in ours[0]] == list(chosen) if strings else ours[0].tolist() == chosen.tolist()
        assert_close(ours[1], scores, terms=3, amplification=PROBIT if transform == "PROBIT" else 1.0)
        if transform != "PROBIT":  # it is steep: the last bits of a sum change many of it
            assert_engines_match_reference(op, [x])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(
    ("weights", "base"),
    [
        ([(1, 0, 0.75), (2, 0, 0.25), (2, 1, 0.5)], []),
        ([(1, 0, -0.75), (2, 1, 0.5)], []),
        ([(1, 1, 0.5), (2, 1, 0.25), (2, 0, 1.0)], [0.5]),
        ([(1, 0, 0.75)], [0.5]),
        ([(1, 0, -0.75)], [0.25]),
    ],
    ids=["class 1 not", "either", "class 0 not", "none", "none, mixed"],
)
def test_rows_without_a_weight_for_a_class_answer_as_in_onnxruntime(weights: Any, base: Any, transform: str) -> None:
    bases = {"base_values": base} if base else {}
    op = classifier(**stump(weights, post_transform=transform, classlabels_int64s=[4, 9], **bases))
    x = np.array([[-1], [0], [1]], np.float32)
    chosen, scores = onnxruntime_outputs(op, [x], [np.int64, np.float32])
    ours = lookup(op).evaluate(op, [x])
    assert ours[0].tolist() == chosen.tolist()
    assert_close(ours[1], scores, terms=2)
    assert_engines_match_reference(op, [x])


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_any_number_of_rows_descends_many_trees(count: int) -> None:
    random = np.random.RandomState(0)
    op = regressor(n_targets=2, **forest(random, "target", 2, trees=40, depth=9, one_target=True))
    assert_engines_match_reference(op, [rows(random, count)], terms=40)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_rows_are_converted_to_the_type_of_the_thresholds(dtype: Any) -> None:
    random = np.random.RandomState(1)
    op = regressor(**forest(random, "target", 1, modes=EVERY_MODE))
    x = (rows(random, 30) * 3).astype(dtype)
    assert_same(lookup(op).evaluate(op, [x])[0], lookup(op).evaluate(op, [x.astype(np.float32)])[0])
    assert_engines_match_reference(op, [x])


def test_thresholds_of_float64_are_not_rounded() -> None:
    value = np.float64(1) + 2.0**-40
    attributes = stump([(1, 0, 1.0), (2, 0, 2.0)])
    del attributes["nodes_values"]
    attributes = {name.replace("class_", "target_"): entry for name, entry in attributes.items()}
    op = regressor(nodes_values_as_tensor=np.array([value, 0, 0]), **attributes)
    x = np.array([[value], [np.nextafter(value, 2)]])
    assert lookup(op).evaluate(op, [x])[0].tolist() == [[1.0], [2.0]]
    assert_engines_match_reference(op, [x])


def broken(**changed: Any) -> OperatorDef:
    return classifier(**{**stump([(1, 0, 1.0), (2, 0, 2.0)], classlabels_int64s=[4, 9]), **changed})


def test_more_targets_than_memory_holds_are_refused() -> None:
    op = regressor(n_targets=1 << 50, **forest(np.random.RandomState(0), "target", 1))
    with pytest.raises(ResourceError, match="more than the"):
        lookup(op).infer(op, [TensorSpec((0, 5), np.float32)])


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (broken(nodes_modes=["BRANCH_LEQ", "LEAF"]), "nodes_treeids needs 2 numbers, got 3"),
        (broken(nodes_modes=["BRANCH_IN", "LEAF", "LEAF"]), "nodes_modes must hold BRANCH_LEQ.*BRANCH_IN"),
        (broken(nodes_truenodeids=[7, 0, 0]), "node 0 of tree 0 has no child 7"),
        (broken(nodes_truenodeids=[2, 0, 0]), "exactly one node that is no other's child"),
        (broken(nodes_truenodeids=[0, 0, 0]), "cannot be reached from its tree's root"),
        (broken(nodes_nodeids=[0, 1, 1]), "two nodes of one tree have the same id"),
        (broken(class_nodeids=[1, 5]), "tree 0 has no node 5"),
        (broken(class_ids=[0, 2]), "target 2 of 2"),
        (broken(nodes_featureids=[3, 0, 0]), "feature 3 is read, X has 1"),
        (broken(post_transform="SIGMOID"), "post_transform must be one of"),
        (broken(classlabels_int64s=[]), "needs classlabels_strings or classlabels_int64s"),
        (broken(base_values=[1.0, 2.0, 3.0]), "base_values needs 0 or 1 or 2 numbers, got 3"),
    ],
)
def test_refuses(op: OperatorDef, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        run_kernel(op, [np.zeros((1, 1), np.float32)])
