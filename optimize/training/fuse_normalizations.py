"""Fuses SpatialBN and Relu, or SpatialBN, addition and Relu, in the forward and backward pass of a train net.

SpatialBNRelu and SpatialBNAddRelu keep one bit per element for the backward pass. If the net already has gradient
operators, ReluGradient and SpatialBNGradient become one, too. Only SpatialBN with is_test=0 is fused.
"""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

from optimize.rewriting.shapes import SpecsByName
from optimize.training.uses import Uses
from runtime_arm.netdef import NetDef, OperatorDef

ADDITIONS = ("Add", "Sum")


class _Chain(NamedTuple):
    """Places: the normalisation, the addition if there is one, the Relu; their gradients if there are any."""

    normalisation: int
    addition: Optional[int]
    relu: int
    gradients: Tuple[int, ...] = ()  # ReluGradient, SpatialBNGradient


def fuse_normalizations(net: NetDef, shapes: Sequence[SpecsByName] = (), keep: Iterable[str] = ()) -> NetDef:
    """The net with every chain fused whose inner blobs nothing else reads.

    shapes: what is known of the blobs, once for each choice of open sizes. ``Add`` broadcasts, so it is fused only if
    both sides are known to have one shape; ``Sum`` does not broadcast. keep: names that are wanted besides the external
    outputs.
    """
    wanted = {*net.external_output, *keep}
    while True:
        uses = Uses(net.op, wanted)
        chains = (_chain(net.op, place, uses, shapes) for place in range(len(net.op)))
        chain = next((one for one in chains if one is not None), None)
        if chain is None:
            return net
        net = net.replace(op=tuple(_fused(net, chain)))


def _is(op: OperatorDef, *types: str) -> bool:
    return op.type in types and op.domain in ("", "caffe2")


def _chain(ops: Sequence[OperatorDef], place: int, uses: Uses, shapes: Sequence[SpecsByName]) -> Optional[_Chain]:
    op = ops[place]
    if not _is(op, "SpatialBN") or op.get_bool("is_test") or len(op.output) != 5 or len(op.input) != 5:
        return None
    addition, relu = None, uses.only_reader(uses.made(place))
    if relu is not None and _is(ops[relu], *ADDITIONS):
        if not _adds_alike(ops[relu], uses.made(place)[0], shapes):
            return None
        addition, relu = relu, uses.only_reader(uses.made(relu))
    if relu is None or not _is(ops[relu], "Relu"):
        return None
    chain = _Chain(place, addition, relu)
    return _with_gradients(ops, chain, uses) if _can_move(ops, chain, uses) else None


def _adds_alike(op: OperatorDef, normalised: str, shapes: Sequence[SpecsByName]) -> bool:
    """Whether an operator adds the normalised blob to another one of the same shape."""
    if len(op.input) != 2 or op.input.count(normalised) != 1:
        return False
    if op.type == "Sum":
        return True
    pairs = [tuple(known.get(name) for name in op.input) for known in shapes]
    return bool(pairs) and all(a is not None and b is not None and a.shape == b.shape for a, b in pairs)


def _can_move(ops: Sequence[OperatorDef], chain: _Chain, uses: Uses) -> bool:
    """Whether the normalisation may run where the Relu does."""
    start, end = chain.normalisation, chain.relu
    inner = [] if chain.addition is None else [chain.addition]
    read = [uses.read(start, index) for index in range(5)]
    others = [uses.made(start, index)[0] for index in range(1, 5)]
    if chain.addition is not None:
        at = ops[chain.addition].input.index(uses.made(start)[0])
        extra = uses.read(chain.addition, 1 - at)
        if not uses.are_current([extra], chain.addition, end):
            return False
    return uses.are_current(read, start, end, inner) and uses.are_untouched(others, start, end)


def _with_gradients(ops: Sequence[OperatorDef], chain: _Chain, uses: Uses) -> Optional[_Chain]:
    """The chain with its gradient operators; None if there are some that cannot be fused."""
    start = chain.normalisation
    kept = uses.made(start, 3)
    backward = [at for at in uses.readers(kept) if ops[at].is_gradient_op or _is(ops[at], "SpatialBNGradient")]
    result = uses.made(chain.relu)
    relus = [at for at in uses.readers(result) if _is(ops[at], "ReluGradient") and uses.read(at, 0) == result]
    if not backward and not relus:
        return chain
    if len(backward) != 1 or len(relus) != 1 or not _is(ops[backward[0]], "SpatialBNGradient"):
        return None
    first, last = relus[0], backward[0]
    slope = uses.made(first)
    given = [uses.read(start, 0), uses.read(start, 1), slope, kept, uses.made(start, 4)]
    if [uses.read(last, index) for index in range(5)] != given:
        return None
    if chain.addition is None and uses.only_reader(slope) != last:
        return None
    made = ops[last].output
    fits = uses.are_current(given[:2], start, first, (chain.addition or start, chain.relu))
    if not fits or not uses.are_untouched(made, first, last) or set(made) & {slope[0], ops[first].input[1]}:
        return None
    return chain._replace(gradients=(first, last))


def _fused(net: NetDef, chain: _Chain) -> List[OperatorDef]:
    ops = list(net.op)
    op, relu = ops[chain.normalisation], ops[chain.relu]
    addends: Tuple[str, ...] = ()
    if chain.addition is not None:
        first, second = ops[chain.addition].input
        addends = (second if first == op.output[0] else first,)
    taken = {name for one in ops for name in (*one.input, *one.output)}
    mask = f"{relu.output[0]}_mask"
    while mask in taken:
        mask += "_"
    type = "SpatialBNAddRelu" if addends else "SpatialBNRelu"
    fused = op.replace(
        type=type, input=op.input + addends, output=(relu.output[0], *op.output[1:], mask), name=relu.name, engine=""
    )
    changes = {chain.relu: fused}
    if chain.gradients:
        first_gradient, last = (ops[at] for at in chain.gradients)
        outputs = (*last.output, *([first_gradient.output[0]] if addends else []))
        inputs = (op.input[0], op.input[1], first_gradient.input[1], *op.output[3:], mask)
        changes[chain.gradients[0]] = last.replace(type=f"{type}Gradient", input=inputs, output=outputs, engine="")
    removed = {chain.normalisation, chain.addition, *chain.gradients[1:]}
    return [changes.get(at, one) for at, one in enumerate(ops) if at not in removed]
