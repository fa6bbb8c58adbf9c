"""Matrix products: engines against the reference kernels, allocations, refusals."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.machine import blas
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.linear import caffe2
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.onnx_nodes import onnxruntime_outputs

sizes = st.integers(1, 7)
MOST_TERMS = 20  # of a sum in the equations below


def numbers(*shapes: Tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> List[Any]:
    draw = np.random.default_rng(seed)
    scale = 1 if np.dtype(dtype).kind == "f" else 20
    return [(draw.standard_normal(shape) * scale).astype(dtype) for shape in shapes]


def gemm(**arguments: Any) -> OperatorDef:
    return OperatorDef.of("Gemm", ["A", "B", "C"], ["Y"], domain="onnx", **arguments)


def einsum(equation: str, inputs: int = 2) -> OperatorDef:
    return OperatorDef.of("Einsum", list("ABC")[:inputs], ["Y"], domain="onnx", equation=equation)


def assert_engines_agree(op: OperatorDef, inputs: List[Any]) -> List[str]:
    magnitude = run_kernel(op, [np.abs(x) for x in inputs])[0] if inputs[0].dtype.kind == "f" else None
    return assert_engines_match_reference(op, inputs, terms=400, magnitude=magnitude)


@given(st.sampled_from(["FC", "FCTransposed"]), st.lists(sizes, min_size=1, max_size=4), st.integers(0, 3), sizes)
@settings(max_examples=60)
def test_fc_agrees_with_the_reference(type: str, shape: List[int], axis: int, width: int) -> None:
    axis = min(axis, len(shape) - 1)
    depth = int(np.prod(shape[axis:]))
    w = (depth, width) if type == "FCTransposed" else (width, depth)
    op = OperatorDef.of(type, ["X", "W", "b"], ["Y"], axis=axis)
    assert assert_engines_agree(op, numbers(tuple(shape), w, (width,))) == ["NUMPY"]


@pytest.mark.parametrize("activation", [None, "onnx.HardSwish"])
@pytest.mark.parametrize(("terms", "width"), [(512, 1000), (999, 500), (1100, 500)])
def test_constant_weights_of_one_row_may_be_stored_by_rows(
    terms: int, width: int, activation: Optional[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: List[Any] = []
    monkeypatch.setattr(blas, "is_wide", lambda: True)
    monkeypatch.setattr(caffe2, "_turned", lambda w, turn=caffe2._turned: turned.append(w.shape) or turn(w))
    op = OperatorDef.of("FC", ["X", "W", "b"], ["Y"])
    if activation is not None:
        op = OperatorDef.of("FusedFC", ["X", "W", "b"], ["Y"], domain="armnet", activation=activation)
    inputs = numbers((1, terms), (width, terms), (width,))
    magnitude = run_kernel(op, [np.abs(x) for x in inputs])[0]
    assert_engines_match_reference(op, inputs, terms=terms, magnitude=magnitude, constants=[1, 2])
    assert set(turned) == ({(terms, width)} if terms < 2 * width else set())


@given(st.integers(1, 4), st.integers(1, 4), sizes, sizes, sizes, st.booleans(), st.booleans(), st.data())
@settings(max_examples=120)
def test_stacks_of_matrices_agree_with_the_reference(
    a_ndim: int, b_ndim: int, m: int, k: int, n: int, trans_a: bool, trans_b: bool, data: Any
) -> None:
    def stack(ndim: int, rows: int, columns: int, turned: bool, vector: int) -> Tuple[int, ...]:
        batch = data.draw(st.lists(st.sampled_from([1, 2]), min_size=max(ndim - 2, 0), max_size=max(ndim - 2, 0)))
        return (vector,) if ndim == 1 else (*batch, *((columns, rows) if turned else (rows, columns)))

    arguments = {"trans_a": int(trans_a), "trans_b": int(trans_b), "broadcast": 1}
    caffe2 = OperatorDef.of("BatchMatMul", ["A", "B"], ["Y"], **arguments)
    shapes = stack(a_ndim, m, k, trans_a, k), stack(b_ndim, k, n, trans_b, k)
    assert assert_engines_agree(caffe2, numbers(*shapes)) == ["NUMPY"]
    shapes = stack(a_ndim, m, k, False, k), stack(b_ndim, k, n, False, k)
    onnx = OperatorDef.of("MatMul", ["A", "B"], ["Y"], domain="onnx")
    inputs = numbers(*shapes, dtype=data.draw(st.sampled_from(["float32", "float64", "int32", "uint8"])))
    assert assert_engines_agree(onnx, inputs) == ["NUMPY"]
    magnitude = np.matmul(*map(np.abs, inputs))
    assert_close(run_kernel(onnx, inputs)[0], np.matmul(*inputs), terms=k, magnitude=magnitude)


@given(sizes, sizes, sizes, st.booleans(), st.booleans(), st.data())
@settings(max_examples=60)
def test_caffe2_matmul_and_gemm_agree_with_the_reference(
    m: int, k: int, n: int, left: bool, right: bool, data: Any
) -> None:
    a, b = (k, m) if left else (m, k), (n, k) if right else (k, n)
    op = OperatorDef.of("MatMul", ["A", "B"], ["Y"], trans_a=int(left), trans_b=int(right))
    assert assert_engines_agree(op, numbers(a, b)) == ["NUMPY"]
    c = data.draw(st.sampled_from([(), (1,), (n,), (m, 1), (1, n), (m, n)]))
    alpha, beta = data.draw(st.sampled_from([1.0, 0.5, 2.0])), data.draw(st.sampled_from([1.0, 0.25, 0.0]))
    op = gemm(transA=int(left), transB=int(right), alpha=alpha, beta=beta)
    assert assert_engines_agree(op, numbers(a, b, c)) == ["NUMPY"]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 5, 4), (2, 3, 7, 4)]),
        ("bihd,bjhd->bhij", [(2, 5, 3, 4), (2, 7, 3, 4)]),
        ("bhij,bjhd->bihd", [(2, 3, 5, 7), (2, 7, 3, 4)]),
        ("abc,cd->abd", [(2, 3, 4), (4, 5)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("...ij,...jk->...ik", [(1, 4, 2, 3), (5, 1, 3, 4)]),
        ("ji,jk->ki", [(3, 2), (3, 4)]),
    ],
)
def test_an_einsum_that_is_a_product_of_matrices(equation: str, shapes: Any) -> None:
    op = einsum(equation)
    inputs = numbers(*shapes)
    assert assert_engines_agree(op, inputs) == ["NUMPY"]
    magnitude = np.einsum(equation, *map(np.abs, inputs))
    assert_close(run_kernel(op, inputs)[0], np.einsum(equation, *inputs), terms=MOST_TERMS, magnitude=magnitude)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,i", [(3,), (3,)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ijk,ijl->il", [(2, 3, 4)] * 2),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("b...,...->b...", [(2, 3), (3,)]),
    ],
)
def test_other_einsums_are_left_to_the_reference_kernel(equation: str, shapes: Any) -> None:
    op = einsum(equation, len(shapes))
    inputs = numbers(*shapes)
    assert supporting_engines(op, inputs) == []
    magnitude = np.einsum(equation, *map(np.abs, inputs))
    (expected,) = onnxruntime_outputs(op, inputs, [np.float32])
    assert_close(run_kernel(op, inputs)[0], expected, terms=MOST_TERMS, magnitude=magnitude)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (OperatorDef.of("FC", ["X", "W", "b"], ["Y"]), [(256, 128), (300, 128), (300,)]),
        (OperatorDef.of("FCTransposed", ["X", "W", "b"], ["Y"]), [(1, 512), (512, 60_000), (60_000,)]),
        (OperatorDef.of("BatchMatMul", ["A", "B"], ["Y"], trans_b=1), [(8, 128, 96), (8, 128, 96)]),
        (gemm(alpha=0.5, beta=0.5), [(256, 64), (64, 256), (256, 256)]),
        (einsum("bihd,bjhd->bhij"), [(2, 128, 4, 32)] * 2),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_a_run_allocates_nothing(op: OperatorDef, shapes: Any) -> None:
    assert allocated_nbytes(op, numbers(*shapes), "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (
            OperatorDef.of("FC", ["X", "W", "b"], ["Y"]),
            [(2, 6), (4, 5), (4,)],
            "X has 6 elements, but the weights take 5",
        ),
        (OperatorDef.of("FC", ["X", "W", "b"], ["Y"]), [(2, 6), (4, 6), (5,)], "the bias must have 4 elements"),
        (OperatorDef.of("FC", ["X", "W", "b"], ["Y"], axis=3), [(2, 6), (4, 6), (4,)], "axis 3 is out of range"),
        (OperatorDef.of("FC", ["X", "W"], ["Y"]), [(2, 6), (4, 6)], "takes 3 inputs, got 2"),
        (OperatorDef.of("MatMul", ["A", "B"], ["Y"]), [(2, 3), (4, 5)], "A has 3 columns, but B has 4 rows"),
        (
            OperatorDef.of("BatchMatMul", ["A", "B"], ["Y"]),
            [(2, 3, 4), (3, 4, 5)],
            "the batches differ, which needs broadcast=1",
        ),
        (OperatorDef.of("BatchMatMul", ["A", "B"], ["Y"], broadcast=1), [(2, 3, 4), (3, 4, 5)], "do not broadcast"),
        (OperatorDef.of("MatMul", ["A", "B"], ["Y"], domain="onnx"), [(2, 3, 4), (3, 4, 5)], "do not broadcast"),
        (OperatorDef.of("MatMul", ["A", "B"], ["Y"], domain="onnx"), [(), (3,)], "must have dimensions"),
        (gemm(), [(2, 3), (3, 4), (3,)], "do not broadcast"),
        (gemm(), [(1, 3), (3, 4), (2, 4)], "C must broadcast"),
        (einsum("ij,jk", 1), [(2, 3)], "has 2 terms for 1 inputs"),
        (einsum("i$->i", 1), [(2, 3)], "an equation has letters"),
        (einsum("ijk->i", 1), [(2, 3)], "does not fit its input"),
        (einsum("ij->ik", 1), [(2, 3)], "must have labels of the inputs"),
        (einsum("b...->b", 1), [(2, 3)], "and the ellipsis"),
        (einsum("ii->i", 1), [(2, 3)], "dimension 'i' has both 2 and 3 elements"),
    ],
)
def test_refuses(op: OperatorDef, shapes: Any, rule: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, numbers(*shapes))


def test_gemm_of_integers_requires_whole_factors() -> None:
    a, b = numbers((2, 3), (3, 4), dtype=np.int32)
    op = OperatorDef.of("Gemm", ["A", "B"], ["Y"], domain="onnx", alpha=2.0)
    np.testing.assert_array_equal(run_kernel(op, [a, b])[0], 2 * (a @ b))
    assert assert_engines_match_reference(op, [a, b]) == ["NUMPY"]
    with pytest.raises(ArgumentError, match=r"alpha must be a whole number for int32, got 0\.5"):
        run_kernel(op.with_args(alpha=0.5), [a, b])


def test_determinants_of_a_stack_of_matrices() -> None:
    x = np.array([[[1, 2], [3, 4]], [[2, 0], [0, 3]]], np.float32)
    op = OperatorDef.of("Det", ["x"], ["y"], domain="onnx")
    assert_close(run_kernel(op, [x])[0], np.array([-2, 6], np.float32), terms=2, magnitude=np.array([10, 6]))
    with pytest.raises(ShapeError, match="square"):
        run_kernel(op, [x[:, :1]])
