"""Rare solvers and losses of Caffe2, and rows without elements; the results are Caffe2's."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from optimize.gradients import add_gradient_operators
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef.text_parser import parse_net
from tests.runtime_arm.operators.test_caffe2_arguments import Case, f32, i32

W = f32(1, -2, 3)
STORM = {"p": W, "m": f32(0.5, 0, -1), "s": f32(2), "g": f32(1, 2, -0.5), "r": f32(-0.1)}
TABLE = f32(1, 2, 3, 4, 0, 0).reshape(3, 2)
ROWS = {"p": TABLE, "i": i32(1, 0, 1), "g": f32(1, 0, 0.5, 2, -1, 1).reshape(3, 2), "r": f32(-0.1)}
PAIRS = np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 8
FTRL = {"p": TABLE, "s": PAIRS, "g": f32(0.1, 0.2, 0.3, 0.4, 0.5, 0.6).reshape(3, 2)}
FTRL_STATE = f32(0.01, -0.775, 0.29, -0.1953295, 0.59, -0.9052345, 0.91, -2.241553, 1.25, 1.625, 1.61, 1.975)
FTRL_ROWS = {**FTRL, "i": i32(1, 0, 1)}
RATE = {"r": f32(0.1), "g": f32(1, 2), "d": f32(3, -1)}
RANKED = {"y": f32(0.5, 2, -1, 0.3, 0.3), "r": f32(2, 0, 1, 0, 1), "l": i32(3, 2)}
SLOPES = f32(-0.1653975, 0.2397688, -0.07437134, 0.07014064, -0.07014064)


def scaled(t: int, arguments: str, *wanted: float) -> Case:
    return Case(
        f"WeightScale(w, t) -> y  stepsize=2  scale=0.5  {arguments}", {"w": W, "t": np.array([t])}, {"y": f32(*wanted)}
    )


def ranked(arguments: str, loss: Any, slopes: Any) -> Case:
    return Case(f"LambdaRankNdcg(y, r, l) -> e, d  {arguments}", RANKED, {"e": loss, "d": slopes})


CASES = [
    scaled(3, "", 0.5, -1, 1.5),
    scaled(4, "", 1, -2, 3),
    scaled(3, "upper_bound_iter=4", 1, -2, 3),
    Case(
        "Storm(p, m, s, g, r) -> p, m, s",
        STORM,
        {"p": f32(0.9736035, -2.002721, 3.050752), "m": f32(0.5132265, 0.05290602, -0.9867735), "s": f32(7.25)},
    ),
    Case(
        "Storm(p, m, s, g, r) -> p, m, s  momentum=4.0  beta=0.25",
        STORM,
        {"p": f32(0.9741897, -2.001067, 3.050821), "m": f32(0.5052198, 0.0208793, -0.9947802), "s": f32(7.25)},
    ),
    Case(
        "SparseStorm(p, m, s, g, i, r) -> p, m, s",
        {**ROWS, "m": TABLE * np.float32(0.1), "s": f32(2)},
        {
            "p": f32(0.9948254, 1.988581, 2.971429, 3.96223, 0, 0).reshape(3, 2),
            "m": f32(0.1090126, 0.2405569, 0.2861257, 0.4047094, 0, 0).reshape(3, 2),
            "s": f32(9.25),
        },
    ),
    Case(
        "SparseWngrad(p, b, i, g, r) -> p, b  epsilon=0.5",
        {**ROWS, "b": f32(2)},
        {"p": f32(0.98, 1.92, 3, 3.96, 0, 0).reshape(3, 2), "b": f32(5.625)},
    ),
    Case(
        "SparseFtrl(p, s, i, g) -> p, s  alpha=0.1  beta=0.5  lambda1=0.2  lambda2=0.1",
        FTRL_ROWS,
        {
            "p": f32(0.2932099, 0.1591958, -0.06182915, -0.03559435, 0, 0).reshape(3, 2),
            "s": f32(0.09, -2.575, 0.41, -2.031249, 0.76, 1.054343, 1.15, 0.7632381, 1, 1.125, 1.25, 1.375).reshape(
                PAIRS.shape
            ),
        },
    ),
    Case(
        "SparseFtrl(p, s, i, g, a) -> p, s",
        {**FTRL_ROWS, "a": f32(0.25)},
        {
            "p": f32(0.1488175, 0.05280195, -0.1600368, -0.1662401, 0, 0).reshape(3, 2),
            "s": f32(0.09, -0.775, 0.41, -0.3474996, 0.76, 1.199375, 1.15, 1.379218, 1, 1.125, 1.25, 1.375).reshape(
                PAIRS.shape
            ),
        },
    ),
    Case(
        "GFtrl(p, s, g) -> p, s  alpha=0.1  beta=0.5  lambda1=0.2  lambda2=0.1",
        FTRL,
        {
            "p": f32(0.1052087, 0.01647363, 0.05865042, 0.1354012, -0.08265511, -0.0981799).reshape(3, 2),
            "s": FTRL_STATE.reshape(PAIRS.shape),
        },
    ),
    Case(
        "GFtrl(p, s, g) -> p, s  alpha=0.1  lambda1=30.0",
        FTRL,
        {"p": 0 * TABLE, "s": FTRL_STATE.reshape(PAIRS.shape)},
    ),
    Case(
        "GFtrl(p, s, g) -> p, s  alpha=0.5  lambda1=0.5",
        {name: x[:, 0].copy() for name, x in FTRL.items()},
        {
            "p": f32(-0.005634875, -0.07839289, -0.1902622),
            "s": f32(0.01, 0.025, 0.59, 0.5589531, 1.25, 1.625).reshape(3, 2),
        },
    ),
    Case(
        "SparseNormalize(p, i) -> p  norm=2.5",
        {"p": TABLE, "i": i32(0, 1, 2)},
        {"p": f32(1, 2, 1.5, 2, 0, 0).reshape(3, 2)},
    ),
    Case(
        "SparseNormalize(p, i, g) -> p  norm=2.5  use_max_norm=0",
        {**ROWS, "i": np.array([0, 2])},
        {"p": f32(1.118034, 2.236068, 3, 4, 0, 0).reshape(3, 2)},
    ),
    Case(
        "Float16SparseNormalize(p, i) -> p  norm=2.5  use_max_norm=0",
        {"p": TABLE.astype(np.float16), "i": np.array([0, 2])},
        {"p": np.array([[1.118164, 2.236328], [3, 4], [np.nan, np.nan]], np.float16)},
    ),
    Case("LearningRateAdaption(r, g, d) -> y  lr_alpha=0.5", RATE, {"y": f32(0.09292894)}),
    Case("LearningRateAdaption(r, g, d) -> y  normalized_lr_adaption=0", RATE, {"y": f32(0.09)}),
    Case(
        'LearningRate(t) -> y  base_lr=0.1  policy="poly"  power=2.0',
        {"t": np.array([1000])},
        {"y": np.array(0.1, np.float32)},
    ),
    ranked("", f32(1.201299, 0.1944712), SLOPES),
    ranked(
        "use_idcg_normalization=0  use_exp_gain=0",
        f32(6.921718, 0.51164),
        f32(-0.952997, 1.381514, -0.4285172, 0.1845351, -0.1845351),
    ),
    ranked("use_ndcg_as_loss=1", f32(0.2148856, 0.1402813), SLOPES),
    ranked(
        "use_ndcg_as_loss=1  use_exp_gain=0  use_idcg_normalization=0",
        f32(0.8690702, 0.3690702),
        f32(-0.6273697, 1.079772, -0.4524021, 0.1845351, -0.1845351),
    ),
    Case(
        "ReduceBackMeanGradient(g, s) -> d  num_reduce_dim=1",
        {"g": f32(3, 6), "s": np.array([2, 3])},
        {"d": f32(1, 1, 1, 2, 2, 2).reshape(2, 3)},
    ),
    Case(
        "ReduceFrontSumGradient(g, s, l) -> d  num_reduce_dim=1",
        {"g": f32(3, 6, 9), "s": np.array([2, 3]), "l": i32(1, 2, 1)},
        {"d": f32(3, 6, 9, 0, 6, 0).reshape(2, 3)},
    ),
    Case("DotProduct(X, X) -> Z", {"X": np.zeros((2, 0), np.float32)}, {"Z": f32()}),
    Case("DotProductWithPadding(X, Y) -> Z", {"X": np.zeros((2, 0), np.float32), "Y": TABLE[:2]}, {"Z": f32()}),
    Case("SquaredL2Distance(X, X) -> Z", {"X": np.zeros((2, 0), np.float32)}, {"Z": f32(0, 0)}),
]


def run(net: Any, feeds: Dict[str, Any]) -> Workspace:
    workspace = Workspace()
    for name, value in feeds.items():
        workspace.feed(name, value)
    workspace.run_net_once(net)
    return workspace


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.net.split("(")[0])
def test_they_compute_what_caffe2_does(case: Case) -> None:
    workspace = run(parse_net(case.net), case.feeds)
    for name, wanted in case.results.items():
        found = workspace.fetch(name)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), name
        assert_each_close(found, wanted, terms=64)


def test_the_gradient_of_a_ranking_is_its_slopes_times_that_of_the_session() -> None:
    net, gradients = add_gradient_operators(parse_net("LambdaRankNdcg(y, r, l) -> e, d"), {"e": "de"})
    found = run(net, {**RANKED, "de": f32(0.5, 2)}).fetch(str(gradients["y"]))
    assert_each_close(found, SLOPES * f32(0.5, 0.5, 0.5, 2, 2), terms=64)


def test_a_dot_product_of_rows_without_elements_has_a_gradient() -> None:
    net, gradients = add_gradient_operators(parse_net("DotProduct(X, Y) -> Z"), {"Z": "dZ"})
    empty = np.zeros((2, 0), np.float32)
    assert run(net, {"X": empty, "Y": empty, "dZ": f32()}).fetch(str(gradients["X"])).shape == (2, 0)


def test_a_gradient_ends_at_a_copy_to_the_processor() -> None:
    _, gradients = add_gradient_operators(parse_net("EnsureCPUOutput(X) -> h\nSqr(h) -> Y"), {"Y": "dY"})
    assert "X" not in gradients


def test_the_gradient_of_a_product_reads_its_axes_as_1() -> None:
    """As Caffe2's does: where dimensions before axis 2 are 1 it makes no difference, and elsewhere it fails."""
    net, _ = add_gradient_operators(parse_net("MatMul(A, B) -> Y  axis_a=2"), {"Y": "dY"})
    ones = {"B": np.ones((3, 2), np.float32), "dY": np.ones((1, 2), np.float32)}
    found = run(net, {**ones, "A": np.ones((1, 1, 3), np.float32)}).fetch("A_grad")
    np.testing.assert_array_equal(found, np.full((1, 1, 3), 2, np.float32))
    with pytest.raises(ArmnetError):
        run(net, {**ones, "A": np.ones((2, 2, 3), np.float32), "dY": np.ones((4, 2), np.float32)})


@pytest.mark.parametrize(
    ("net", "feeds", "reason"),
    [
        ("WeightScale(w, t) -> y  stepsize=0", {"w": W, "t": np.array([3])}, "at least 1"),
        ("WeightScale(w, t) -> y", {"w": W, "t": i32(3)}, "one int64"),
        ("CrossEntropy(X, l) -> Y", {"X": f32(0.5).reshape(1, 1), "l": f32(2).reshape(1, 1)}, "from 0 to 1"),
        ("LambdaRankNdcg(y, r, l) -> e, d", {**RANKED, "l": i32(3, 1)}, "add up"),
        ("LambdaRankNdcg(y, r, l) -> e, d", {**RANKED, "l": i32(5, 0)}, "may be the last"),
        ("SparseNormalize(p, i) -> p", {"p": TABLE, "i": i32(3)}, "3"),
        ("SparseNormalize(p, i) -> p", {"p": TABLE.astype(np.float16), "i": i32(0)}, "float32"),
    ],
)
def test_wrong_operands_are_refused(net: str, feeds: Dict[str, Any], reason: str) -> None:
    with pytest.raises(ArmnetError, match=reason):
        run(parse_net(net), feeds)
