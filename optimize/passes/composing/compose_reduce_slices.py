"""A loop that reduces one slice of rows in each trip becomes one operator.

PyTorch's older exporter writes EmbeddingBag as such a loop. Trip i takes the start and the end of bag i from two
vectors, cuts the bag out of the indices, picks these rows of the table, multiplies them by weights if there are any,
and gives their sum, mean or maximum.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from optimize.rewriting.loops import Body, Loop
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef

REDUCTIONS = {"onnx.ReduceSum": "Sum", "onnx.ReduceMean": "Mean", "onnx.ReduceMax": "Max"}
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


class _Body(Body):
    """A body that reduces slices."""

    def reduction(self) -> Tuple[str, List[str]]:
        """The reduction and the blobs from around the loop that it reads: rows, starts, ends; indices, weights if
        present.
        """
        op = self.source(self.loop.scanned[0], REDUCTIONS)
        if len(op.input) < 2 or self.program.integer(op.input[1]) != 0 or op.get_bool("keepdims", True):
            raise Refusal("it does not reduce just the first dimension")
        name, weights = op.input[0], ""
        limits: Dict[str, Tuple[str, str]] = {}
        if self.makes(name, _PRODUCTS):
            name, column = self.made[name].input
            weights, limits["weights"] = self._slice(self._column(column, 1), 1)
        indices = ""
        if self.makes(name, _GATHERS):
            gather = self.made[name]
            if gather.get_int("axis", 0) or gather.get_bool("match_outer"):
                raise Refusal("it does not pick rows")
            indices, limits["rows"] = self._slice(gather.input[1], 1)
            x = self.around(gather.input[0], 2 if weights else None)
        else:
            x, limits["rows"] = self._slice(name, 2 if weights else None)
        if len(set(limits.values())) > 1:
            raise Refusal("the weights are of other rows")
        if weights and not self._are_as_many(weights, indices or x):
            raise Refusal(f"{weights!r} may have another number of rows than the blob that it multiplies")
        rest = [indices, weights] if weights else [indices] if indices else []
        return REDUCTIONS[op.full_type], [x, *limits["rows"], *rest]

    def _are_as_many(self, *names: str) -> bool:
        """Whether the blobs have equally many rows for all open sizes. Otherwise a slice may end elsewhere."""
        choices = zip(*map(self.program.specs, names))
        return all(None not in specs and len({spec.shape[0] for spec in specs if spec}) == 1 for specs in choices)

    def _slice(self, name: str, ndim: Optional[int] = None) -> Tuple[str, Tuple[str, str]]:
        """The blob of ``ndim`` dimensions that is cut along its first one, and the vectors of starts and ends."""
        op = self.source(name, {"onnx.Slice"})
        axes = op.input[3] if len(op.input) > 3 else ""
        if len(op.input) > 4 or (axes and self.program.integer(axes) != 0):
            raise Refusal("it does not cut the first dimension")
        return self.around(op.input[0], ndim), (self._limit(op.input[1]), self._limit(op.input[2]))

    def _limit(self, name: str) -> str:
        """The vector from which trip i takes element i."""
        op = self.source(self._column(name, 0), _GATHERS)
        if op.get_int("axis", 0) or op.input[1] != self.loop.trip:
            raise Refusal("the bounds of a slice do not come from vectors")
        return self.around(op.input[0], 1)

    def _column(self, name: str, axis: int) -> str:
        """The blob to which one dimension is added, at this place."""
        op = self.source(name, {"ExpandDims"})
        if list(op.get_ints("dims")) != [axis]:
            raise Refusal("a dimension is added elsewhere")
        return op.input[0]


PASS = Pass("compose_reduce_slices", (rule(operator({"onnx.Loop"}, "op"), to=_compose),))
