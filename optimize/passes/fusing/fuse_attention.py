"""Two products with a softmax between them become Attention, which never holds all scores at once.

    softmax(Q K^T scale + mask) V   with scale and mask or without

The scale may also be divided between Q and K, as PyTorch's exporters write it. If heads are split before and merged
after it, Attention reads and writes them in place. A query that the mask hides every key from then gives 0, not NaN.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from optimize.rewriting.patterns import commutative, operator, rule, weight
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef

WINDOWS, SMALL = 8, 1 << 14  # batches, and scores of one, with which a mask is added to all at once
HEADS = [0, 2, 1, 3]  # from positions, heads to heads, positions, and back
_PRODUCTS = {"BatchMatMul", "onnx.MatMul"}
_REASON = "queries, keys, values and mask are not floats (B, H, S, D), (B, H, T, D), (B, H, T, E) and (..., T)"


def _fuse(
    program: Program,
    q: str,
    v: str,
    product: OperatorDef,
    softmax: OperatorDef,
    last: OperatorDef,
    k: str = "",
    turned: str = "",
    turn: Optional[OperatorDef] = None,
    divisor: str = "",
    factor: str = "",
    mask: str = "",
    factor_q: str = "",
    factor_k: str = "",
) -> Rewrite:
    if product.get_bool("trans_a") or last.get_bool("trans_a") or last.get_bool("trans_b"):
        raise Refusal("a factor is transposed")
    if softmax.get_int("axis", 1 if softmax.domain == "" else -1) not in (3, -1):
        raise Refusal("the softmax is not over the last of four dimensions")
    operators: List[OperatorDef] = []
    if turn is not None:
        axes = turn.get_ints("axes")
        if product.get_bool("trans_b") or len(axes) != 4:
            raise Refusal("the keys are not transposed as the product needs them")
        k = program.fresh(f"{turn.output[0]}_keys")
        operators.append(OperatorDef.of("Transpose", [turned], [k], axes=[axes[0], axes[1], axes[3], axes[2]]))
    elif not product.get_bool("trans_b"):
        raise Refusal("the second factor is not a transposed blob")
    _check_shapes(program, q, v, product, last, mask)
    scale, divided = _number(program, factor), _number(program, divisor)
    scale *= _number(program, factor_q) * _number(program, factor_k)
    if not scale or not divided:
        raise Refusal("the scale is 0")
    inputs = [q, k, v, *([mask] if mask else [])]
    attention = OperatorDef.of("Attention", inputs, last.output, name=last.name, domain="onnx", scale=scale / divided)
    return Rewrite((*operators, attention))


def _check_shapes(program: Program, q: str, v: str, product: OperatorDef, last: OperatorDef, mask: str) -> None:
    """Refusal unless the batches and heads are equal, and the scores as large as the product."""
    names = q, v, product.output[0], last.output[0]
    for specs in zip(*map(program.specs, names)):
        if any(spec is None or spec.ndim != 4 or spec.dtype.name not in ("float32", "float64") for spec in specs):
            raise Refusal(_REASON)
        (batch, heads, queries, _), values, scores, y = (spec.shape for spec in specs)
        if scores != (batch, heads, queries, values[2]) or values[:2] != (batch, heads) or y[:3] != scores[:3]:
            raise Refusal(_REASON)
    if mask:
        for spec, scores in zip(program.specs(mask), program.specs(product.output[0])):
            if spec is None or scores is None or spec.dtype != scores.dtype or not 1 <= spec.ndim <= 4:
                raise Refusal(_REASON)
            fits = all(m in (1, n) for m, n in zip(spec.shape, scores.shape[4 - spec.ndim :]))
            if not fits or spec.shape[-1] != scores.shape[3]:
                raise Refusal(_REASON)
            if scores.shape[0] >= WINDOWS and scores.size <= SMALL * scores.shape[0]:
                raise Refusal("many windows with a mask take less time without blocks")


def _number(program: Program, name: str) -> float:
    """The only element of a weight; 1 if there is none."""
    if not name:
        return 1.0
    value = program.value(name)
    if value is None:
        raise Refusal("the scale is not known")
    if value.size != 1:
        raise Refusal("there are several scales")
    return float(value.item())


def _in_place(
    program: Program, attention: OperatorDef, back: OperatorDef, flat: OperatorDef, **captured: Any
) -> Rewrite:
    """Attention on three dimensions, with the heads side by side in the last one."""
    if attention.has("q_num_heads") or len(attention.output) > 1 or any(attention.input[4:]):
        raise Refusal("the heads lie side by side already")
    parts = [captured[name] for name in "qkv"]
    _check_heads(program, [captured[f"turn_{name}"] for name in "qkv"] + [back], parts, attention, flat)
    heads = [spec.shape[1] for name in attention.input[:2] for spec in program.specs(name)[:1] if spec is not None]
    op = attention.replace(input=(*parts, *attention.input[3:4]), output=flat.output[:1], name=flat.name)
    return Rewrite((op.with_args(q_num_heads=heads[0], kv_num_heads=heads[1]),))


def _check_heads(
    program: Program, turns: Sequence[OperatorDef], parts: Sequence[str], attention: OperatorDef, flat: OperatorDef
) -> None:
    """Refusal unless blobs (B, S, H D) are split into heads, and the results are merged into such a blob."""
    if any(list(turn.get_ints("axes")) != HEADS for turn in turns):
        raise Refusal("heads and positions are not swapped")
    whole = [turn.output[0] for turn in turns[:3]]
    for apart, side in zip([*whole, attention.output[0]], [*parts, flat.output[0]]):
        for one, other in zip(program.specs(apart), program.specs(side)):
            if one is None or other is None:
                raise Refusal("a shape is not known")
            batch, heads, length, numbers = one.shape
            if other.shape != (batch, length, heads * numbers):
                raise Refusal(f"{side!r} is not (B, S, numbers of all heads)")


def _apart(name: str) -> Any:
    return operator({"Transpose"}, f"turn_{name}")(operator({"Reshape"})(name))


def _scores() -> Tuple[Any, ...]:
    """The operands of the softmax."""
    divide, multiply = operator({"Div", "onnx.Div"}), commutative({"Mul", "onnx.Mul"})
    turned = operator({"Transpose"}, "turn")("turned")
    queries = multiply("q", weight("factor_q")), "q"
    keys = multiply(turned, weight("factor_k")), multiply("k", weight("factor_k")), turned, "k"
    plain = tuple(operator(_PRODUCTS, "product")(one, other) for one in queries for other in keys)
    scaled = (divide(plain, weight("divisor")), multiply(plain, weight("factor")), *plain)
    add = commutative({"Add", "onnx.Add"})
    return add(scaled, "mask"), *scaled


_SOFTMAX = operator({"Softmax", "onnx.Softmax"}, "softmax")
_LAST = operator(_PRODUCTS, "last")
_FLAT, _BACK = operator({"Reshape"}, "flat"), operator({"Transpose"}, "back")
_ATTENTION = operator({"onnx.Attention"}, "attention")

PASS = Pass(
    "fuse_attention",
    (
        rule(_LAST(_SOFTMAX(_scores()), "v"), to=_fuse),
        rule(_FLAT(_BACK(_ATTENTION(_apart("q"), _apart("k"), _apart("v")))), to=_in_place),
    ),
)
