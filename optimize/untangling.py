"""Simplifies branches, loops, sequences and indexed writes before anything else is done to a net.

PyTorch's older exporter writes ``squeeze``, lists and ``x[:, 1:] = y`` by them. Shapes after them are known only once
they are simplified.
"""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

from optimize import pipeline
from optimize.engines.trials import Trials
from optimize.equivalence import Steps, require_equal
from optimize.passes.composing import compose_bags, compose_reduce_slices, compose_update_slice
from optimize.passes.folding import choose_branches, unroll_loops
from optimize.passes.removing import remove_sequences
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder
from optimize.rewriting.rewrite import MOST_ROUNDS
from optimize.rewriting.subnets import run_passes_everywhere
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.randomness import SEQUENCE_READERS

Shapes = Mapping[str, Sequence[int]]
_DONE_BY = {
    one.PASS.name
    for one in (
        choose_branches,
        compose_bags,
        compose_reduce_slices,
        unroll_loops,
        remove_sequences,
        compose_update_slice,
    )
}
_TYPES = {"If", "onnx.Loop", "onnx.ScatterND", *SEQUENCE_READERS}


def untangled(pair: Pair, inputs: Sequence[TensorInfo], shapes: Shapes, recorder: Recorder) -> Tuple[Pair, Program]:
    """The pair without branches whose condition is known, loops of few trips, sequences of known elements and blocks
    that are written element by element, and its program; the same pair if it has none of these.

    inputs, shapes: the pair's inputs with the examples of their shapes, and these examples. OptimizationError if the
    result computes anything else.
    """
    program = Program.of(pair, examples=shapes)
    if not _is_tangled(pair.predict_net):
        return pair, program
    report = recorder.report
    before = len(report.steps)
    result, after = _rounds(pair, program, shapes, recorder)
    made = report.steps[before:]
    if not any(step.pass_name in _DONE_BY for step in made):
        del report.steps[before:]
        return pair, program
    recorder.progress("comparison with the net as it was", 0, 1)
    plain = pair.replace(inputs=tuple(inputs))

    def after_steps(count: int) -> Pair:
        return _rounds(pair, program, shapes, Recorder(stop_after=count))[0].replace(inputs=plain.inputs)

    steps = Steps(made, after_steps)
    require_equal(pair.inputs, plain, result.replace(inputs=plain.inputs), program, steps, report, Trials({}), result)
    return result, after


def _is_tangled(net: NetDef) -> bool:
    """Whether the net or a net inside it has anything that may be simplified."""
    return any(op.full_type in _TYPES or any(map(_is_tangled, op.subnets())) for op in net.op)


def _rounds(pair: Pair, program: Program, shapes: Shapes, recorder: Recorder) -> Tuple[Pair, Program]:
    """The pair, whose program is given, after the passes, again and again: what one round leaves shows the shapes that
    the next one needs."""
    for _ in range(MOST_ROUNDS):
        steps = len(recorder.report.steps)
        after = run_passes_everywhere(program, pipeline.UNTANGLING, recorder)
        if len(recorder.report.steps) == steps:
            break
        pair = after.pair(pair)
        program = Program.of(pair, examples=shapes)
    return pair, program
