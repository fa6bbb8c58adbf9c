"""Update operators: fast kernels against reference kernels, repeated indices, refusals."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.solvers.blocks import BLOCK

SIZES = [(1,), (7, 5), (BLOCK + 3,), (3, BLOCK)]
# type: the order of parameter, gradient and states, "r" is the rate, "t" the iteration; h and v are not negative
KINDS: Dict[str, str] = {
    "MomentumSGD": "gmr",
    "MomentumSGDUpdate": "gmrp",
    "Adagrad": "phgr",
    "Adam": "pmvgrt",
    "Adadelta": "phvgr",
    "RmsProp": "ghmr",
    "caffe.RMSProp": "phgr",
}


def operands(kind: str, shape: Any, seed: int = 0) -> List[Any]:
    random = np.random.default_rng(seed)
    special = {"r": np.full(1, -0.1, np.float32), "t": np.array([3], np.int64)}
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name in "pgmhv"}
    arrays["h"], arrays["v"] = np.abs(arrays["h"]) + 0.1, np.abs(arrays["v"]) + 0.1
    return [special[name] if name in special else arrays[name] for name in kind]


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("type", KINDS)
@pytest.mark.parametrize("nesterov", [0, 1])
def test_the_fast_kernel_computes_what_the_reference_does(type: str, shape: Any, nesterov: int) -> None:
    domain, _, name = type.rpartition(".")
    outputs = {"MomentumSGD": 2, "Adagrad": 2, "RMSProp": 2}.get(name, 3)
    arguments: Dict[str, Any] = {"momentum": 0.9, "nesterov": nesterov}
    inputs = operands(KINDS[type], shape)
    op = OperatorDef.of(
        name, [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)], domain=domain, **arguments
    )
    assert assert_engines_match_reference(op, inputs, terms=64) == ["NUMPY"]


def test_adagrad_gives_the_effective_rate_and_the_update() -> None:
    p, h, g, rate = operands("phgr", (4, 3))
    op = OperatorDef.of("Adagrad", ["p", "h", "g", "r"], ["p", "h", "e", "u"], weight_decay=0.5)
    new, squares, effective, update = run_kernel(op, [p, h, g, rate])
    decayed = g + np.float32(0.5) * p
    assert_close(squares, h + decayed**2, terms=8)
    assert_close(effective, rate / (np.sqrt(squares) + np.float32(1e-5)), terms=8)
    assert_close(update, effective * decayed, terms=8)
    assert_close(new, p + update, terms=8)


SPARSE = {
    "SparseAdagrad": ("Adagrad", "phigr", "phgr"),
    "SparseAdam": ("Adam", "pmvigrt", "pmvgrt"),
    "SparseAdadelta": ("Adadelta", "phvigr", "phvgr"),
    "SparseMomentumSGDUpdate": ("MomentumSGDUpdate", "gmrpi", "gmrp"),
}


@pytest.mark.parametrize("type", SPARSE)
def test_a_sparse_update_is_a_dense_one_of_each_row_in_turn(type: str) -> None:
    dense_type, names, dense_names = SPARSE[type]
    indices = np.array([2, 0, 2, 4, 2], np.int64)
    given = dict(zip("phmvrt", operands("phmvrt", (5, 3))))
    given.update(i=indices, g=np.random.default_rng(5).standard_normal((5, 3)).astype(np.float32))
    outputs = [name for name in ("gmp" if type.startswith("SparseM") else names) if name in "pmhv" or name == "g"]
    outputs = [name for name in dense_names if name in "pmhv"] if not type.startswith("SparseM") else ["g", "m", "p"]
    results = run_kernel(OperatorDef.of(type, names, outputs, momentum=0.9), [given[name] for name in names])
    tables = {name: given[name].copy() for name in "pmhv"}
    for row, index in enumerate(indices):
        inputs = [
            given["g"][row] if name == "g" else tables[name][index] if name in tables else given[name]
            for name in dense_names
        ]
        new = run_kernel(OperatorDef.of(dense_type, dense_names, outputs, momentum=0.9), inputs)
        for name, value in zip(outputs, new):
            if name in tables:
                tables[name][index] = value
    for name, result in zip(outputs, results):
        if name in tables:
            assert_close(result, tables[name], terms=64, what=f"{type}: {name}")


@pytest.mark.parametrize("type", ["RowWiseSparseAdagrad", "RowWiseSparseAdam"])
def test_a_rowwise_update_keeps_one_number_a_row(type: str) -> None:
    p, m, g = operands("pmg", (4, 3))
    state, rate, indices = np.full(4, 0.5, np.float32), np.full(1, -0.1, np.float32), np.array([1, 3], np.int32)
    if type.endswith("Adam"):
        op = OperatorDef.of(type, ["p", "m", "v", "i", "g", "r", "t"], ["p", "m", "v"])
        new, _, squares = run_kernel(op, [p, m, state, indices, g[:2], rate, np.array([0], np.int64)])
        expected = np.float32(0.999) * state[1] + np.float32(0.001) * (g[0] ** 2).mean()
    else:
        op = OperatorDef.of(type, ["p", "h", "i", "g", "r"], ["p", "h"])
        new, squares = run_kernel(op, [p, state, indices, g[:2], rate])
        expected = state[1] + (g[0] ** 2).mean()
        assert_close(new[1], p[1] - np.float32(0.1) * g[0] / np.float32(np.sqrt(expected) + 1e-5), terms=64)
    assert squares[0] == state[0]
    assert np.array_equal(new[0], p[0])
    assert abs(squares[1] - expected) < 1e-5


def test_wngrad_keeps_one_number() -> None:
    p, g, rate = operands("pgr", (6,))
    b = np.full(1, 2.0, np.float32)
    new, state = run_kernel(OperatorDef.of("Wngrad", ["p", "b", "g", "r"], ["p", "b"], epsilon=0.0), [p, b, g, rate])
    assert_close(new, p + rate * g / b, terms=8)
    assert_close(state, b + (g**2).sum(keepdims=True) / b, terms=64)


def test_ftrl_moves_weak_parameters_to_zero() -> None:
    p, g = operands("pg", (3,))
    state = np.zeros((3, 2), np.float32)
    op = OperatorDef.of("Ftrl", ["p", "s", "g"], ["p", "s"], alpha=0.1, lambda1=100.0)
    new, after = run_kernel(op, [p, state, g])
    assert not new.any()
    assert_close(after[:, 0], g**2, terms=8)
    assert_close(after[:, 1], g - np.abs(g) / np.float32(0.1) * p, terms=8)


@pytest.mark.parametrize(
    ("op", "inputs", "reason"),
    [
        (OperatorDef.of("MomentumSGD", "gmr", "gm"), ["f4", "f3", "f1"], "of one size"),
        (OperatorDef.of("Adam", "pmvgrt", "pmv", beta1=1.0), ["f3"] * 4 + ["f1", "i1"], "beta1 must be"),
        (OperatorDef.of("SparseAdagrad", "phigr", "ph"), ["f4", "f4", "i3", "f2", "f1"], "one row of the gradient"),
        (OperatorDef.of("SparseAdagrad", "phigr", "ph"), ["f4", "f4", "i1", "f1", "f1"], "out of range"),
        (OperatorDef.of("Lars", "xgdth", "y"), ["f4", "f4", "f1", "f1", "f2"], "one float32 each"),
        (OperatorDef.of("ClipTensorByScaling", "xn", "y"), ["f4", "f1"], "threshold"),
    ],
)
def test_wrong_operands_are_refused(op: OperatorDef, inputs: List[str], reason: str) -> None:
    arrays = [np.full(int(code[1:]), 9, {"f": np.float32, "i": np.int64}[code[0]]) for code in inputs]
    with pytest.raises(ArmnetError, match=reason):
        run_kernel(op, arrays)
