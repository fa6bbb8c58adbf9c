"""Makes operators that reduce slices of rows of a loop that appends one reduced slice a trip to a sequence.

So PyTorch's newer exporter writes EmbeddingBag. The loop counts its trips itself. A trip takes the start and the end of
a bag out of vectors by its number, and gives zeros for a bag that begins where it ends, else the sum, the mean or the
maximum of its rows. The last bag is another one: its maximum is that of all rows behind its start, and its mean is the
sum of its rows by their number. Then the sequence is joined.
"""

from __future__ import annotations

from typing import Container, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from optimize.passes.composing.compose_reduce_slices import REDUCTIONS
from optimize.rewriting.inlining import Inlined
from optimize.rewriting.loops import Body, Loop
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, source
from runtime_arm.netdef import OperatorDef

_LESS = {"LT", "onnx.Less"}
_EQUAL = {"EQ", "onnx.Equal"}
_FLOAT = 1  # as ONNX numbers its types
_END = np.array([np.iinfo(np.int64).max])


class _Limit(NamedTuple):
    """The element of a vector that a trip takes: that of its number, and so many further."""

    vector: str
    ahead: int


class _Bags(NamedTuple):
    """What a trip reduces: the rows ``x`` from start to end. last: whether the last bag knows of their number."""

    reduction: str
    x: str
    last: bool = False


def _joined_loops(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        loop = program.writer(op.input[0]) if op.full_type == "onnx.ConcatFromSequence" else None
        if loop is not None and program.net.op[loop].full_type == "onnx.Loop":
            yield Match((loop, place))


def _compose(program: Program, match: Match) -> Rewrite:
    op, joined = program.operators(match)
    if joined.get_int("axis") or joined.get_bool("new_axis"):
        raise Refusal("rows are joined otherwise")
    for name in filter(None, op.output):  # as ``Program.why_kept``, but that the loop itself knows it is no reason
        others, reason = {*program.readers(name)} - {*match.places}, program.why_named(name, within=False)
        if others or reason:
            raise Refusal(reason or f"{name!r} is read by others")
    body = _Body(program, op, joined.input[0])
    start, end = body.limits
    made = _Replacement(program)
    made.write(joined.output[0], body.bags(), start, end, body.count, body.nothing)
    return Rewrite(tuple(made.operators), made.weights)


class _Body(Body):
    """The body of a loop that counts its trips and appends a reduced slice to a sequence."""

    def __init__(self, program: Program, op: OperatorDef, sequence: str):
        loop = Loop.of(op, nests=True)
        super().__init__(program, loop)
        if len(loop.given) != 2 or len(op.output) != 2 or op.input[0]:
            raise Refusal("it does not carry a number and a sequence alone")
        listed = op.output.index(sequence)
        self._index = loop.state[1 - listed]
        self.count = self._trips(op, loop.given[1 - listed], loop.returned[1 - listed])
        if getattr(source(program, loop.given[listed]), "full_type", "") != "onnx.SequenceEmpty":
            raise Refusal("its sequence is not empty at first")
        insert = self.source(loop.returned[listed], {"onnx.SequenceInsert"})
        if len(insert.input) > 2 or insert.input[0] != loop.state[listed]:
            raise Refusal("it does not append to its sequence")
        equal, self.nothing, self._reduced = self._branches(insert.input[1], _EQUAL)
        self.limits = self._limit(equal.input[0]), self._limit(equal.input[1])
        zeros = program.value(self.around(self.nothing, 2))
        if zeros is None or zeros.any() or zeros.dtype != np.float32 or len(zeros) != 1:
            raise Refusal("a bag that begins where it ends does not give a row of zeros")
        self._width = zeros.shape[1]

    def _trips(self, op: OperatorDef, first: str, following: str) -> str:
        """The blob that says how many trips there are."""
        enters, stays = source(self.program, op.input[1]), self.source(self.loop.body.external_output[0], _LESS)
        if enters is None or enters.full_type not in _LESS:
            raise Refusal("it does not count its trips")
        starts = [self.program.integer(first), self.program.integer(enters.input[0])]
        if starts != [0, 0] or [self._ahead(following), self._ahead(stays.input[0])] != [1, 1]:
            raise Refusal("it does not count its trips from 0 on by 1")
        if enters.input[1] != stays.input[1]:
            raise Refusal("it begins and ends by other counts")
        return self.around(stays.input[1])

    def bags(self) -> _Bags:
        """What it reduces."""
        if self.makes(self._reduced, {"If"}):
            return self._means()
        op = self._reduction(self._reduced)
        if not self.makes(op.input[0], {"If"}):
            return _Bags(REDUCTIONS[op.full_type], self._rows(op.input[0], self.limits[1]))
        last, others = self._by_place(op.input[0])
        x = self._rows(others, self.limits[1])
        self._check_length(self._slice(last).input[2], x)
        if x != self._rows(last, None) or op.full_type != "onnx.ReduceMax":
            raise Refusal("the last bag is another one")
        return _Bags("Max", x, last=True)

    def _means(self) -> _Bags:
        """Means, of which the last one is the sum of its rows divided by how many rows there are behind its start."""
        last, others = self._by_place(self._reduced)
        mean = self._reduction(others)
        more, quotient, undivided = self._branches(last, {"GT", "onnx.Greater"})
        divide = self.source(quotient, {"Div", "onnx.Div"})
        total = self._reduction(divide.input[0])
        count = self.source(self.source(divide.input[1], {"Cast", "onnx.Cast"}).input[0], {"Sub", "onnx.Sub"})
        x = self._rows(mean.input[0], self.limits[1])
        if (mean.full_type, total.full_type, undivided) != ("onnx.ReduceMean", "onnx.ReduceSum", divide.input[0]):
            raise Refusal("the last bag is another one")
        if x != self._rows(total.input[0], self.limits[1]) or self._limit(count.input[1]) != self.limits[0]:
            raise Refusal("the last bag is of other rows")
        if more.input[0] not in count.output or self._number(more.input[1]) != 0:
            raise Refusal("the last bag is divided otherwise")
        self._check_length(count.input[0], x)
        return _Bags("Mean", x, last=True)

    def _check_length(self, name: str, x: str) -> None:
        """Refusal unless the blob is known to be the number of rows, whatever open sizes are."""
        if self.makes(name, {"Shape", "onnx.Shape"}):
            op = self.made[name]
            first, end = op.get_int("start", 0), op.get_int("end", 2**63 - 1)
            sizes = self.program.specs(self.around(op.input[0]))
            lengths = [None if spec is None else [*spec.shape[first:end]] for spec in sizes]
        else:
            values = [None if spec is None else spec.value for spec in self.program.specs(self.around(name))]
            lengths = [None if value is None else value.tolist() for value in values]
        if lengths != [spec and [spec.shape[0]] for spec in self.program.specs(x)]:
            raise Refusal(f"{name!r} is not known to be the number of rows of {x!r}")

    def _branches(self, name: str, types: Container[str]) -> Tuple[OperatorDef, str, str]:
        """The operator that an If decides by, and the blobs that it gives if that holds and if not."""
        op = self.source(name, {"If"})
        nets = op.get_net("then_net"), op.get_net("else_net")
        if len(op.output) > 1 or any(len(net.external_output) != 1 for net in nets):
            raise Refusal("a branch gives more than one blob")
        return self.source(op.input[0], types), nets[0].external_output[0], nets[1].external_output[0]

    def _by_place(self, name: str) -> Tuple[str, str]:
        """What a blob is in the last trip, and in the others."""
        equal, last, others = self._branches(name, _EQUAL)
        before = self.source(equal.input[1], {"Sub", "onnx.Sub"})
        if self._ahead(equal.input[0]) or before.input[0] != self.count or self._number(before.input[1]) != 1:
            raise Refusal("another trip than the last one is another one")
        return last, others

    def _reduction(self, name: str) -> OperatorDef:
        op = self.source(name, REDUCTIONS)
        if len(op.input) < 2 or self.program.integer(op.input[1]) != 0 or not op.get_bool("keepdims", True):
            raise Refusal("it does not reduce just the first dimension")
        return op

    def _slice(self, name: str) -> OperatorDef:
        op = self.source(name, {"onnx.Slice"})
        if len(op.input) > 4 or (op.input[3:] and self.program.integer(op.input[3]) != 0):
            raise Refusal("it does not cut the first dimension")
        return op

    def _rows(self, name: str, end: Optional[_Limit]) -> str:
        """The rows of which a bag is cut. end: where it ends; None if that is looked at elsewhere."""
        op = self._slice(name)
        if self._limit(op.input[1]) != self.limits[0] or (end is not None and self._limit(op.input[2]) != end):
            raise Refusal("a bag has other limits")
        x = self.around(op.input[0], 2)
        if any(
            spec is None or spec.dtype != np.float32 or spec.shape[1] != self._width for spec in self.program.specs(x)
        ):
            raise Refusal(f"{x!r} is not known to be float32 of {self._width} columns")
        return x

    def _limit(self, name: str) -> _Limit:
        op = self._slice(name)
        ahead = self._ahead(op.input[1])
        if self._ahead(op.input[2]) != ahead + 1:
            raise Refusal("the bounds of a bag do not come from vectors")
        return _Limit(self.around(op.input[0], 1), ahead)

    def _ahead(self, name: str) -> int:
        """How far a number is ahead of that of the trip."""
        if name == self._index:
            return 0
        op = self.source(name, {"Reshape", "Add", "onnx.Add"})
        if op.type == "Reshape":
            return self._ahead(op.input[0])
        step = self._number(op.input[1])
        if step is None or step < 0:
            raise Refusal("the bounds of a bag do not come from vectors")
        return self._ahead(op.input[0]) + step

    def _number(self, name: str) -> Optional[int]:
        """A number that is known."""
        if self.makes(name, {"onnx.CastLike"}):
            return self._number(self.made[name].input[0])
        return self.program.integer(self.around(name))


class _Replacement(Inlined):
    """The operators that take the place of the loop."""

    def _add(self, stem: str, type: str, *inputs: str, domain: str = "onnx", **arguments: object) -> str:
        name = self.fresh(stem)
        self.operators.append(OperatorDef.of(type, inputs, [name], domain=domain, **arguments))  # type: ignore[arg-type]
        return name

    def _slices(self, reduction: str, *inputs: str) -> str:
        return self._add("bags", "ReduceSlices", *inputs, domain="armnet", reduction=reduction)

    def write(self, y: str, bags: _Bags, start: _Limit, end: _Limit, count: str, nothing: str) -> None:
        """Operators that write the bags to ``y``."""
        starts, ends = self._from(start), self._from(end)
        found = self._slices(bags.reduction, bags.x, starts, ends, count)
        if bags.last:
            found = self._with_last(found, bags, starts, ends, count)
        if bags.reduction == "Max":
            zero = self._one(0)
            number = self._add("count", "Add", count, zero)  # a vector, whatever it was
            among = [self._add("among", "Slice", limits, zero, number) for limits in (starts, ends)]
            empty = self._add("empty", "ExpandDims", self._add("empty", "Equal", *among), domain="", dims=[1])
            found = self._add("bags", "Where", empty, nothing, found)
        last = self.operators[-1]
        self.operators[-1] = last.replace(output=(y, *last.output[1:]))

    def _one(self, number: int) -> str:
        return self.constant(f"number_{number}", np.array([number], np.int64))

    def _from(self, limit: _Limit) -> str:
        """The vector from the element of the first trip on."""
        if not limit.ahead:
            return limit.vector
        return self._add("limits", "Slice", limit.vector, self._one(limit.ahead), self.constant("end", _END))

    def _with_last(self, found: str, bags: _Bags, starts: str, ends: str, count: str) -> str:
        """The bags with another one in the place of the last."""
        one = self._one(1)
        place = self._add("last", "Sub", count, one)
        start = self._add("last_start", "Gather", starts, place, axis=0)
        rows = self._add("rows", "Shape", bags.x, start=0, end=1)
        if bags.reduction == "Max":
            last = self._slices("Max", bags.x, start, rows, one)
        else:
            total = self._slices("Sum", bags.x, start, self._add("last_end", "Gather", ends, place, axis=0), one)
            behind = self._add("behind", "Sub", rows, start)
            divisor = self._add("divisor", "Cast", self._add("divisor", "Max", behind, one), to=_FLOAT)
            last = self._add("last_bag", "Div", total, divisor)
        head = self._add("bags", "Slice", found, self._one(0), place)
        name = self.fresh("bags")
        self.operators.append(OperatorDef.of("Concat", [head, last], [name, self.fresh("sizes")], axis=0))
        return name


PASS = Pass("compose_bags", (Rule(_joined_loops, _compose),))
