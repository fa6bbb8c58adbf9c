"""onnxruntime's GroupQueryAttention: heads of queries share keys and values, which are kept from step to step."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.attention.core import (
    Biases,
    Heads,
    Problem,
    attend64,
    band64,
    blocked,
    grouped,
    join_heads,
    score_scratch,
    split_heads,
)
from runtime_arm.operators.attention.rotary import rotated64, turning
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec

INPUTS = 12


class Sizes(NamedTuple):
    """Batches, heads of queries and of keys, queries, numbers a head, room for keys, and whether nothing is past."""

    batches: int
    heads: int
    key_heads: int
    queries: int
    depth: int
    room: int
    first: bool


class Operands(NamedTuple):
    """The inputs; those left out are None."""

    query: Any
    key: Any
    value: Any
    past_key: Any
    past_value: Any
    last: Any
    total: Any
    cos: Any
    sin: Any
    positions: Any
    bias: Any
    sink: Any

    @classmethod
    def of(cls, inputs: Sequence[Any]) -> Operands:
        return cls(*inputs[:INPUTS], *[None] * (INPUTS - len(inputs)))


def _sizes(op: OperatorDef, given: Operands, total: int) -> Sizes:
    heads, key_heads = op.get_int("num_heads"), op.get_int("kv_num_heads")
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise ArgumentError(op, f"{key_heads} heads of keys must divide {heads} heads")
    query = given.query
    parts = heads if given.key is not None else heads + 2 * key_heads
    require(
        op,
        query.ndim == 3 and query.shape[2] % parts == 0,
        f"the query must be (N, S, numbers of {parts} heads)",
        query,
    )
    batches, queries, depth = query.shape[0], query.shape[1], query.shape[2] // parts
    past = 0 if given.past_key is None else given.past_key.shape[2] if given.past_key.ndim == 4 else 0
    require(op, total >= queries, f"{total} positions in all are fewer than the {queries} new ones", query)
    return Sizes(batches, heads, key_heads, queries, depth, max(past, total), total == queries)


def _total(op: OperatorDef, spec: Optional[TensorSpec]) -> int:
    values = integers_of(op, spec, "total_sequence_length")
    require(op, len(values) == 1, "total_sequence_length must be one number", spec)
    return values[0]


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return 2 * outputs[0].size * (outputs[1].shape[2] if len(outputs) > 1 else inputs[0].shape[1] if inputs[0] else 0)


@operator(
    "GroupQueryAttention",
    domain="com.microsoft",
    inputs=(7, None),
    outputs=(1, 4),
    inplace={1: 3, 2: 4},
    multiply_adds=_products,
)
def group_query_attention(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y (B, S, H D) = softmax(softcap(Q K^T scale) + bias) V. Outputs: Y, keys and values (B, N, room, D).

    H = ``num_heads``, N = ``kv_num_heads``. Inputs: query (B, S, H D), key and value (B, S, N D), or all in one query
    (B, S, (H + 2 N) D); past keys and values (B, N, P, D); the last position of each batch; the number of positions in
    all. The room is the larger one of P and that number; the new keys and values go to the last S positions, or, if
    nothing is past, to the first ones. Where P is the room already, they can be written into the past itself. Then:
    cosines and sines (positions, R / 2) and positions (B, S) for ``do_rotary``, which turns queries and keys as in
    ``rotary``; what is added to the products (B or 1, H or 1, S, T); a logit a head that takes its share of the
    probability (H).

    A query sees the positions up to its own, with ``local_window_size`` w the last w of them; with ``causal`` = 0 all.
    ``scale`` (1 / sqrt(D)), ``softcap``; ``smooth_softmax``: the logits of heads are 0. Source: onnxruntime's
    ContribOperators.md.
    """
    require(
        op,
        all(x is None for x in inputs[INPUTS:]),
        "keys in fewer bits, norms of queries and padded queries are not supported",
    )
    require(op, len(op.output) < 4, "the scores cannot be an output")
    given = Operands.of(inputs)
    size = _sizes(op, given, _total(op, given.total))
    require_floats(op, *given[:5], given.cos, given.sin, given.bias, given.sink)
    for one in (given.key, given.value):
        wanted = (size.batches, size.queries, size.key_heads * size.depth)
        require(
            op,
            (one is None and given.key is None) or (one is not None and one.shape == wanted),
            f"key and value must be {list(wanted)}",
            one,
        )
    for one in (given.past_key, given.past_value):
        fits = one is None or (one.ndim == 4 and one.shape == (size.batches, size.key_heads, one.shape[2], size.depth))
        require(op, fits, f"the past must be ({size.batches}, {size.key_heads}, P, {size.depth})", one)
    require(op, given.last is not None and given.last.size == size.batches, "one last position per batch", given.last)
    if op.get_bool("sliding_window_cache") or op.get_int("qk_output", 0):
        raise ArgumentError(op, "sliding_window_cache and qk_output are not supported")
    _check_extras(op, given, size)
    stored = (size.batches, size.key_heads, size.room, size.depth)
    whole = (size.batches, size.queries, size.heads * size.depth)
    return [given.query.with_shape(shape) for shape in (whole, stored, stored)]


def _check_extras(op: OperatorDef, given: Operands, size: Sizes) -> None:
    if op.get_bool("do_rotary"):
        fits = given.cos is not None and given.sin is not None and given.cos.shape == given.sin.shape
        fits = fits and given.cos.ndim == 2 and 2 * given.cos.shape[1] <= size.depth
        require(op, fits, f"cosines and sines must be (positions, up to {size.depth // 2})", given.cos, given.sin)
    if given.positions is not None:
        fits = given.positions.shape == (size.batches, size.queries) and given.positions.dtype.kind in "iu"
        require(op, fits, f"the positions must be integers {[size.batches, size.queries]}", given.positions)
    if given.bias is not None:
        fits = (
            given.bias.ndim == 4 and given.bias.shape[0] in (1, size.batches) and given.bias.shape[1] in (1, size.heads)
        )
        fits = fits and given.bias.shape[2] == size.queries and given.bias.shape[3] <= size.room
        require(
            op, fits, f"what is added must be (N, H, {size.queries}, positions) or have ones for N or H", given.bias
        )
    require(op, given.sink is None or given.sink.shape == (size.heads,), f"{size.heads} logits are needed", given.sink)


def _lengths(op: OperatorDef, last: Array, size: Sizes) -> List[Tuple[int, int]]:
    """Of each batch, the position of the first new key and the number of keys. OperatorError if they do not fit."""
    found = []
    for position in last.reshape(-1).tolist():
        count = position + 1
        start = 0 if size.first else count - size.queries
        if not (start >= 0 and 0 < count <= size.room and start + size.queries <= size.room):
            raise OperatorError(
                op, f"the last position {position} does not fit {size.queries} new keys and room for {size.room}"
            )
        found.append((start, count))
    return found


def _sides(op: OperatorDef) -> Tuple[int, int]:
    if not op.get_bool("causal", True):
        return -1, -1
    width = op.get_int("local_window_size", -1)
    return width - 1 if width > 0 else -1, 0


def _scale(op: OperatorDef, size: Sizes) -> float:
    return op.get_float("scale", 0.0) or 1 / max(size.depth, 1) ** 0.5


def _parts(given: Operands, size: Sizes) -> List[Array]:
    """Queries (B, H, S, D), keys and values (B, N, S, D), as views."""
    if given.key is not None:
        return [split_heads(x, n) for x, n in zip(given[:3], (size.heads, size.key_heads, size.key_heads))]
    whole = split_heads(given.query, size.heads + 2 * size.key_heads)
    ends = size.heads, size.heads + size.key_heads
    return [whole[:, : ends[0]], whole[:, ends[0] : ends[1]], whole[:, ends[1] :]]


def _angles(op: OperatorDef, given: Operands, size: Sizes, batch: int, start: int) -> List[Array]:
    """The cosines and sines (S, R / 2) of the new positions of a batch; OperatorError if they are not known."""
    known = given.cos.shape[0]
    if given.positions is not None and not size.first:
        at = given.positions[batch]
        if at.min() < 0 or at.max() >= known:
            raise OperatorError(op, f"positions {at.min()} to {at.max()} are not all among the {known} that are known")
        return [given.cos[at], given.sin[at]]
    if given.positions is not None:
        start = int(given.positions.flat[0])
    if start < 0 or start + size.queries > known:
        raise OperatorError(
            op, f"positions {start} to {start + size.queries - 1} are not all among the {known} that are known"
        )
    return [table[start : start + size.queries] for table in (given.cos, given.sin)]


def _sink(op: OperatorDef, given: Operands, size: Sizes) -> Optional[Array]:
    if given.sink is not None:
        sink: Array = given.sink
        return sink
    return np.zeros(size.heads, given.query.dtype) if op.get_bool("smooth_softmax") else None


@group_query_attention.reference
def group_query_attention_reference(op: OperatorDef, *inputs: Any) -> List[Any]:
    given = Operands.of(inputs)
    size = _sizes(op, given, int(given.total.reshape(-1)[0]))
    q, k, v = _parts(given, size)
    dtype, turns = q.dtype, op.get_bool("do_rotary")
    stores = [np.zeros((size.batches, size.key_heads, size.room, size.depth), dtype) for _ in range(2)]
    for store, past in zip(stores, (given.past_key, given.past_value)):
        if past is not None:
            store[:, :, : past.shape[2]] = past
    y = np.zeros((size.batches, size.heads, size.queries, size.depth), np.float64)
    for b, (start, count) in enumerate(_lengths(op, given.last, size)):
        asked, fresh = q[b], k[b]
        if turns:
            cos, sin = (table.astype(np.float64) for table in _angles(op, given, size, b, start))
            asked, fresh = (rotated64(x, cos, sin, op.get_bool("rotary_interleaved")) for x in (asked, fresh))
        for store, new in zip(stores, (fresh, v[b])):
            store[b, :, start : start + size.queries] = new
        keys, values = (store[b : b + 1, :, :count] for store in stores)
        biases = Biases(band64(size.queries, count, start, _sides(op)))
        if given.bias is not None:
            biases = Biases(biases.window, given.bias[b if given.bias.shape[0] > 1 else 0, ..., :count])
        y[b] = attend64(
            asked[np.newaxis],
            keys,
            values,
            _scale(op, size),
            biases,
            op.get_float("softcap", 0.0),
            _sink(op, given, size),
        )[0][0]
    return [join_heads(y).astype(dtype), *stores]


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if len(outputs) < 3:
        return "only with keys and values as outputs"
    return single_or_double(op, inputs, outputs)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    given, dtype = Operands.of(inputs), outputs[0].dtype
    size = _sizes(op, given, _total(op, given.total))
    scores = score_scratch(dtype, size.heads // size.key_heads, size.key_heads, size.queries, size.room)
    if not op.get_bool("do_rotary"):
        return scores
    half = given.cos.shape[1]
    return [
        *scores,
        TensorSpec((size.batches, size.heads, size.queries, size.depth), dtype),
        TensorSpec((size.heads, size.queries, half), dtype),
    ]


@group_query_attention.kernel("NUMPY", supports=_refuses, scratch=_scratch, splits_work=True)
def group_query_attention_numpy(call: Call) -> Run:
    op, given = call.op, Operands.of(call.inputs)
    size = _sizes(op, given, _total(op, call.in_specs[6]))
    q, k, v = _parts(given, size)
    keys, values = call.outputs[1:3]
    lengths: List[Tuple[int, int]] = []
    asked = call.scratch[2] if op.get_bool("do_rotary") else q
    sink = _sink(op, given, size)
    problem = Problem(
        grouped(asked, size.key_heads),
        keys,
        values,
        grouped(split_heads(call.outputs[0], size.heads), size.key_heads),
        _scale(op, size),
        [] if given.bias is None else [grouped(_widened(given.bias, size.room), size.key_heads)],
        op.get_float("softcap", 0.0),
        _sides(op),
        lambda batch: lengths[batch][0],
        lambda batch: lengths[batch][1],
        None if sink is None else sink.reshape(size.key_heads, -1),
        _Storing(call, given, size, (q, k, v), lengths).prepare,
    )
    attend = blocked(call, problem, call.scratch[:2])

    def run() -> None:
        lengths[:] = _lengths(op, given.last, size)
        attend()

    return run


def _widened(bias: Array, room: int) -> Array:
    """A bias (…, T) as a view (…, room); elements after T are never read, because no key is there."""
    if bias.shape[3] == room:
        return bias
    return np.lib.stride_tricks.as_strided(bias, (*bias.shape[:3], room), bias.strides, writeable=False)


class _Storing:
    """Fills heads of keys and values, and turns queries and keys, before they are read."""

    def __init__(
        self, call: Call, given: Operands, size: Sizes, parts: Sequence[Array], lengths: List[Tuple[int, int]]
    ):
        self._call, self._given, self._size, self._parts, self._lengths = call, given, size, parts, lengths
        self._turns = call.op.get_bool("do_rotary")
        pasts = zip(call.outputs[1:3], (given.past_key, given.past_value))
        self._copies = [(out, past) for out, past in pasts if past is not None and not np.may_share_memory(out, past)]

    def prepare(self, part: Heads) -> Run:
        """The run for these heads of keys and the heads of queries that share them."""
        batch, heads = part
        call, size = self._call, self._size
        groups = size.heads // size.key_heads
        asking = slice(heads.start * groups, heads.stop * groups)
        q, k, v = (x[batch, asking if at == 0 else heads] for at, x in enumerate(self._parts))

        def run() -> None:
            start = self._lengths[batch][0]
            new = slice(start, start + size.queries)
            for store, past in self._copies:
                np.copyto(store[batch, heads, : past.shape[2]], past[batch, heads])
            keys, values = (store[batch, heads] for store in call.outputs[1:3])
            np.copyto(values[:, new], v)
            if not self._turns:
                np.copyto(keys[:, new], k)
                return
            cos, sin = _angles(call.op, self._given, size, batch, start)
            turned, work = call.scratch[2][batch, asking], call.scratch[3]
            for target, x in ((turned, q), (keys[:, new], k)):
                interleaved = call.op.get_bool("rotary_interleaved")
                for step in turning(target, x, cos, sin, work[: len(x)], interleaved):
                    step()

        return run
