"""ONNX's Attention."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.attention.cache import store_specs, stores, storing, together
from runtime_arm.operators.attention.core import (
    Biases,
    Problem,
    attend64,
    band64,
    blocked,
    grouped,
    join_heads,
    score_scratch,
    split_heads,
)
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


class Sizes(NamedTuple):
    """The sizes of an Attention: batches, heads of queries and of keys, lengths, numbers a head."""

    batches: int
    heads: int
    key_heads: int
    queries: int
    new: int
    past: int
    depth: int
    width: int

    @property
    def keys(self) -> int:
        return self.past + self.new

    @property
    def stored(self) -> Tuple[int, int, int]:
        """Batches, heads and length of the keys and values, the past included."""
        return self.batches, self.key_heads, self.keys


def sizes_of_heads(op: OperatorDef, q: TensorSpec, k: TensorSpec, v: TensorSpec, past: Optional[TensorSpec]) -> Sizes:
    require(
        op, q.ndim == k.ndim == v.ndim and q.ndim in (3, 4), "Q, K and V must all have 3 or all 4 dimensions", q, k, v
    )
    if q.ndim == 3:
        heads, key_heads = op.get_int("q_num_heads", 0), op.get_int("kv_num_heads", 0)
        if heads < 1 or key_heads < 1:
            raise ArgumentError(op, "q_num_heads and kv_num_heads are required for 3 dimensions")
        divides = not (q.shape[2] % heads or k.shape[2] % key_heads or v.shape[2] % key_heads)
        require(op, divides, f"{heads} and {key_heads} heads must divide the last dimensions", q, k, v)
        shapes = [(x.shape[0], n, x.shape[1], x.shape[2] // n) for x, n in ((q, heads), (k, key_heads), (v, key_heads))]
    else:
        shapes = [x.shape for x in (q, k, v)]  # type: ignore[misc]
    (batches, heads, queries, depth), keys, values = shapes
    require(op, keys[:3] == values[:3] and keys[0] == batches and keys[3] == depth, "Q, K and V do not fit", q, k, v)
    require(op, keys[1] > 0 and heads % keys[1] == 0, f"{keys[1]} heads of keys must divide {heads} heads", q, k)
    old = 0 if past is None else past.shape[2] if past.ndim == 4 else -1
    return Sizes(batches, heads, keys[1], queries, keys[2], old, depth, values[3])


@operator("Attention", domain="onnx", inputs=(3, 7), outputs=(1, 4), multiply_adds=lambda op, x, y: _products(op, x))
def attention(
    op: OperatorDef, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Optional[TensorSpec]
) -> List[TensorSpec]:
    """Y = softmax(softcap(Q K^T scale) + bias) V, heads apart. Outputs: Y, the keys and the values with the past before
    them, and the scores.

    Q (B, H, S, D), K (B, N, L, D), V (B, N, L, E); N divides H. Or (B, S, H D), (B, L, N D), (B, L, N E) with
    ``q_num_heads`` and ``kv_num_heads``. Inputs 3 to 6: a mask that broadcasts to (B, H, S, T), of bools (true: seen)
    or floats, which are added; past keys and values (B, N, P, ...), T = P + L; the number of keys of each batch.
    ``scale`` (1 / sqrt(D)), ``softcap``. ``is_causal``, ``left_window_size``, ``right_window_size``: see ``core``; the
    offset is P, or the number of keys less S. A query that sees nothing gives 0. ``qk_matmul_output_mode``: the scores
    0 as products, 1 with softcap, 2 with bias, 3 as probabilities. The softmax is at least as exact as
    ``softmax_precision`` asks. Source: onnx/defs/nn.
    """
    mask, past_key, past_value, lengths = (*rest, *[None] * 4)[:4]
    require_floats(op, q, k)
    require(op, v.dtype.kind == "f", "V must hold floats", v)
    size = sizes_of_heads(op, q, k, v, past_key)
    require(op, (past_key is None) == (past_value is None), "past keys and values must be given together")
    for past, numbers in ((past_key, size.depth), (past_value, size.width)):
        wanted = (size.batches, size.key_heads, size.past, numbers)
        require(op, past is None or past.shape == wanted, f"the past must have the shape {list(wanted)}", past)
    if lengths is not None:
        require(op, past_key is None, "the numbers of keys and a past exclude each other")
        require(
            op, lengths.shape == (size.batches,) and lengths.dtype.kind in "iu", "one number of keys per batch", lengths
        )
    if mask is not None:
        _check_mask(op, mask, q, size)
    mode = op.get_int("qk_matmul_output_mode", 0)
    if not 0 <= mode <= 3:
        raise ArgumentError(op, f"qk_matmul_output_mode must be 0 to 3, got {mode}")
    y = (size.batches, size.heads, size.queries, size.width)
    shape = y if q.ndim == 4 else (size.batches, size.queries, size.heads * size.width)
    scores = (size.batches, size.heads, size.queries, size.keys)
    return [
        TensorSpec(shape, q.dtype),
        TensorSpec((*size.stored, size.depth), k.dtype),
        TensorSpec((*size.stored, size.width), v.dtype),
        TensorSpec(scores, q.dtype),
    ]


def _products(op: OperatorDef, inputs: Specs) -> int:
    q, k, v = inputs[:3]
    assert q is not None
    assert k is not None
    assert v is not None
    size = sizes_of_heads(op, q, k, v, inputs[4] if len(inputs) > 4 else None)
    return size.batches * size.heads * size.queries * size.keys * (size.depth + size.width)


def _check_mask(op: OperatorDef, mask: TensorSpec, q: TensorSpec, size: Sizes) -> None:
    whole = (size.batches, size.heads, size.queries, size.keys)
    require(op, mask.dtype == np.bool_ or mask.dtype == q.dtype, "the mask must hold bools or what Q holds", mask, q)
    tail = whole[4 - mask.ndim :] if 1 <= mask.ndim <= 4 else ()
    fits = bool(tail) and all(m in (1, n) for m, n in zip(mask.shape[:-1], tail))
    fits = fits and (mask.shape[-1] <= size.keys)
    require(op, fits, f"the mask must broadcast to {list(whole)}", mask)


def _sides(op: OperatorDef) -> Tuple[int, int]:
    left, right = op.get_int("left_window_size", -1), op.get_int("right_window_size", -1)
    return left, 0 if op.get_bool("is_causal") else right


def scale_of(op: OperatorDef, depth: int) -> float:
    return op.get_float("scale", 0.0) or 1 / max(depth, 1) ** 0.5


def _padded(mask: Array, keys: int) -> Array:
    """A mask of bools or floats as a bias for all keys, float64; keys beyond the mask are not seen."""
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask.astype(np.float64)
    return np.pad(bias, [(0, 0)] * (bias.ndim - 1) + [(0, keys - bias.shape[-1])], constant_values=-np.inf)


def biases64(
    op: OperatorDef, q: Array, k: Array, mask: Optional[Array], past: int = 0, lengths: Optional[Array] = None
) -> Biases:
    """What is added to the scores (B, H, S, T) of queries q (B, H, S, D) and all keys k (B, N, T, D)."""
    if lengths is not None:
        _check_lengths(op, lengths, k.shape[2])
    offset: Any = past if lengths is None else lengths.astype(np.int64) - q.shape[2]
    window = band64(q.shape[2], k.shape[2], offset, _sides(op), lengths)
    return Biases(window) if mask is None else Biases(window, _padded(mask, k.shape[2]))


def _check_lengths(op: OperatorDef, lengths: Array, keys: int) -> None:
    """OperatorError unless every batch has 0 to ``keys`` keys that are no padding."""
    for count in lengths.tolist():
        if not 0 <= count <= keys:
            raise OperatorError(op, f"{count} keys cannot be seen, there are {keys}: lengths must be 0 to {keys}")


@attention.reference
def attention_reference(op: OperatorDef, q: Array, k: Array, v: Array, *rest: Optional[Array]) -> List[Any]:
    mask, past_key, past_value, lengths = (*rest, *[None] * 4)[:4]
    flat, dtype = q.ndim == 3, q.dtype
    q, k, v = heads_apart(op, q, k, v)
    past = 0
    if past_key is not None and past_value is not None:
        k, v, past = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2), past_key.shape[2]
    biases = biases64(op, q, k, mask, past, lengths)
    y, stages = attend64(q, k, v, scale_of(op, q.shape[3]), biases, op.get_float("softcap", 0.0))
    scores = stages[op.get_int("qk_matmul_output_mode", 0)]
    return [(join_heads(y) if flat else y).astype(dtype), k.copy(), v.copy(), scores.astype(dtype)]


def heads_apart(op: OperatorDef, q: Array, *others: Array) -> List[Array]:
    """Q, then keys or values, as (B, heads, length, numbers)."""
    if q.ndim == 4:
        return [q, *others]
    key_heads = op.get_int("kv_num_heads")
    return [split_heads(q, op.get_int("q_num_heads")), *(split_heads(x, key_heads) for x in others)]


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if len(op.output) > 3:
        return "only without the scores"
    if any(x is not None and x.dtype.kind == "f" and x.dtype != outputs[0].dtype for x in inputs):
        return "only for one float type"
    return single_or_double(op, inputs, outputs)


def _sizes_of(op: OperatorDef, inputs: Specs) -> Sizes:
    q, k, v, _, past = (*inputs, None, None)[:5]
    assert q is not None
    assert k is not None
    assert v is not None
    return sizes_of_heads(op, q, k, v, past)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    size, dtype = _sizes_of(op, inputs), outputs[0].dtype
    heads = size.key_heads * (size.stored[0] if _are_like_heads(inputs, outputs) else 1)
    scores = score_scratch(dtype, size.heads // size.key_heads, heads, size.queries, size.keys)
    stored = [TensorSpec((*size.stored, numbers), dtype) for numbers in (size.depth, size.width)]
    mask = inputs[3] if len(inputs) > 3 else None
    biases = [] if mask is None else [TensorSpec((*[1] * (4 - mask.ndim), *mask.shape[:-1], size.keys), dtype)]
    return [*scores, *biases, *store_specs(op, 1, _has_past(inputs), stored)]


def _has_past(inputs: Sequence[Any]) -> bool:
    return len(inputs) > 4 and inputs[4] is not None


def _are_like_heads(inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Whether batches are no other than more heads: a block then holds several of them, as many as windows are."""
    return inputs[0].ndim == 4 and all(x is None for x in inputs[3:]) and len(outputs) == 1


@attention.kernel("NUMPY", supports=_refuses, scratch=_scratch, splits_work=True)
def attention_numpy(call: Call) -> Run:
    op, size = call.op, _sizes_of(call.op, call.in_specs)
    mask, past_key, past_value, lengths = (*call.inputs[3:], *[None] * 4)[:4]
    q, k, v = heads_apart(op, *call.inputs[:3])
    y = call.outputs[0] if q is call.inputs[0] else split_heads(call.outputs[0], size.heads)
    bias = None if mask is None else call.scratch[2]
    kept = stores(call, 1, _has_past(call.inputs), call.scratch[2 if mask is None else 3 :])
    fills = [storing(s, past, new) for s, past, new in zip(kept, (past_key, past_value), (k, v)) if s is not None]
    k, v = (new if store is None else store for store, new in zip(kept, (k, v)))
    q, y = grouped(q, size.key_heads), grouped(y, size.key_heads)
    if _are_like_heads(call.inputs, call.outputs):
        q, k, v, y = (x.reshape(1, x.shape[0] * x.shape[1], *x.shape[2:]) for x in (q, k, v, y))
    problem = Problem(
        q,
        k,
        v,
        y,
        scale_of(op, size.depth),
        [] if bias is None else [grouped(bias, size.key_heads)],
        op.get_float("softcap", 0.0),
        _sides(op),
        (lambda batch: size.past) if lengths is None else (lambda batch: int(lengths[batch]) - size.queries),
        None if lengths is None else (lambda batch: int(lengths[batch])),
        prepare=together(fills),
    )
    attend = blocked(call, problem, call.scratch[:2])
    if bias is None and lengths is None:
        return attend

    def run() -> None:
        if lengths is not None:
            _check_lengths(op, lengths, size.keys)
        if bias is not None:
            _fill_bias(bias, mask)
        attend()

    return run


def _fill_bias(bias: Array, mask: Array) -> None:
    """Write a mask as a bias; keys beyond it are not seen."""
    length = mask.shape[-1]
    bias[..., length:] = -np.inf
    if mask.dtype == np.bool_:
        bias[..., :length] = -np.inf
        np.copyto(bias[..., :length], 0, where=mask)
    else:
        np.copyto(bias[..., :length], mask)
