"""Lets operators on float16 compute in float32, and checks that each of them gives the halves that it gave before.

Every such operator is given the halves that the plain net has at its inputs. In the net itself, numbers between two of
them are not rounded to halves: results are closer to the exact ones than the plain net's, and nothing overflows in
between.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from optimize import pipeline
from optimize.engines.accuracy import difference
from optimize.engines.trials import MOST_WORK
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder
from optimize.rewriting.rewrite import run_passes
from optimize.single_steps import blobs_of, results_of
from runtime_arm.errors import ArmnetError, OptimizationError, first_line
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair

# Relative to the largest magnitude, of which a last bit is at most 2**-10. Both results are rounded to halves, and may
# differ by that bit; reference kernels may round once more in between.
LAST_BITS = 2.0**-9


def in_float32(pair: Pair, program: Program, recorder: Recorder) -> Tuple[Pair, Program]:
    """The pair and its program with operators in float32 wherever float16 has no fast kernel; the same ones if nowhere.

    A net that rounds to float16 by itself keeps its conversions, and so does one that has been through here.
    OptimizationError if an operator in float32 gives other halves than before, except in their last bits.
    """
    report = recorder.report
    steps = len(report.steps)
    if any(op.full_type == "FloatToHalf" for op in program.net.op):
        return pair, program
    result = run_passes(program, (pipeline.HALVES,), recorder)
    if len(report.steps) == steps:
        return pair, program
    recorder.progress("comparison of float32 with float16", 0, 1)
    report.notes.append(_comparison(program.pair(pair), result.net.op))
    result = run_passes(result, (pipeline.TIDYING,), recorder)
    return result.pair(pair), result


def _comparison(plain: Pair, ops: Sequence[OperatorDef]) -> str:
    """How far the new operators' results are from the plain net's, as text."""
    trials = _Trials(plain, ops)
    what = f"operators that compute in float32 instead of float16: {trials.count}"
    try:
        known = blobs_of(plain, [*trials.reads, *trials.results.values()])
        if known is None:
            return f"{what}; they were not compared, since a run takes more than {MOST_WORK:,} multiply-adds"
        found = results_of(plain, trials.ops, {name: known[name] for name in trials.reads}, list(trials.results))
    except ArmnetError as error:
        return f"{what}; they were not compared: {first_line(error)}"
    far = {blob: difference(known[blob], found[result]) for result, blob in trials.results.items()}
    worst = max(far, key=lambda blob: far[blob])
    if far[worst] > LAST_BITS:
        raise OptimizationError(
            f"blob {worst!r} in float32 is {far[worst]:.2g} of its largest magnitude away from what float16 gives. "
            "This is a bug of armnet"
        )
    return f"{what}; each alone gives what it gave before, within {far[worst]:.1g} of the largest magnitude"


class _Trials:
    """The new operators, each of which reads blobs of the plain net and writes blobs of its own.

    ops: with conversions around each. count: of those that compute. reads: the blobs of the plain net that they read.
    results: for each blob that they write, the plain net's.
    """

    def __init__(self, plain: Pair, ops: Sequence[OperatorDef]):
        had = {*plain.predict_net.op}
        new = [op for op in ops if op not in had]
        self._narrow = {op.input[0]: op.output[0] for op in new if op.type == "FloatToHalf"}
        self._halves = {**self._narrow, **{op.output[0]: op.input[0] for op in new if op.type == "HalfToFloat"}}
        self.ops: List[OperatorDef] = []
        self.results: Dict[str, str] = {}
        computing = [op for op in new if op.type not in ("HalfToFloat", "FloatToHalf")]
        self.count = len(computing)
        for place, op in enumerate(computing):
            self._add(op, f"result {place}: ")
        made = {name for op in plain.predict_net.op for name in op.output} | {info.name for info in plain.inputs}
        self.reads = list(dict.fromkeys(name for op in self.ops for name in op.input if name in made))

    def _add(self, op: OperatorDef, own: str) -> None:
        """An operator of the wide net, whose blobs here begin with ``own``."""
        reads = {name: f"{own}{name}" for name in op.input if name in self._halves}
        writes = {name: f"{own}{name}" for name in op.output if name}
        self.ops += [OperatorDef.of("HalfToFloat", [self._halves[name]], [wide]) for name, wide in reads.items()]
        inputs = tuple(reads.get(name, name) for name in op.input)
        self.ops.append(op.replace(input=inputs, output=tuple(writes.get(name, "") for name in op.output)))
        for name, written in writes.items():
            half = self._narrow.get(name)
            if half is not None:
                self.ops.append(OperatorDef.of("FloatToHalf", [written], [f"{written}, halves"]))
            self.results[written if half is None else f"{written}, halves"] = name if half is None else half
