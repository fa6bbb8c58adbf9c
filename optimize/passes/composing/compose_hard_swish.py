"""HardSigmoid and HardSwish, written out as arithmetic, get their names back.

clip(x + 3, 0, 6) / 6 = HardSigmoid(x)        x clip(x + 3, 0, 6) / 6 = HardSwish(x)
"""

from __future__ import annotations

import math
from typing import Iterator, Optional

from optimize.layers.fused import other_input
from optimize.rewriting.patterns import each
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, source
from runtime_arm.netdef import OperatorDef

_SUMS = {"Add", "onnx.Add"}
_PRODUCTS = {"Mul", "onnx.Mul"}
_QUOTIENTS = {"Div", "onnx.Div"}


def _number(program: Program, name: str) -> Optional[float]:
    """The content of a weight of one element."""
    value = program.value(name) if name in program.weights else None
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _divided_by_six(program: Program, op: OperatorDef) -> Optional[str]:
    """What the operator divides by 6, however it says that."""
    for name in op.input:
        divisor = other_input(op, name)
        number = None if divisor is None else _number(program, divisor)
        if number is None:
            continue
        if op.full_type in _QUOTIENTS and name == op.input[0] and number == 6:
            return name
        if op.full_type in _PRODUCTS and math.isclose(number, 1 / 6, rel_tol=1e-6):
            return name
    return None


def _clipped(program: Program, name: str) -> Optional[str]:
    """The x of which the blob is clip(x + 3, 0, 6)."""
    clip = source(program, name)
    total = None if clip is None else source(program, clip.input[0])
    if clip is None or total is None or total.full_type not in _SUMS or not _is_zero_to_six(program, clip):
        return None
    terms = [term for term in total.input if _number(program, other_input(total, term) or "") == 3]
    return terms[0] if terms else None


def _is_zero_to_six(program: Program, op: OperatorDef) -> bool:
    if op.full_type == "Clip":
        return op.get_float("min", -1.0) == 0 and op.get_float("max", 0.0) == 6
    if op.full_type == "onnx.Clip":
        return [_number(program, name) for name in op.input[1:]] == [0, 6]
    return op.full_type == "ReluN" and op.get_float("n", 6.0) == 6


def _match(program: Program, place: int, *blobs: str) -> Match:
    """The writers of these blobs and the operator at ``place``, which is all that may read them."""
    writers = [program.writer(blob) for blob in blobs]
    return Match((*sorted(at for at in writers if at is not None), place), blobs)


def _hard_sigmoids(program: Program, start: int) -> Iterator[Match]:
    for match in each(_PRODUCTS | _QUOTIENTS)(program, start):
        clipped = _divided_by_six(program, program.net.op[match.places[0]])
        clip = None if clipped is None else source(program, clipped)
        if clipped is not None and clip is not None and _clipped(program, clipped):
            yield _match(program, match.places[0], clipped, clip.input[0])


def _hard_swishes(program: Program, start: int) -> Iterator[Match]:
    for match in each(_PRODUCTS | _QUOTIENTS)(program, start):
        divided = _divided_by_six(program, program.net.op[match.places[0]])
        product = None if divided is None else source(program, divided)
        if divided is None or product is None or product.full_type not in _PRODUCTS:
            continue
        for clipped in product.input:
            clip, x = source(program, clipped), _clipped(program, clipped)
            if clip is not None and x is not None and other_input(product, clipped) == x:
                yield _match(program, match.places[0], divided, clipped, clip.input[0])
                break


def _x(program: Program, match: Match) -> str:
    """The blob to which the first of the matched operators adds 3.

    Refusal if the result has, or may have, more dimensions than that blob: the numbers may bring some of their own.
    """
    operators = program.operators(match)
    total, last = operators[0], operators[-1]
    x = next(name for name in total.input if _number(program, other_input(total, name) or "") == 3)
    values = [program.value(name) for op in operators for name in op.input if name in program.weights]
    if all(value is not None and value.ndim == 0 for value in values):
        return x
    for before, after in zip(program.specs(x), program.specs(last.output[0])):
        if before is None or after is None:
            raise Refusal(f"{last.output[0]!r} may have more dimensions than {x!r}, whose shape is not known")
        if before.shape != after.shape:
            raise Refusal(f"{last.output[0]!r} has more dimensions than {x!r}")
    return x


def _to_hard_sigmoid(program: Program, match: Match) -> Rewrite:
    last = program.net.op[match.places[-1]]
    op = OperatorDef.of("HardSigmoid", [_x(program, match)], last.output, name=last.name, alpha=1 / 6, beta=0.5)
    return Rewrite((op,))


def _to_hard_swish(program: Program, match: Match) -> Rewrite:
    last = program.net.op[match.places[-1]]
    return Rewrite((OperatorDef.of("HardSwish", [_x(program, match)], last.output, name=last.name, domain="onnx"),))


PASS = Pass("compose_hard_swish", (Rule(_hard_sigmoids, _to_hard_sigmoid), Rule(_hard_swishes, _to_hard_swish)))
