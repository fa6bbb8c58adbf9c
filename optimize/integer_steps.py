"""Lets nets in ONNX's QDQ form compute on integers, and counts by how much the results differ from those of the floats
that the integers stand for.

Every new operator is given the integers that the plain net has at its inputs, so that no difference is carried on.
It may differ by one step of its output's scale, where the real result lies next to the middle between two integers.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np

from optimize import pipeline
from optimize.engines.accuracy import TOLERANCE, difference
from optimize.engines.trials import MOST_WORK
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder
from optimize.rewriting.rewrite import run_passes
from optimize.single_steps import blobs_of, results_of
from runtime_arm.errors import ArmnetError, OptimizationError, first_line
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.pair.pair import Pair


def on_integers(pair: Pair, program: Program, recorder: Recorder) -> Tuple[Pair, Program]:
    """The pair and its program with operators on integers wherever a QDQ net means them; the same ones if nowhere.

    OptimizationError if an operator on integers differs from its floats by more than a step.
    """
    report = recorder.report
    steps = len(report.steps)
    result = run_passes(program, pipeline.INTEGERS, recorder)
    made = [step for step in report.steps[steps:] if step.pass_name != pipeline.TIDYING.name]
    if not made:
        del report.steps[steps:]
        return pair, program
    integers = result.pair(pair)
    recorder.progress("comparison of integers with floats", 0, 1)
    report.notes.append(f"{len(made)} operators compute on integers: {_comparison(program.pair(pair), integers)}")
    return integers, result


def _comparison(plain: Pair, integers: Pair) -> str:
    """How far the new operators' results are from the plain net's, as text."""
    written = {name for op in plain.predict_net.op for name in op.output if name}
    had = {*plain.predict_net.op}
    new = [op for op in integers.predict_net.op if op not in had]
    writes = {name: f"{name}'" for op in new for name in op.output if name in written}
    outside = {*written, *(info.name for info in plain.inputs)}
    reads = list(dict.fromkeys(name for op in new for name in op.reads() if name in outside))
    try:
        known = blobs_of(plain, list(dict.fromkeys([*reads, *writes])))
        if known is None:
            return f"not compared with floats, since a run takes more than {MOST_WORK:,} multiply-adds"
        ops = [op.replace(output=tuple(writes.get(name, name) for name in op.output)) for op in new]
        found = results_of(integers, ops, {name: known[name] for name in reads}, list(writes.values()))
    except ArmnetError as error:
        return f"not compared with floats: {first_line(error)}"
    count = off = 0
    for op in new:
        for name in op.output:
            if name in writes:
                off += _steps_off(op, known[name], found[writes[name]])
                count += known[name].size if known[name].dtype.kind in "iu" else 0
    return f"of {count:,} integers {off:,} are one step away from what floats give, none is further"


def _steps_off(op: OperatorDef, wanted: Array, actual: Array) -> int:
    """How many integers are one step off. OptimizationError if one is further off, or a float is."""
    if wanted.dtype.kind in "iu" and (wanted.shape, wanted.dtype) == (actual.shape, actual.dtype):
        far = np.abs(wanted.astype(np.int64) - actual)
        if far.max(initial=0) <= 1:
            return int(np.count_nonzero(far))
        reason = f"{int(far.max())} steps"
    else:
        relative = difference(wanted, actual)
        if relative <= TOLERANCE:
            return 0
        reason = f"{relative:.2g} of its largest magnitude"
    raise OptimizationError(f"{op.signature()} is {reason} away from what floats give. This is a bug of armnet")
