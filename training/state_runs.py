"""Runs the nets of a training on its state: parameters, statistics, the solver's state.

The state is in the memory of the plan that changed it last, and the next run continues there. So it is neither copied
in nor out, and it exists only once.
"""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Mapping, Optional, Sequence

import numpy as np

from optimize.training import StepPlan, first_backward, step_plans, update_early
from runtime_arm.errors import ResourceError, UsageError
from runtime_arm.execution.executor import Executor
from runtime_arm.machine import blas
from runtime_arm.netdef import Array, NetDef
from runtime_arm.planning.plan import Segment
from runtime_arm.registry.specs import TensorSpec
from training.interrupts import held_back
from training.step_memory import StepMemory, measured


class StateRuns:
    """``values``: the state, by name; arrays that the next run overwrites. memory: bytes that a run may take."""

    def __init__(
        self,
        values: Mapping[str, Array],
        constants: Mapping[str, Array],
        iteration: str,
        threads: int,
        memory: Optional[int] = None,
    ):
        self._values, self._constants = dict(values), constants
        self._iteration, self._threads, self._memory = iteration, threads, memory
        self._runs: Dict[Hashable, _NetRun] = {}
        self._is_broken = False

    @property
    def values(self) -> Dict[str, Array]:
        """UsageError if a step was interrupted while it changed them."""
        if self._is_broken:
            raise UsageError("the last step failed while it changed the parameters: continue from a checkpoint")
        return self._values

    def replace(self, values: Mapping[str, Array]) -> None:
        """Continue from other values; they are copied when the next run begins."""
        self._values, self._is_broken = dict(values), False

    def run(self, net: NetDef, given: Mapping[str, Any], wanted: Sequence[str]) -> Dict[str, Any]:
        """The wanted blobs, after one of the nets has run. An error in the forward pass leaves the state as it was."""
        run = self._run_of(net, given, wanted)
        values = self.values
        begun = int(values[self._iteration][0])
        kept = {name: values[name].copy() for name in run.changed_early}
        own = run.own(values)
        try:
            with held_back():
                done = run(own, values, given, wanted)
                values.update(run.executor.carried())
                return done
        except BaseException:
            if own:
                self._go_back(kept, begun)
            raise

    def _go_back(self, kept: Mapping[str, Array], begun: int) -> None:
        """Undo the changes of a run that ended early, if the parameters are still unchanged."""
        self._is_broken = int(self._values[self._iteration][0]) != begun
        if not self._is_broken:
            self._values = {name: np.array(kept.get(name, value)) for name, value in self._values.items()}

    def memory(self, net: NetDef, given: Mapping[str, Any], wanted: Sequence[str]) -> StepMemory:
        """The memory of a run, up to where sizes depend on data; nothing runs."""
        run = self._run_of(net, given, wanted)
        return measured(run.plan(self.values, given, wanted), run.executor.net, self._values, run.repeated)

    def _run_of(self, net: NetDef, given: Mapping[str, Any], wanted: Sequence[str]) -> _NetRun:
        """The net as it runs for such feeds. ResourceError if that takes more memory than allowed."""
        shapes = None if self._memory is None else tuple((name, value.shape) for name, value in given.items())
        key = net.name, shapes
        if key not in self._runs:
            if self._memory is not None:
                self.close()
            self._runs[key] = self._planned(net, given, wanted)
        return self._runs[key]

    def _planned(self, net: NetDef, given: Mapping[str, Any], wanted: Sequence[str]) -> _NetRun:
        if self._memory is None:
            return self._net_run(StepPlan(update_early(net), 0, 0, 0.0))
        arrays = {**self._values, **given}
        specs = {name: TensorSpec(value.shape, value.dtype) for name, value in arrays.items()}
        specs.update((name, TensorSpec.known(value)) for name, value in self._constants.items())
        plans = step_plans(net, specs, [*self._values, *wanted])
        fitting = [plan for plan in plans if plan.peak <= self._memory]
        least = 0
        for plan in dict.fromkeys([*fitting, plans[-1]]):
            run = self._net_run(plan)
            segment = run.plan(self._values, given, wanted)
            if segment.border is not None:
                raise UsageError("memory: sizes of blobs depend on data, so the memory of a step is not known")
            least = segment.arena_nbytes
            if least <= self._memory:
                return run
        raise ResourceError(
            f"a step on these feeds takes at least {least:,} bytes, more than the {self._memory:,} that it may take"
        )

    def _net_run(self, plan: StepPlan) -> _NetRun:
        return _NetRun(plan, list(self._values), self._constants, self._threads)

    def close(self) -> None:
        """Free the plans and end the workers; the next run starts new ones."""
        if self._runs:
            self._values = {name: np.array(value) for name, value in self._values.items()}
        for run in self._runs.values():
            run.executor.close()
        self._runs.clear()


class _NetRun:
    """One of the nets. ``changed_early``: the state that it changes before the backward pass begins."""

    def __init__(self, plan: StepPlan, state: Sequence[str], constants: Mapping[str, Array], threads: int):
        net = plan.net
        self.repeated = plan.repeated
        self._read = [name for name in net.external_input if name in state]
        changed = [name for name in net.external_output if name in state]
        self._carry = {name: name for name in changed if name in self._read}
        forward = net.op[: first_backward(net.op)]
        early = {name for op in forward for name in op.output}
        is_whole = len(forward) < len(net.op)
        self.changed_early: List[str] = [name for name in changed if is_whole and name in early]
        known = {name: value for name, value in constants.items() if name in net.external_input}
        self.executor, self._threads = Executor(net, known, threads), threads

    def own(self, values: Mapping[str, Array]) -> List[str]:
        """The state that is still where the last run left it."""
        left = self.executor.carried()
        return [name for name in self._read if name in left and values[name] is left[name]]

    def __call__(
        self, own: Sequence[str], values: Mapping[str, Array], given: Mapping[str, Any], wanted: Sequence[str]
    ) -> Dict[str, Any]:
        fed = {name: values[name] for name in self._read if name not in own}
        with blas.Threads(self._threads):
            return self.executor.run({**fed, **given}, wanted, carry=self._carry)

    def plan(self, values: Mapping[str, Array], given: Mapping[str, Any], wanted: Sequence[str]) -> Segment:
        fed = {name: values[name] for name in self._read}
        return self.executor.plan({**fed, **given}, list(dict.fromkeys([*wanted, *self._carry.values()])))
