"""Keeps the error of a net below a limit by ruling out engines that round more, first where they gain least."""

from __future__ import annotations

from functools import cached_property
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from optimize.engines.accuracy import TOLERANCE, Feeds, Results, difference, relative_error, results
from optimize.engines.decisions import Cut, before_decisions
from optimize.engines.options import Options, options_alone
from optimize.engines.sample_inputs import drawn, in_last_bits
from optimize.engines.trials import Trial, Trials
from runtime_arm.execution.predictor import Predictor
from runtime_arm.pair.pair import Pair

DIRECT = 1.0  # the error of a direct sum, which is the unit of the errors of engines

Limits = Mapping[int, float]  # by place in the net: the factor by which the engine may enlarge errors


class _Decided(NamedTuple):
    """The part of a pair that is measured, and what it makes by the pair's own engines and by direct sums."""

    cut: Cut
    own: Results
    direct: Results


class Budget:
    """Measures errors of a pair and of what engines make of it, on inputs drawn at random.

    Errors are relative to the largest magnitude of an output; they count against ``plain``, from which the pair was
    made, and against the pair itself, both computed by direct sums. If outputs differ by more than ``accuracy`` because
    the net decides otherwise, the errors of the numbers by which it decides count instead, against the pair itself (see
    ``optimize.engines.decisions``). ``samples`` are the inputs. ``options`` are the pair's; ``is_needed`` says
    whether the runtime would choose an engine that rounds more than direct sums do.
    """

    def __init__(self, plain: Pair, pair: Pair, trials: Trials, accuracy: float):
        self._plain, self._pair, self._trials, self._accuracy = plain, pair, trials, accuracy
        self._errors: Dict[Tuple[str, ...], float] = {}  # by the engines of the operators
        self._own = trials.of(pair, _rounds)
        below = self._own.below
        self.samples: Sequence[Feeds] = [drawn(trials.specs, seed, below) for seed in range(self._own.samples)]
        self.options = self._own.options
        self.is_needed = _rounds(self.options)

    @cached_property
    def _decided(self) -> Optional[_Decided]:
        """The part of the net that is measured; None for the whole net."""
        if self._agrees(self._of_plain) and self._agrees(self._of_pair):
            return None
        rounding = [one.place for one in self.options if _rounds([one])]
        cut = before_decisions(self._pair, self._trials.specs, rounding)
        if cut is None:
            return None
        own, direct = (results(cut.of(one), self.samples) for one in (self._pair, directly(self._pair, self.options)))
        if not cut.chooses_otherwise(direct, own):
            return None
        return _Decided(cut, cut.measured(own), cut.measured(direct))

    def _results(self, pair: Pair) -> Results:
        """What is measured of the pair, perhaps with other engines."""
        is_own = _engines(pair) == _engines(self._pair)
        if self._decided is None:
            return self._own.outputs if is_own and self.is_needed else results(pair, self.samples)
        cut = self._decided.cut
        return self._decided.own if is_own else cut.measured(results(cut.of(pair), self.samples))

    def _agrees(self, wanted: Results) -> bool:
        return relative_error(wanted, self._own.outputs) <= self._accuracy

    @cached_property
    def _of_pair(self) -> Results:
        """The pair's own outputs by direct sums."""
        return results(directly(self._pair, self.options), self.samples)

    @cached_property
    def _of_plain(self) -> Results:
        """The plain pair's outputs by direct sums.

        If the pair's own outputs differ from them, inputs changed in their last bits are tried at once: ``equivalence``
        will ask for them, and planning the plain pair once more takes seconds if it is large.
        """
        if self._plain is self._pair:
            return self._of_pair
        options, feeds, changed = options_alone(self._plain, self._trials.specs), self.samples[0], None
        with Predictor(directly(self._plain, options), threads=1) as predictor:
            outputs = [predictor.run(one) for one in self.samples]
            if _are_apart(outputs[:1], self._own.outputs) and any(one.dtype.kind == "f" for one in feeds.values()):
                rng = np.random.default_rng(0)
                changed = predictor.run({name: in_last_bits(array, rng) for name, array in feeds.items()})
        trial = Trial(options, outputs, len(outputs), direct=True, changed=changed, below=self._own.below)
        self._trials.keep(self._plain, trial)
        return outputs

    @cached_property
    def _wanted(self) -> Sequence[Results]:
        if self._decided is not None:
            return [self._decided.direct]
        return [self._of_pair] if self._plain is self._pair else [self._of_pair, self._of_plain]

    @property
    def sees_nothing(self) -> bool:
        """Whether outputs are zero for every sample, so that errors do not show."""
        outputs = [output for result in self._wanted[-1] for output in result.values()]
        return all(isinstance(output, np.ndarray) and not output.any() for output in outputs)

    def error(self, pair: Pair) -> float:
        """The error of the pair, perhaps with other engines, by the engines it chooses."""
        engines = _engines(pair)
        if engines not in self._errors:
            actual = self._results(pair)
            self._errors[engines] = max(relative_error(wanted, actual) for wanted in self._wanted)
        return self._errors[engines]


def _are_apart(wanted: Results, actual: Results) -> bool:
    pairs = [(one[name], other.get(name)) for one, other in zip(wanted, actual) for name in one]
    return any(difference(*pair) > TOLERANCE for pair in pairs)


def _rounds(options: Sequence[Options]) -> bool:
    """Whether the runtime would choose an engine that rounds more than direct sums do."""
    return any(one.chosen is not None and one.chosen.error > DIRECT for one in options)


def _engines(pair: Pair) -> Tuple[str, ...]:
    return tuple(op.engine for op in pair.predict_net.op)


def directly(pair: Pair, options: Sequence[Options]) -> Pair:
    """The pair whose operators rule out the engines that round more than direct sums do."""
    return limited(pair, options, dict.fromkeys(range(len(pair.predict_net.op)), DIRECT))


def limited(pair: Pair, options: Sequence[Options], limits: Limits) -> Pair:
    """The pair with engines ruled out that exceed the limits; the pair itself if there are no limits."""
    if not limits:
        return pair
    ops = list(pair.predict_net.op)
    for one in options:
        if one.place in limits:
            ops[one.place] = one.within(limits[one.place])
    return pair.replace(predict_net=pair.predict_net.replace(op=tuple(ops)))


def find_limits(errors: Mapping[int, float], gains: Mapping[int, float], fits: Callable[[Limits], bool]) -> Limits:
    """Limits with which the net fits its budget: as few as possible, where they cost least.

    errors: by place, the error of the engine that would be chosen. gains: the time that it saves. All operators are
    limited to one level of error after the other, from the highest down. Once the net fits, the limits that cost the
    most time are lifted again.
    """
    if fits({}):
        return {}
    levels = sorted({*errors.values(), DIRECT}, reverse=True)
    for level in levels[1:]:
        limits: Dict[int, float] = {place: level for place, error in errors.items() if error > level}
        if fits(limits):
            return _relaxed(limits, sorted(limits, key=lambda place: -gains.get(place, 0.0)), fits)
    return {place: DIRECT for place, error in errors.items() if error > DIRECT}


def _relaxed(limits: Limits, order: List[int], fits: Callable[[Limits], bool]) -> Limits:
    """The limits without as many from the head of ``order`` as the net allows, found by bisection."""
    free, tight = 0, len(order)
    while tight - free > 1:
        middle = (free + tight) // 2
        if fits({place: limits[place] for place in order[middle:]}):
            free = middle
        else:
            tight = middle
    return {place: limits[place] for place in order[free:]}
