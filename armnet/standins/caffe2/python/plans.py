"""Plans of Caffe2: steps that run nets, or other steps, a number of times or until a blob is true.

What Caffe2 runs concurrently runs one after the other here.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Callable, Iterable, List, Optional, Union

from armnet.standins.notes import note
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef


def _nets(nets: Any) -> List[Any]:
    return [] if nets is None else list(nets) if isinstance(nets, (list, tuple)) else [nets]


class ExecutionStep:
    """Nets, or steps, that run one after the other, ``num_iter`` times; once if nothing is said."""

    def __init__(self, name: str, nets: Any = None, num_iter: Optional[int] = None):
        self._name = name or "step"
        self._nets = _nets(nets)
        self._substeps: List[ExecutionStep] = []
        self._is_used = False
        self.num_iter, self.stop, self.only_once = num_iter, "", False
        self.report_net: Any = None
        self.create_workspace, self.instances, self.every, self.concurrent = False, 1, 0, False

    def Name(self) -> str:
        return self._name

    __str__ = Name

    def HasNets(self) -> bool:
        return bool(self._nets)

    def HasSubsteps(self) -> bool:
        return bool(self._substeps)

    def Substeps(self) -> List[ExecutionStep]:
        return self._substeps

    def Nets(self) -> List[Any]:
        """The nets of the step and of its steps, each once."""
        own = [*self._nets, *(net for step in self._substeps for net in step.Nets()), *_nets(self.report_net)]
        return list({net.Name(): net for net in own}.values())

    def _open(self) -> None:
        assert not self._is_used, "Cannot mutate a step that has already been added to a plan/step."

    def _set(self, **values: Any) -> None:
        self._open()
        vars(self).update(values)

    def AddNet(self, net: Any) -> ExecutionStep:
        self._open()
        assert not self._substeps, "Cannot have both network and substeps."
        self._nets.append(net)
        return self

    def AddSubstep(self, substep: ExecutionStep) -> ExecutionStep:
        self._open()
        assert not self._nets, "Cannot have both network and substeps."
        substep._is_used = True
        if substep.HasNets() or substep.HasSubsteps():
            self._substeps.append(substep)
        return self

    def SetIter(self, num_iter: int) -> None:
        self._set(num_iter=num_iter)

    def SetOnlyOnce(self, only_once: bool) -> None:
        self._set(only_once=only_once)

    def SetShouldStopBlob(self, should_stop_blob: Any) -> None:
        """Run until this blob is true; it is looked at after every net and step."""
        self._set(stop=str(should_stop_blob))

    def SetCreateWorkspace(self, create_workspace: bool) -> None:
        """Blobs that the step makes are gone after it."""
        self._set(create_workspace=create_workspace)

    def SetConcurrentSubsteps(self, concurrent_substeps: bool) -> None:
        assert not self._nets, "Cannot have both network and substeps."
        self._set(concurrent=concurrent_substeps)

    def SetNumConcurrentInstances(self, num_concurrent_instances: int) -> None:
        self._set(instances=num_concurrent_instances)

    def SetReportNet(self, report_net: Any, report_interval: int) -> None:
        """A net that runs when the step is done; its interval has no meaning here."""
        self._set(report_net=report_net)

    def RunEveryMillis(self, interval: int) -> None:
        """Run when the steps beside it are done; the interval has no meaning here."""
        self.every = interval


def execution_step(
    default_name: str,
    steps_or_nets: Any,
    num_iter: Optional[int] = None,
    report_net: Any = None,
    report_interval: Optional[int] = None,
    concurrent_substeps: Optional[bool] = None,
    should_stop_blob: Any = None,
    only_once: Optional[bool] = None,
    num_concurrent_instances: Optional[int] = None,
    create_workspace: bool = False,
    run_every_ms: Optional[int] = None,
) -> ExecutionStep:
    """A step of nets or of steps."""
    assert should_stop_blob is None or num_iter is None, "Cannot set both should_stop_blob and num_iter."
    step = ExecutionStep(default_name, num_iter=num_iter)
    step.stop, step.only_once = "" if should_stop_blob is None else str(should_stop_blob), bool(only_once)
    step.report_net, step.create_workspace = report_net, create_workspace
    step.concurrent, step.instances = bool(concurrent_substeps), num_concurrent_instances or 1
    step.every = run_every_ms or 0
    given = _nets(steps_or_nets)
    only_nets = not any(isinstance(one, ExecutionStep) for one in given)
    for one in given:
        if only_nets:
            step.AddNet(one)
        else:
            step.AddSubstep(one if isinstance(one, ExecutionStep) else ExecutionStep(one.Name(), one))
    return step


class Plan:
    """Steps that run one after the other."""

    def __init__(self, name_or_step: Union[str, ExecutionStep]):
        self._steps: List[ExecutionStep] = []
        self._name = str(name_or_step)
        if isinstance(name_or_step, ExecutionStep):
            self.AddStep(name_or_step)

    def __str__(self) -> str:
        return self._name

    def AddStep(self, step: ExecutionStep) -> None:
        step._is_used = True
        if step.HasNets() or step.HasSubsteps():
            self._steps.append(step)

    def Steps(self) -> List[ExecutionStep]:
        return self._steps

    def Nets(self) -> List[Any]:
        """The nets of all steps, each once."""
        return list({net.Name(): net for step in self._steps for net in step.Nets()}.values())


class PlanRun:
    """One run of a plan, on the blobs of a workspace. ``net_of``: a net of the plan as armnet runs it."""

    def __init__(self, plan: Plan, blobs: Workspace, net_of: Callable[[Any], NetDef]) -> None:
        self._blobs = blobs
        self._nets = {net.Name(): net_of(net) for net in plan.Nets()}
        for step in plan.Steps():
            self._run(step)

    def _run(self, step: ExecutionStep) -> None:
        if step.only_once and not step.stop:
            raise RuntimeError(f"step {step}: only_once goes with should_stop_blob alone, as in Caffe2")
        if step.concurrent or step.instances > 1:
            note("Steps that Caffe2 runs concurrently run one after the other in armnet")
        around = self._blobs
        for _ in range(step.instances):
            self._blobs = _within(around) if step.create_workspace else around
            self._run_body(step)
            if step.create_workspace:
                for name in around.blobs():
                    around.feed(name, self._blobs.fetch(name))
            self._blobs = around

    def _run_body(self, step: ExecutionStep) -> None:
        trips: Iterable[int] = (
            count() if step.stop and not step.only_once else range(1 if step.num_iter is None else step.num_iter)
        )
        for _ in trips:
            if self._run_trip(step):
                break
        for last in step.Substeps():
            if last.every:
                self._run(last)
        if step.report_net is not None:
            self._run_net(step.report_net)

    def _run_trip(self, step: ExecutionStep) -> bool:
        """Whether the step is to stop."""
        for one in step.Substeps() or step._nets:
            if isinstance(one, ExecutionStep):
                if one.every:
                    continue
                self._run(one)
            else:
                self._run_net(one)
            if step.stop and self._blobs.has(step.stop) and bool(self._blobs.fetch(step.stop).all()):
                return True
        return False

    def _run_net(self, net: Any) -> None:
        self._blobs.run_net_once(self._nets[net.Name()])


def _within(around: Workspace) -> Workspace:
    """A workspace with the same blobs."""
    inner = Workspace()
    for name in around.blobs():
        inner.feed(name, around.fetch(name))
    return inner
