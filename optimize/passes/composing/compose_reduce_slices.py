"""A loop that reduces one slice of rows in each trip becomes one operator.

PyTorch's older exporter writes EmbeddingBag as such a loop. Trip i takes the start and the end of bag i from two
vectors, cuts the bag out of the indices, picks these rows of the table, multiplies them by weights if there are any,
and gives their sum, mean or maximum.
"""

from __future__ import annotations

from typing import Container, Dict, List, Optional, Tuple

from optimize.rewriting.loops import Loop
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef

_REDUCTIONS = {"onnx.ReduceSum": "Sum", "onnx.ReduceMean": "Mean", "onnx.ReduceMax": "Max"}
_PRODUCTS = {"Mul", "onnx.Mul"}
_GATHERS = {"Gather", "onnx.Gather"}


def _compose(program: Program, op: OperatorDef) -> Rewrite:
    loop = Loop.of(op)
    if loop.given or len(op.output) != 1:
        raise Refusal("it gives more than one blob")
    if not op.input[0]:
        raise Refusal("the number of trips is left out")
    condition = op.input[1] if len(op.input) > 1 else ""
    if condition and not (program.integer(condition) and loop.goes_on(program)):
        raise Refusal("its condition may end it")
    reduction, (x, starts, ends, *rest) = _Body(program, loop).reduction()
    inputs = [x, starts, ends, op.input[0], *rest]
    return Rewrite((OperatorDef.of("ReduceSlices", inputs, op.output, domain="armnet", reduction=reduction),))


class _Body:
    """What a body computes, found backwards from what it gives in each trip. Refusal if it computes anything else."""

    def __init__(self, program: Program, loop: Loop):
        self._program, self._loop = program, loop
        self._made: Dict[str, OperatorDef] = {}
        for op in loop.body.op:
            if not self._made.keys().isdisjoint(op.output):
                raise Refusal("it writes a blob twice")
            self._made.update((name, op) for name in op.output if name)

    def reduction(self) -> Tuple[str, List[str]]:
        """The reduction and the blobs from around the loop that it reads: rows, starts, ends; indices, weights if
        present.
        """
        op = self._source(self._loop.scanned[0], _REDUCTIONS)
        if len(op.input) < 2 or self._program.integer(op.input[1]) != 0 or op.get_bool("keepdims", True):
            raise Refusal("it does not reduce just the first dimension")
        name, weights = op.input[0], ""
        limits: Dict[str, Tuple[str, str]] = {}
        if self._makes(name, _PRODUCTS):
            name, column = self._made[name].input
            weights, limits["weights"] = self._slice(self._column(column, 1), 1)
        indices = ""
        if self._makes(name, _GATHERS):
            gather = self._made[name]
            if gather.get_int("axis", 0) or gather.get_bool("match_outer"):
                raise Refusal("it does not pick rows")
            indices, limits["rows"] = self._slice(gather.input[1], 1)
            x = self._around(gather.input[0], 2 if weights else None)
        else:
            x, limits["rows"] = self._slice(name, 2 if weights else None)
        if len(set(limits.values())) > 1:
            raise Refusal("the weights are of other rows")
        if weights and not self._are_as_many(weights, indices or x):
            raise Refusal(f"{weights!r} may have another number of rows than the blob that it multiplies")
        rest = [indices, weights] if weights else [indices] if indices else []
        return _REDUCTIONS[op.full_type], [x, *limits["rows"], *rest]

    def _makes(self, name: str, types: Container[str]) -> bool:
        return name in self._made and self._made[name].full_type in types

    def _source(self, name: str, types: Container[str]) -> OperatorDef:
        if not self._makes(name, types):
            raise Refusal(f"{name!r} is not computed by the reduction of a slice")
        return self._made[name]

    def _around(self, name: str, ndim: Optional[int] = None) -> str:
        """The name, if it is that of a blob from around the loop with this number of dimensions."""
        if name in self._made or name in self._loop.body.external_input:
            raise Refusal(f"{name!r} is another one in each trip")
        if ndim is not None and len(self._program.dims(name) or ()) != ndim:
            raise Refusal(f"{name!r} is not known to have {ndim} dimensions")
        return name

    def _are_as_many(self, *names: str) -> bool:
        """Whether the blobs have equally many rows for all open sizes. Otherwise a slice may end elsewhere."""
        choices = zip(*map(self._program.specs, names))
        return all(None not in specs and len({spec.shape[0] for spec in specs if spec}) == 1 for specs in choices)

    def _slice(self, name: str, ndim: Optional[int] = None) -> Tuple[str, Tuple[str, str]]:
        """The blob of ``ndim`` dimensions that is cut along its first one, and the vectors of starts and ends."""
        op = self._source(name, {"onnx.Slice"})
        axes = op.input[3] if len(op.input) > 3 else ""
        if len(op.input) > 4 or (axes and self._program.integer(axes) != 0):
            raise Refusal("it does not cut the first dimension")
        return self._around(op.input[0], ndim), (self._limit(op.input[1]), self._limit(op.input[2]))

    def _limit(self, name: str) -> str:
        """The vector from which trip i takes element i."""
        op = self._source(self._column(name, 0), _GATHERS)
        if op.get_int("axis", 0) or op.input[1] != self._loop.trip:
            raise Refusal("the bounds of a slice do not come from vectors")
        return self._around(op.input[0], 1)

    def _column(self, name: str, axis: int) -> str:
        """The blob to which one dimension is added, at this place."""
        op = self._source(name, {"ExpandDims"})
        if list(op.get_ints("dims")) != [axis]:
            raise Refusal("a dimension is added elsewhere")
        return op.input[0]


PASS = Pass("compose_reduce_slices", (rule(operator({"onnx.Loop"}, "op"), to=_compose),))
