"""MultiHeadAttention and GroupQueryAttention against onnxruntime on random shapes and attributes."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.planning.cost import cost_of
from runtime_arm.registry.schema import DataDependent, lookup
from runtime_arm.registry.specs import TensorSpec
from tests.runtime_arm.operators.attention.draws import TERMS, Draws, check, operator, trimmed
from tests.support.onnx_nodes import onnxruntime_outputs

MICROSOFT = "com.microsoft"


@pytest.mark.parametrize("seed", range(60))
def test_multi_head_attention(seed: int) -> None:
    draw = Draws(seed)
    batches, heads, queries = draw.choice([1, 2, 3]), draw.choice([1, 2, 5]), draw.choice([1, 3, 5])
    depth, width, past = draw.choice([4, 8]), draw.choice([4, 8]), draw.choice([0, 0, 3])
    new = queries if past else draw.choice([1, 4, 6])
    keys, has_heads = past + new, not past and draw.choice([True, False])
    width = depth if past or has_heads else width
    key = [draw.real(batches, heads, new, depth) if has_heads else draw.real(batches, new, heads * depth)]
    value = [draw.real(batches, heads, new, width) if has_heads else draw.real(batches, new, heads * width)]
    shape = draw.choice([None, (batches,), (batches, keys), (batches, queries, keys)])
    mask = None if shape is None else np.asarray(draw.rng.integers(0, 2, shape), np.int32)
    mask = np.asarray(draw.rng.integers(1, keys + 1, shape), np.int32) if shape == (batches,) else mask
    attributes: Dict[str, Any] = draw.some(unidirectional=1, scale=0.3, mask_filter_value=-50.0)
    if mask is not None and mask.ndim > 1:
        mask[..., 0] = 1  # where no key is seen, rounding to -10000 and something decides
    if new != queries:
        attributes.pop("unidirectional", None)
    extra = draw.maybe(draw.real(draw.choice([1, batches]), draw.choice([1, heads]), queries, keys))
    if mask is not None and "unidirectional" in attributes:
        extra = None  # onnxruntime adds -3.4e38 and the mask's -10000: NaN
    bias = draw.maybe(draw.real(heads * (2 * depth + width)))
    operands = [draw.real(batches, queries, heads * depth), *key, *value, bias, mask, extra]
    operands += [draw.real(batches, heads, past, depth) for _ in range(2)] if past else []
    outputs = ["y", "keys", "values", "scores"][: draw.choice([3, 4]) if past else draw.choice([1, 3, 4])]
    operands = trimmed(operands)
    check(
        operator("MultiHeadAttention", operands, outputs, MICROSOFT, {"num_heads": heads, **attributes}), operands, 21
    )


def test_queries_keys_and_values_in_one() -> None:
    draw = Draws(1)
    parts = [draw.real(2, 5, 3, 8) for _ in range(3)]
    apart = [part.reshape(2, 5, 24) for part in parts]
    expected = run_kernel(operator("MultiHeadAttention", apart, ["y"], MICROSOFT, {"num_heads": 3}), apart)[0]
    for packed in ([np.stack(parts, 3)], [apart[0], np.stack(parts[1:], 3)]):
        op = operator("MultiHeadAttention", packed, ["y"], MICROSOFT, {"num_heads": 3})
        assert assert_engines_match_reference(op, packed, terms=TERMS) == ["NUMPY"]
        np.testing.assert_array_equal(run_kernel(op, packed)[0], expected)
        specs = [TensorSpec(x.shape, x.dtype) for x in packed]
        assert cost_of(op, specs, lookup(op).infer(op, specs)).multiply_adds == 2 * 3 * 5 * 5 * (8 + 8)


def test_ends_and_starts_mask_keys() -> None:
    draw = Draws(2)
    operands: List[Any] = [draw.real(2, 3, 8), draw.real(2, 6, 8), draw.real(2, 6, 8), None]
    place = np.arange(6)
    rows = np.stack([(place < 5) & (place >= 1), (place < 6) & (place >= 3)]).astype(np.int32)
    results = []
    for mask in (np.array([5, 6, 1, 3], np.int32), rows):
        op = operator("MultiHeadAttention", [*operands, mask], ["y"], MICROSOFT, {"num_heads": 2})
        assert assert_engines_match_reference(op, [*operands, mask], terms=TERMS) == ["NUMPY"]
        results.append(run_kernel(op, [*operands, mask])[0])
    np.testing.assert_array_equal(*results)


def grouped(seed: int) -> Any:
    """A GroupQueryAttention with its operands: the first positions, the next ones, or next ones in a shared store."""
    draw = Draws(seed)
    key_heads, groups, depth = draw.choice([1, 2, 5]), draw.choice([1, 2]), draw.choice([16, 32])
    mode, queries = draw.choice(["first", "next", "shared"]), draw.choice([1, 1, 3])
    batches = 1 if mode != "first" and queries > 1 else draw.choice([1, 2])
    past = {"first": 0, "next": 4, "shared": 10}[mode]
    total = {"first": queries, "next": past + queries, "shared": queries + 5}[mode]
    last = np.full(batches, total - 1, np.int32)
    if mode == "shared" and batches > 1:
        last[0] -= 2
    heads = key_heads * groups
    counts = [heads + 2 * key_heads] if draw.choice([True, False]) else [heads, key_heads, key_heads]
    operands: List[Any] = [draw.real(batches, queries, count * depth) for count in counts]
    operands += [None] * (3 - len(counts))
    store = [draw.real(batches, key_heads, past, depth) for _ in range(2)]
    operands += [None, None] if mode == "first" and draw.choice([True, False]) else store
    operands += [last, np.array([total], np.int32)]
    attributes: Dict[str, Any] = draw.some(scale=0.3, softcap=2.0, local_window_size=draw.choice([1, 2, 3]))
    if draw.choice([True, False]):
        attributes.update(do_rotary=1, **draw.some(rotary_interleaved=1))
        place = np.stack([end + 1 - queries + np.arange(queries) for end in last]).astype(np.int64)
        operands += [draw.real(16, depth // 2), draw.real(16, depth // 2), draw.maybe(place)]
    else:
        operands += [None] * 3
    operands.append(draw.maybe(draw.real(draw.choice([1, batches]), draw.choice([1, heads]), queries, total)))
    operands.append(draw.maybe(draw.real(heads)))
    attributes.update({} if operands[-1] is not None else draw.some(smooth_softmax=1))
    attributes.update(num_heads=heads, kv_num_heads=key_heads)
    operands = trimmed(operands)
    return operator("GroupQueryAttention", operands, ["y", "keys", "values"], MICROSOFT, attributes), operands


@pytest.mark.parametrize("seed", range(80))
def test_group_query_attention(seed: int) -> None:
    op, operands = grouped(seed)
    assert assert_engines_match_reference(op, operands, terms=TERMS, constants=[6]) == ["NUMPY"]
    results = run_kernel(op, operands, constants=[6])
    expected = onnxruntime_outputs(op, operands, [np.float32] * 3)
    assert_close(results[0], expected[0], terms=TERMS, magnitude=np.abs(expected[0]).max() + 3)
    for actual, wanted in zip(results[1:], expected[1:]):
        for batch, end in enumerate(operands[5]):  # nothing is said about what lies behind
            known = actual[batch, :, : end + 1], wanted[batch, :, : end + 1]
            assert_close(*known, terms=2, magnitude=10)


@pytest.mark.parametrize("window", [-1, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_keys_that_a_query_does_not_see_may_be_nan(bias: bool, window: int) -> None:
    draw = Draws(0)
    q, k, v = draw.real(1, 12, 32), draw.real(1, 12, 16), draw.real(1, 12, 16)
    k[:, 7] = np.nan
    past = np.zeros((1, 2, 0, 8), np.float32)
    added = draw.real(1, 4, 12, 12)
    added[:, :, 9] = -np.inf
    operands = [q, k, v, past, past, np.array([[11]], np.int32), np.array([12], np.int32), None, None, None]
    operands = trimmed([*operands, added if bias else None])
    attributes = {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window}
    op = operator("GroupQueryAttention", operands, ["y", "keys", "values"], MICROSOFT, attributes)
    assert assert_engines_match_reference(op, operands, terms=TERMS, constants=[6]) == ["NUMPY"]
    y, theirs = (
        ran[0] for ran in (run_kernel(op, operands, "NUMPY", [6]), onnxruntime_outputs(op, operands, [np.float32] * 3))
    )
    seeing = [row for row in range(12) if 7 < row < (12 if window < 0 else 10) and not (bias and row == 9)]
    assert np.isnan(y[0, [7, *seeing]]).all()
    assert np.isnan(theirs[0, seeing]).all()
    rest = [row for row in range(12) if row not in (7, *seeing)]
    assert_close(y[0, rest], theirs[0, rest], terms=TERMS, magnitude=6)


def test_the_room_depends_on_the_total() -> None:
    op, operands = grouped(0)
    with pytest.raises(DataDependent, match="total_sequence_length"):
        supporting_engines(op, operands)


def test_refusals() -> None:
    op, operands = grouped(0)
    operands[5] = operands[5] + 99
    with pytest.raises(OperatorError, match=r"the last position 1.* does not fit"):
        run_kernel(op, operands, constants=[6])
    q = Draws(0).real(1, 2, 12)
    one = operator("MultiHeadAttention", [q, q, q], ["y"], MICROSOFT, {"num_heads": 5})
    with pytest.raises(ShapeError, match="5 heads"):
        supporting_engines(one, [q, q, q])
    six = operator("GroupQueryAttention", operands, ["y"], MICROSOFT, {"num_heads": 3, "kv_num_heads": 2})
    with pytest.raises(ArgumentError, match="2 heads of keys must divide 3 heads"):
        supporting_engines(six, operands, constants=[6])
