"""onnxruntime's MultiHeadAttention."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.attention.cache import Steps, adding, store_specs, stores, storing, together
from runtime_arm.operators.attention.core import (
    OPEN,
    Biases,
    Problem,
    attend64,
    band64,
    blocked,
    join_heads,
    score_scratch,
    split_heads,
)
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn


class Sizes(NamedTuple):
    """Batches, heads, lengths, and the numbers of a head of queries and keys (depth) and of values (width)."""

    batches: int
    heads: int
    queries: int
    new: int
    past: int
    depth: int
    width: int

    @property
    def keys(self) -> int:
        return self.past + self.new

    @property
    def biases(self) -> Tuple[int, int, int]:
        """The lengths of the biases of queries, keys and values."""
        return self.heads * self.depth, self.heads * self.depth, self.heads * self.width


def _heads(op: OperatorDef, x: TensorSpec, what: str) -> Tuple[int, int, int]:
    """Batches, length and the numbers of a head of (B, S, H D) or (B, H, S, D)."""
    heads = op.get_int("num_heads")
    if x.ndim == 4:
        require(op, x.shape[1] == heads, f"{what} must have {heads} heads", x)
        return x.shape[0], x.shape[2], x.shape[3]
    require(op, x.ndim == 3 and x.shape[2] % heads == 0, f"{what} must be (N, length, numbers of {heads} heads)", x)
    return x.shape[0], x.shape[1], x.shape[2] // heads


def _sizes(op: OperatorDef, inputs: Specs) -> Sizes:
    query, key, value = inputs[:3]
    past = inputs[6] if len(inputs) > 6 else None
    heads = op.get_int("num_heads")
    if heads < 1:
        raise ArgumentError(op, f"num_heads must be positive, got {heads}")
    assert query is not None
    old = 0 if past is None or past.ndim != 4 else past.shape[2]
    if query.ndim == 5:
        fits = query.shape[2:4] == (heads, 3) and key is value is None
        require(op, fits, f"packed queries, keys and values must be (N, length, {heads}, 3, numbers)", query)
        return Sizes(query.shape[0], heads, query.shape[1], query.shape[1], old, query.shape[4], query.shape[4])
    batches, queries, depth = _heads(op, query, "the query")
    if key is not None and key.ndim == 5:
        wanted = (batches, key.shape[1], heads, 2, depth)
        require(op, key.shape == wanted and value is None, f"packed keys and values must be {list(wanted)}", key)
        return Sizes(batches, heads, queries, key.shape[1], old, depth, depth)
    require(op, key is not None and value is not None, "key and value are required", query)
    assert key is not None
    assert value is not None
    keys, values = _heads(op, key, "the key"), _heads(op, value, "the value")
    require(
        op, keys == (batches, keys[1], depth) and values[:2] == keys[:2], "query, key and value do not fit", *inputs[:3]
    )
    return Sizes(batches, heads, queries, keys[1], old, depth, values[2])


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    size = _sizes(op, _given(inputs))
    return size.batches * size.heads * size.queries * size.keys * (size.depth + size.width)


@operator("MultiHeadAttention", domain="com.microsoft", inputs=(1, 10), outputs=(1, 4), multiply_adds=_products)
def multi_head_attention(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y (N, S, H E) = softmax(Q K^T scale + bias) V with ``num_heads`` heads. Outputs: Y, all keys and all values
    (N, H, T, ...), the scores with all that is added to them.

    Inputs: query (N, S, H D), key (N, L, H D) and value (N, L, H E), or key and value (N, H, L, ...); or query and no
    more (N, L, H, 3, D); or key and value in one (N, L, H, 2, D). bias (2 H D + H E), which is added to the three; not
    to keys (N, H, L, D). A mask: the number of keys (N); for Attention the ends and starts (2 N); or 1 for a key that
    is seen, else 0: (N, T) or (N, S, T). What is added to the products: (N or 1, H or 1, S, T). Past keys and values
    (N, H, P, ...), T = P + L. ``scale`` (1 / sqrt(D)); ``unidirectional``: no key after the query is seen;
    ``mask_filter_value`` (-10000) is added for a key that is masked. Source: onnxruntime's ContribOperators.md.
    """
    given = _given(inputs)
    query, key, value, bias, mask, extra, past_key, past_value, past_length, beams = given
    require(op, query is not None, "the query is required")
    assert query is not None
    size = _sizes(op, given)
    require_floats(op, query, key, value, bias, extra, past_key, past_value)
    require(op, past_length is None and beams is None, "caches that are shared or have beams are not supported")
    require(
        op, bias is None or bias.shape == (sum(size.biases),), f"the bias must have {sum(size.biases)} elements", bias
    )
    require(op, (past_key is None) == (past_value is None), "past keys and values must be given together")
    for past, numbers in ((past_key, size.depth), (past_value, size.width)):
        wanted = (size.batches, size.heads, size.past, numbers)
        require(op, past is None or past.shape == wanted, f"the past must have the shape {list(wanted)}", past)
    whole = size.new == size.queries or not op.get_bool("unidirectional")
    require(op, whole, "unidirectional takes as many new keys as queries", query, key)
    _check_masks(op, size, mask, extra)
    stored = (size.batches, size.heads, size.keys)
    scores = (size.batches, size.heads, size.queries, size.keys)
    shapes = [(size.batches, size.queries, size.biases[2]), (*stored, size.depth), (*stored, size.width), scores]
    return [TensorSpec(shape, query.dtype) for shape in shapes]


def _check_masks(op: OperatorDef, size: Sizes, mask: Optional[TensorSpec], extra: Optional[TensorSpec]) -> None:
    if mask is not None:
        count = size.batches
        shapes = [(count,), (2 * count,), (count, size.keys), (count, size.queries, size.keys)]
        fits = mask.shape in shapes and mask.dtype.kind in "iu"
        require(op, fits, f"the mask must be integers of a shape among {', '.join(str(list(s)) for s in shapes)}", mask)
    if extra is not None:
        fits = extra.ndim == 4 and extra.shape[0] in (1, size.batches) and extra.shape[1] in (1, size.heads)
        fits = fits and extra.shape[2:] == (size.queries, size.keys)
        require(op, fits, f"what is added must be (N, H, {size.queries}, {size.keys}) or have ones for N or H", extra)


def _views(op: OperatorDef, query: Array, key: Optional[Array], value: Optional[Array]) -> List[Array]:
    """Queries, keys and values as views (N, H, length, numbers)."""
    if query.ndim == 5:
        return [query[:, :, :, part].swapaxes(1, 2) for part in range(3)]
    heads = op.get_int("num_heads")
    q = split_heads(query, heads)
    assert key is not None
    if key.ndim == 5:
        return [q, *(key[:, :, :, part].swapaxes(1, 2) for part in range(2))]
    assert value is not None
    return [q, *(x if x.ndim == 4 else split_heads(x, heads) for x in (key, value))]


def _biases(size: Sizes, bias: Optional[Array], key: Optional[Array]) -> List[Optional[Array]]:
    """The biases (H, 1, numbers) of queries, keys and values; keys and values that have heads already get none."""
    if bias is None:
        return [None, None, None]
    ends = np.cumsum(size.biases)
    parts = [part.reshape(size.heads, 1, -1) for part in (bias[: ends[0]], bias[ends[0] : ends[1]], bias[ends[1] :])]
    return [parts[0], None, None] if key is not None and key.ndim == 4 else list(parts)


def _seen(mask: Array, size: Sizes) -> Array:
    """Which keys a mask lets be seen, (N, 1, 1 or S, T)."""
    place = np.arange(size.keys)
    if mask.ndim == 1:
        starts = mask[size.batches :] if mask.size > size.batches else np.zeros_like(mask)
        ends, starts = (x.reshape(-1, 1, 1, 1) for x in (mask[: size.batches], starts))
        return (place < ends) & (place >= starts)
    return np.reshape(mask != 0, (size.batches, 1, -1, size.keys))


@multi_head_attention.reference
def multi_head_attention_reference(op: OperatorDef, query: Array, *rest: Optional[Array]) -> List[Any]:
    key, value, bias, mask, extra, past_key, past_value = (*rest, *[None] * 7)[:7]
    inputs = [None if x is None else TensorSpec(x.shape, x.dtype) for x in (query, *rest)]
    size = _sizes(op, _given(inputs))
    parts = _views(op, query, key, value)
    q, k, v = (x if b is None else x + b for x, b in zip(parts, _biases(size, bias, key)))
    if past_key is not None and past_value is not None:
        k, v = np.concatenate((past_key, k), 2), np.concatenate((past_value, v), 2)
    causal = op.get_bool("unidirectional")
    window, added = band64(size.queries, size.keys, size.past, (-1, 0) if causal else OPEN), np.zeros(())
    if mask is not None:
        added = added + np.where(_seen(mask, size), 0.0, op.get_float("mask_filter_value", -10000.0))
    if extra is not None:
        added = added + extra
    y, stages = attend64(q, k, v, _scale(op, size), Biases(window, added))
    scores = np.maximum(stages.biased, np.finfo(query.dtype).min)
    return [x.astype(query.dtype) for x in (join_heads(y), k, v, scores)]


def _scale(op: OperatorDef, size: Sizes) -> float:
    return op.get_float("scale", 0.0) or 1 / max(size.depth, 1) ** 0.5


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return "only without the scores" if len(op.output) > 3 else single_or_double(op, inputs, outputs)


def _given(inputs: Sequence[Any]) -> List[Any]:
    return [*inputs, *[None] * (10 - len(inputs))]


def _needs_stores(inputs: Sequence[Any]) -> bool:
    """Whether keys and values must be put together: there is a past, or a bias to add to them."""
    key, bias, past = (_given(inputs)[at] for at in (1, 3, 6))
    return past is not None or (bias is not None and not (key is not None and key.ndim == 4))


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    given, dtype = _given(inputs), outputs[0].dtype
    size = _sizes(op, given)
    stored = [TensorSpec((size.batches, size.heads, size.keys, n), dtype) for n in (size.depth, size.width)]
    queries = TensorSpec((size.batches, size.heads, 1, size.queries, size.depth), dtype)
    rows = size.queries if given[4] is not None and given[4].ndim == 3 else 1
    mask = TensorSpec((size.batches, 1, 1, rows, size.keys), dtype)
    return [
        *score_scratch(dtype, 1, size.heads, size.queries, size.keys),
        *([queries] if given[3] is not None else []),
        *([mask, TensorSpec(mask.shape, bool)] if given[4] is not None else []),
        *store_specs(op, 1, _needs_stores(inputs), stored),
    ]


@multi_head_attention.kernel("NUMPY", supports=_refuses, scratch=_scratch, splits_work=True)
def multi_head_attention_numpy(call: Call) -> Run:
    op, given = call.op, _given(call.inputs)
    query, key, value, bias, mask, extra, past_key, past_value = given[:8]
    size, spare = _sizes(op, _given(call.in_specs)), list(call.scratch[2:])
    q, k, v = _views(op, query, key, value)
    q = q[:, :, np.newaxis]
    of_query, *others = _biases(size, bias, key)
    prepared: List[Steps] = []
    if of_query is not None:
        prepared.append(adding(spare[0], q, of_query[:, np.newaxis]))
        q = spare.pop(0)
    biases = [] if extra is None else [extra[:, :, np.newaxis]]
    fill = None
    if mask is not None:
        biases.append(spare.pop(0))
        fill = _filling(biases[-1], spare.pop(0), mask, size, op.get_float("mask_filter_value", -10000.0))
    kept = stores(call, 1, _needs_stores(call.inputs), spare)
    for store, past, new, of_new in zip(kept, (past_key, past_value), (k, v), others):
        prepared += [] if store is None else [storing(store, past, new, of_new)]
    k, v = (new if store is None else store for store, new in zip(kept, (k, v)))
    y = split_heads(call.outputs[0], size.heads)[:, :, np.newaxis]
    sides = (-1, 0) if op.get_bool("unidirectional") else OPEN
    problem = Problem(
        q,
        k,
        v,
        y,
        _scale(op, size),
        biases,
        0.0,
        sides,
        lambda batch: size.past,
        prepare=together(prepared),
    )
    attend = blocked(call, problem, call.scratch[:2])
    return attend if fill is None else in_turn([fill, attend])


def _filling(bias: Array, seen: Array, mask: Array, size: Sizes, value: float) -> Run:
    """A run that writes a mask as what is added to the products."""
    place = np.arange(size.keys)
    columns = (
        [part.reshape(-1, 1, 1, 1, 1) for part in np.split(mask, mask.size // size.batches)] if mask.ndim == 1 else []
    )
    whole = mask.reshape(bias.shape) if not columns else None
    begun = np.empty_like(seen)

    def run() -> None:
        if whole is not None:
            np.not_equal(whole, 0, out=seen)
        else:
            np.less(place, columns[0], out=seen)
            if len(columns) > 1:
                np.greater_equal(place, columns[1], out=begun)
                np.logical_and(seen, begun, out=seen)
        bias.fill(value)
        np.copyto(bias, 0, where=seen)

    return run
