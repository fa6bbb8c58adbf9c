"""A network whose blobs can all be asked for, and which gets faster if nobody does."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Inputs, Predictor
from runtime_arm.pair.pair import Pair

_UNFUSED_RUNS = 16  # for outputs alone, before it is worth fusing operators


class Fusing:
    """Runs a pair as it is. After many runs for its outputs alone, these come from fused operators, if what they give
    for the inputs of that run is the same."""

    def __init__(self, pair: Pair):
        self._pair = pair
        self._plain: Optional[Predictor] = Predictor(pair)
        self._fused: Optional[Predictor] = None
        self._runs = _UNFUSED_RUNS if _has_state(pair) else 0

    def run(self, given: Inputs, names: Sequence[str] = ()) -> Dict[str, Any]:
        """The outputs, and the blobs of these names."""
        if self._fused is not None and not names:
            return self._fused.run(given)
        if self._plain is None:
            self._plain = Predictor(self._pair)
        found = self._plain.run(given, keep=names)
        self._runs += not names
        if self._runs == _UNFUSED_RUNS:
            self._fuse(given, found)
        return found

    def _fuse(self, given: Inputs, expected: Mapping[str, Any]) -> None:
        from optimize import pipeline
        from optimize.engines.accuracy import TOLERANCE, difference
        from optimize.rewriting.program import Program
        from optimize.rewriting.report import Recorder
        from optimize.rewriting.subnets import run_passes_everywhere

        self._runs += 1
        try:
            program = run_passes_everywhere(Program.of(self._pair), pipeline.ALL, Recorder())
            fused = Predictor(program.pair(self._pair))
            found = fused.run(given)
        except ArmnetError:
            return
        if all(difference(values, found[name]) <= TOLERANCE for name, values in expected.items()):
            self._fused, self._plain = fused, None


def _has_state(pair: Pair) -> bool:
    """Whether a run leaves something for the next one."""
    held = {*pair.predict_net.external_input, *(name for op in pair.init_net.op for name in op.output)}
    return any(name in held for op in pair.predict_net.op for name in op.output)
