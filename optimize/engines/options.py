"""The engines that could run each operator of a net, and the one that the runtime chooses."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.tiled.options import KnownOptions
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.steps import FEED_STEP, Step, Value
from runtime_arm.planning.trace import Trace
from runtime_arm.registry.engine_preferences import Preference, preferring, ruled_out
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.specs import TensorSpec


class Option(NamedTuple):
    """An engine, or one variant of it, that supports an operator, and the cost that it states, if any."""

    preference: Preference
    work: Optional[Work]

    @property
    def error(self) -> float:
        """The factor by which it enlarges the rounding errors of a direct sum."""
        return 1.0 if self.work is None else self.work.error

    @property
    def predicted(self) -> float:
        """The time it expects, in multiplies; 0 if it does not say."""
        return 0.0 if self.work is None else self.work.time


class Options(NamedTuple):
    """What could run the operator at a place of the net. ``engine`` runs it now; ``chosen`` is its option."""

    place: int
    op: OperatorDef
    inputs: Specs
    engine: str
    open: Sequence[Option]
    refused: Mapping[str, str]
    chosen: Optional[Option]

    @property
    def problem(self) -> Tuple[object, ...]:
        """Equal for operators that take the same time by the same engine."""
        return problem_of(self.op, self.inputs)

    def within(self, limit: float) -> OperatorDef:
        """The operator with those engines ruled out that enlarge errors by more than the limit."""
        engines: Dict[str, List[Option]] = {}
        for option in self.open:
            engines.setdefault(option.preference.engine, []).append(option)
        preferences: List[Preference] = []
        for engine, options in sorted(engines.items()):
            inexact = [option.preference for option in options if option.error > limit]
            preferences += [Preference(engine)] if len(inexact) == len(options) else inexact
        return ruled_out(self.op, preferences) if preferences else self.op


def problem_of(op: OperatorDef, inputs: Specs) -> Tuple[object, ...]:
    """Equal for operators that take the same time by the same engine."""
    shapes = tuple(None if spec is None else (spec.shape, spec.dtype.name) for spec in inputs)
    return op.replace(input=(), output=(), name="", debug_info=""), shapes


def options_of(pair: Pair, specs: Mapping[str, TensorSpec]) -> List[Options]:
    """The options of the operators as the runtime plans them for inputs of these specs and one thread.

    These are left out: operators in branches, operators after the first one whose output shape depends on data, and
    operators that run as one step with others, except the one that decides by which engine the step runs.
    """
    with Predictor(pair, threads=1) as predictor:
        return options_in(predictor, specs)


def options_in(predictor: Predictor, specs: Mapping[str, TensorSpec]) -> List[Options]:
    """The options of a predictor's operators, as in ``options_of``."""
    steps = predictor.plan({name: spec.shape for name, spec in specs.items()}).steps
    return _of_steps(steps, predictor.pair)


def options_alone(pair: Pair, specs: Mapping[str, TensorSpec]) -> List[Options]:
    """The options of the operators as if none ran as one step with others, up to the first whose output shape depends
    on data. Nothing is planned, which would take a second for a large net."""
    net = pair.predict_net
    written = {name for op in net.op for name in op.output}
    filled = {name: TensorSpec.known(content) for name, content in run_init_net(pair.init_net).items()}
    state = {name: spec.with_shape(spec.shape) for name, spec in filled.items() if name in written}
    given = {**filled, **state, **specs}
    with np.errstate(all="ignore"):
        trace = Trace(net.op, 0, {name: Value(name, spec, FEED_STEP, spec.value) for name, spec in given.items()})
    return _of_steps(trace.steps, pair)


def _of_steps(steps: Sequence[Step], pair: Pair) -> List[Options]:
    """The options of those steps that run operators of the net itself."""
    ops, known = dict(enumerate(pair.predict_net.op)), KnownOptions()
    return [_of_step(step, known) for step in steps if step.origin.op is ops.get(step.index)]


def _of_step(step: Step, known: KnownOptions) -> Options:
    found: Dict[Preference, Option] = {}
    own = step.origin
    refused = {name: reason for name, reason in own.refusals.items() if name not in own.schema.kernels}
    for kernel in own.schema.kernels.values():
        options, reasons = _of_kernel(own, kernel)
        found.update((option.preference, option) for option in options)
        refused.update(reasons)
    for option in _in_tiles(own, known):
        other = found.get(option.preference)
        if other is None or other.predicted > option.predicted:
            found[option.preference] = option
    for preference in found:
        refused.pop(str(preference), None)
    everything = list(found.values())
    return Options(step.index, own.op, own.in_specs, step.engine, everything, refused, _running(step, everything))


def _in_tiles(step: Step, known: KnownOptions) -> Iterator[Option]:
    """The options for blobs in tiles."""
    plain = step.schema.choose(step.op, step.in_specs, step.out_specs)[0]
    for one in known.of(step.op, step.in_specs, step.out_specs, plain):
        for variant in one.kernel.variants or ("",):
            yield Option(Preference(one.kernel.engine, variant), one.work)


def _running(step: Step, found: Sequence[Option]) -> Optional[Option]:
    """The option that runs the step; if the kernel does not say which variant, the one that rounds most."""
    known = step.kernel.variants if step.tiled and step.kernel is not None else ()
    options = [one for one in found if one.preference.engine == step.engine]
    options = [one for one in options if not known or one.preference.variant in known]
    if not step.tiled:
        return min(options, key=lambda one: one.predicted, default=None)
    return max(options, key=lambda one: one.error, default=None)


def _of_kernel(step: Step, kernel: Kernel) -> Tuple[List[Option], Dict[str, str]]:
    """The options of this kernel for the step, and why others are refused."""
    options, refused = [], {}
    specs = step.in_specs, step.out_specs
    for variant in kernel.variants or ("",):
        preference = Preference(kernel.engine, variant)
        op = preferring(step.op, str(preference))
        reason = kernel.refusal(op, *specs)
        if reason is None:
            options.append(Option(preference, None if kernel.work is None else kernel.work(op, *specs)))
        else:
            refused[str(preference)] = reason
    return options, refused
