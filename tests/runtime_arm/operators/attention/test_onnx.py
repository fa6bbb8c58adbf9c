"""ONNX's Attention against onnxruntime on random shapes and attributes; in ONNX's node cases: test_onnx_nodes.py."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.operators.attention import core
from tests.runtime_arm.operators.attention.draws import TERMS, Draws, check, operator, trimmed
from tests.support.onnx_nodes import onnxruntime_outputs


@pytest.mark.parametrize("seed", range(60))
def test_attention(seed: int) -> None:
    draw = Draws(seed)
    batches, key_heads, groups = draw.choice([1, 2, 3]), draw.choice([1, 2, 5]), draw.choice([1, 2])
    queries, new, past = draw.choice([1, 3, 5]), draw.choice([2, 4, 6]), draw.choice([0, 0, 3])
    depth, width, heads = draw.choice([4, 8]), draw.choice([4, 8]), key_heads * groups
    new = queries if past else new
    keys = past + new
    attributes: Dict[str, Any] = draw.some(is_causal=1, scale=0.3, softcap=2.0)
    operands: List[Any] = [
        draw.real(batches, heads, queries, depth),
        draw.real(batches, key_heads, new, depth),
        draw.real(batches, key_heads, new, width),
    ]
    if draw.choice([True, False]):
        operands = [np.ascontiguousarray(x.swapaxes(1, 2)).reshape(batches, x.shape[2], -1) for x in operands]
        attributes.update(q_num_heads=heads, kv_num_heads=key_heads)
    shape = [draw.choice([1, batches]), draw.choice([1, heads]), queries, keys][draw.choice([0, 1, 2]) :]
    mask = draw.choice([None, draw.real(*shape), draw.real(*shape) > 0])
    if mask is not None and mask.dtype == bool:
        mask[..., 0] = True
    operands += [mask, *([draw.real(batches, key_heads, past, n) for n in (depth, width)] if past else [])]
    outputs = ["y", "keys", "values", "scores"][: draw.choice([3, 4]) if past else 1]
    attributes.update({"qk_matmul_output_mode": draw.choice([0, 1, 3])} if len(outputs) == 4 else {})
    operands = trimmed(operands)
    check(operator("Attention", operands, outputs, "onnx", attributes), operands, opset=24)


@pytest.mark.parametrize("queries", [1, 40, 700])
@pytest.mark.parametrize("sides", [(-1, -1), (5, 0), (3, 2), (-1, 4)])
def test_blocks_and_windows(queries: int, sides: tuple[int, int]) -> None:
    """Several blocks of queries and heads, between past keys and windows."""
    draw = Draws(queries)
    operands = [draw.real(2, 6, queries, 8), draw.real(2, 3, queries, 8), draw.real(2, 3, queries, 8), None]
    operands += [draw.real(2, 3, 70, 8), draw.real(2, 3, 70, 8)]
    attributes = {"left_window_size": sides[0], "right_window_size": sides[1]}
    for outputs in (["y"], ["y", "keys", "values"]):
        op = operator("Attention", operands, outputs, "onnx", attributes)
        assert assert_engines_match_reference(op, operands, terms=TERMS) == ["NUMPY"]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("kind", ["bools", "floats"])
@pytest.mark.parametrize("causal", [0, 1])
def test_rows_that_are_masked_throughout_are_0(causal: int, kind: str, operand: int, wrong: float) -> None:
    """Whatever queries and keys hold. onnxruntime lets a key that only ``is_causal`` hides spoil other rows."""
    draw = Draws(causal)
    operands = [draw.real(2, 4, 70, 8), draw.real(2, 2, 70, 8), draw.real(2, 2, 70, 8), draw.real(2, 1, 70, 70) > -1]
    operands[3][:, :, 10:30] = False
    operands[operand][:, :, [20, 60], 3] = wrong
    if kind == "floats":
        operands[3] = np.where(operands[3], np.float32(0), np.float32(-np.inf))
    op = operator("Attention", operands, ["y"], "onnx", {"is_causal": causal})
    assert assert_engines_match_reference(op, operands, terms=TERMS) == ["NUMPY"]
    (y,), (theirs,) = run_kernel(op, operands, "NUMPY"), onnxruntime_outputs(op, operands, [np.float32], 23)
    np.testing.assert_array_equal(y[:, :, 10:30], 0)
    finite = np.isfinite(theirs)
    assert finite[:, :, 10:30].all()
    assert not finite.all()
    assert_close(y[finite], theirs[finite], terms=TERMS, magnitude=6)
    assert np.isfinite(y[:, :, :10]).all() == bool(causal or operand == 0)


def test_windows_share_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are no other than more heads where nothing tells them apart."""
    solved: List[Any] = []
    solve = core._Solver.solve
    monkeypatch.setattr(core._Solver, "solve", lambda *args: (solved.append(args), solve(*args)))
    draw = Draws(0)
    operands = [draw.real(200, 2, 5, 8), draw.real(200, 2, 7, 8), draw.real(200, 2, 7, 6)]
    op = operator("Attention", operands, ["y"], "onnx", {})
    assert assert_engines_match_reference(op, operands, terms=TERMS) == ["NUMPY"]
    assert 4 <= len(solved) < 20


@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (1, 2, 0, 3), (1, 2, 3, 0), (2, 1, 0, 0)])
@pytest.mark.parametrize("masked", [False, True])
def test_nothing_is_asked_or_nothing_known(shape: tuple[int, int, int, int], masked: bool) -> None:
    (batch, heads, queries, keys), draw = shape, Draws(3)
    operands = [draw.real(batch, heads, length, 4) for length in (queries, keys, keys)]
    operands += [draw.real(queries, keys)] if masked else []
    op = operator("Attention", operands, ["y"], "onnx", {})
    assert assert_engines_match_reference(op, operands, terms=TERMS) == ["NUMPY"]


def test_blocks_of_many_keys_have_rows_enough() -> None:
    assert core.block_of(1, 4, 3000, 3000) == (1, core.FEWEST_ROWS)
    assert core.block_of(1, 4, 5, 3000) == (1, 5)
    assert core.block_of(1, 12, 197, 197) == (1, 197)


@pytest.mark.parametrize("causal", [0, 1])
def test_numbers_of_keys(causal: int) -> None:
    """Keys from the given number on are not seen; queries that see none give 0."""
    draw = Draws(causal)
    operands: List[Any] = [draw.real(3, 2, 4, 8), draw.real(3, 2, 9, 8), draw.real(3, 2, 9, 8), None, None, None]
    operands.append(np.array([9, 2, 5], np.int64))
    op = operator("Attention", operands, ["y"], "onnx", {"is_causal": causal})
    assert assert_engines_match_reference(op, operands, terms=TERMS) == ["NUMPY"]
    y = run_kernel(op, operands)[0]
    for batch, count in enumerate([9, 2, 5]):
        cut = [operands[0][batch : batch + 1], *(x[batch : batch + 1, :, :count] for x in operands[1:3])]
        whole = run_kernel(operator("Attention", cut, ["y"], "onnx", {}), cut)[0]
        if not causal:
            assert_close(y[batch], whole[0])
    assert (y[1, :, :2] == 0).all() == bool(causal)


@pytest.mark.parametrize("engine", ["REFERENCE", "NUMPY"])
@pytest.mark.parametrize("count", [-1, 10, 2**40])
def test_more_keys_than_there_are_cannot_be_seen(engine: str, count: int) -> None:
    draw = Draws(0)
    operands: List[Any] = [draw.real(1, 2, 4, 8), draw.real(1, 2, 9, 8), draw.real(1, 2, 9, 8), None, None, None]
    operands.append(np.array([count], np.int64))
    op = operator("Attention", operands, ["y"], "onnx", {"is_causal": 1})
    with pytest.raises(OperatorError, match=f"{count} keys cannot be seen, there are 9"):
        run_kernel(op, operands, engine)


def test_refusals() -> None:
    draw = Draws(0)
    q, k = draw.real(1, 4, 2, 8), draw.real(1, 3, 2, 8)
    with pytest.raises(ShapeError, match="3 heads of keys must divide 4 heads"):
        supporting_engines(operator("Attention", [q, k, k], ["y"], "onnx", {}), [q, k, k])
    flat = draw.real(1, 2, 8)
    with pytest.raises(ArgumentError, match="q_num_heads and kv_num_heads are required"):
        supporting_engines(operator("Attention", [flat] * 3, ["y"], "onnx", {}), [flat] * 3)
    mask = draw.real(3, 2)
    with pytest.raises(ShapeError, match=r"the mask must broadcast to \[1, 4, 2, 2\]"):
        supporting_engines(operator("Attention", [q, q, q, mask], ["y"], "onnx", {}), [q, q, q, mask])
