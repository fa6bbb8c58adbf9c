"""A blob that a loop carries without changing it is no longer carried: the body reads it from the net around the loop.

TensorFlow's converter writes recurrent layers as loops that carry their weights. Read from around the loop, the weights
are constants again: operators of the body may be fused with them, and no step copies them.
"""

from __future__ import annotations

from typing import Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from optimize.rewriting.single_assignment import names_in
from runtime_arm.netdef import NetDef, OperatorDef


class _Carried(NamedTuple):
    """Where the carried blobs of a loop begin among its inputs, its body's inputs and its body's outputs."""

    given: int
    read: int
    written: int


_LOOPS = {"onnx.Loop": _Carried(2, 2, 1), "onnx.Scan": _Carried(0, 0, 0)}


def _count(op: OperatorDef) -> int:
    """How many blobs a loop carries."""
    return len(op.input) - (2 if op.full_type == "onnx.Loop" else op.get_int("num_scan_inputs", 0))


def _invariants(op: OperatorDef) -> List[int]:
    """Which of the carried blobs the body gives back as it got them."""
    body, at = op.get_net("body"), _LOOPS[op.full_type]
    count = min(_count(op), len(body.external_input) - at.read, len(body.external_output) - at.written)
    return [
        one
        for one in range(count)
        if op.input[at.given + one] and body.external_input[at.read + one] == body.external_output[at.written + one]
    ]


def _loops(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if op.full_type in _LOOPS and _invariants(op):
            yield Match((place,))


def _hoist(program: Program, match: Match) -> Rewrite:
    (op,) = program.operators(match)
    body, at, refused = op.get_net("body"), _LOOPS[op.full_type], ""
    gone: List[int] = []
    for one in _invariants(op):
        inside, outside = body.external_input[at.read + one], op.input[at.given + one]
        if outside in names_in(body):
            refused = f"{outside!r} means something else in the body"
        elif any(inside in names_in(net) for inner in body.op for net in inner.subnets()):
            refused = f"a net inside the body knows {inside!r}"
        elif body.external_output.count(inside) > 1 or any(inside in inner.output for inner in body.op):
            refused = f"{inside!r} is more than a carried blob"
        else:
            gone.append(one)
    if not gone:
        raise Refusal(refused)
    names = {body.external_input[at.read + one]: op.input[at.given + one] for one in gone}
    args = tuple(arg.replace(n=_reading(body, names, gone, at)) if arg.name == "body" else arg for arg in op.arg)
    outputs = [(op.input[at.given + one], op.output[one]) for one in gone if one < len(op.output) and op.output[one]]
    loop = op.replace(input=_without(op.input, at.given, gone), output=_without(op.output, 0, gone), arg=args)
    loops = (loop,) if any(loop.output) else ()
    return Rewrite((*loops, *(OperatorDef.of("Copy", [given], [result]) for given, result in outputs)))


def _reading(body: NetDef, names: Mapping[str, str], gone: Sequence[int], at: _Carried) -> NetDef:
    """The body, reading blobs of the net around it by name instead of the inputs that it was given."""
    ops = [op.replace(input=tuple(names.get(name, name) for name in op.input)) for op in body.op]
    inputs, outputs = (
        _without(*ends, gone) for ends in ((body.external_input, at.read), (body.external_output, at.written))
    )
    return body.replace(op=tuple(ops), external_input=inputs, external_output=outputs)


def _without(names: Sequence[str], first: int, gone: Sequence[int]) -> Tuple[str, ...]:
    return tuple(name for at, name in enumerate(names) if at - first not in gone)


PASS = Pass("hoist_loop_invariants", (Rule(_loops, _hoist),))
