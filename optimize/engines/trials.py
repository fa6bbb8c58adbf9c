"""Trials of nets on drawn inputs: planning a large net takes seconds, so each net is planned once for all who ask."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimize.engines.options import Options, options_in
from optimize.engines.sample_inputs import BOUNDS, drawn, first_taken_below
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.steps import Step
from runtime_arm.registry.specs import TensorSpec

SAMPLES = 2  # inputs on which errors are measured
ENOUGH_WORK = 10_000_000_000  # multiply-adds; a net that takes more gets only one sample
MOST_WORK = 50_000_000_000  # multiply-adds that one sample may take: a few seconds

Specs = Mapping[str, TensorSpec]


class Trial(NamedTuple):
    """What a net showed: the options of its operators, its outputs for the inputs drawn from seeds 0, 1, ..., on how
    many of these its errors are to be measured, and whether the outputs were computed by direct sums. changed: its
    outputs for the first of these inputs, changed in their last bits, if that was tried. below: the bound below which
    integers among these inputs were drawn."""

    options: List[Options]
    outputs: List[Dict[str, Any]]
    samples: int
    direct: bool = False
    changed: Optional[Dict[str, Any]] = None
    below: int = BOUNDS[0]


class Trials:
    """What nets showed on inputs of one choice of specs, with one thread. Nets are told apart by identity."""

    def __init__(self, specs: Specs):
        self.specs = dict(specs)
        self._known: Dict[Tuple[int, int], Tuple[NetDef, NetDef, Trial]] = {}

    def of(self, pair: Pair, is_measured: Callable[[List[Options]], bool]) -> Trial:
        """The trial of a pair: its options, and its outputs for all samples if errors of such options are measured.

        Otherwise it still runs on one sample, unless that takes too long or is refused.
        """
        found = self.find(pair)
        if found is None:
            with Predictor(pair, threads=1) as predictor:
                work = work_of(predictor.plan({name: spec.shape for name, spec in self.specs.items()}).steps)
                found = Trial(options_in(predictor, self.specs), [], SAMPLES if work <= ENOUGH_WORK else 1)
                needed = is_measured(found.options)
                try:
                    if needed or work <= MOST_WORK:
                        found = self._run(predictor, found, found.samples if needed else 1)
                except ArmnetError:
                    if needed:
                        raise
            self.keep(pair, found)
        return found

    def _run(self, predictor: Predictor, trial: Trial, samples: int) -> Trial:
        """The trial with its outputs for that many samples."""

        def attempt(below: int) -> List[Dict[str, Any]]:
            return [predictor.run(drawn(self.specs, seed, below)) for seed in range(samples)]

        below, outputs = first_taken_below(self.specs, attempt)
        return trial._replace(outputs=outputs, below=below)

    def keep(self, pair: Pair, trial: Trial) -> None:
        """Remember what the pair showed elsewhere."""
        self._known[id(pair.init_net), id(pair.predict_net)] = pair.init_net, pair.predict_net, trial

    def find(self, pair: Pair) -> Optional[Trial]:
        """The trial of a pair if it was tried."""
        known = self._known.get((id(pair.init_net), id(pair.predict_net)))
        return None if known is None else known[2]

    def outputs(self, pair: Pair, specs: Specs, below: Optional[int] = None) -> Optional[Dict[str, Any]]:
        """The pair's outputs for the inputs drawn from these specs, if it was tried on them.

        below: the bound below which integers among them are drawn, by default that of the trial.
        """
        found = self.find(pair) if dict(specs) == self.specs else None
        if found is None or not found.outputs or below not in (None, found.below):
            return None
        return found.outputs[0]


def work_of(steps: Sequence[Step]) -> int:
    """The multiply-adds of a plan's steps."""
    return sum(cost_of(step.op, step.in_specs, step.out_specs).multiply_adds for step in steps)
