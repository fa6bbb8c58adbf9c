"""Ways to run a train net: which blobs are computed again, how much memory that takes, and how long."""

from __future__ import annotations

from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence

from optimize.training.early_updates import update_early
from optimize.training.recompute import Forward, recompute
from optimize.training.segments import choices
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.memory_sharing import Sharing
from runtime_arm.planning.steps import FEED_STEP, Value
from runtime_arm.planning.trace import Memory, Trace, set_lifetimes
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.shape_inference import infer_net
from runtime_arm.registry.specs import TensorSpec

MULTIPLY_ADDS, NBYTES = 1e10, 4e9  # a second, of a slow core; only their ratio matters


class StepPlan(NamedTuple):
    """A train net in the order in which it runs. peak: bytes that are live at the worst step. repeated: operators that
    run a second time. seconds: what they take, roughly."""

    net: NetDef
    peak: int
    repeated: int
    seconds: float


def step_plans(net: NetDef, specs: Mapping[str, TensorSpec], survivors: Iterable[str]) -> List[StepPlan]:
    """Plans for inputs of these specs, each of which takes less memory and more time than those before it.

    Inputs with a value are constants. survivors: blobs that are wanted at the end. There is one plan where the size of
    a blob depends on data.
    """
    wanted = list(survivors)
    known = infer_net(net, specs)
    if any(spec is None for spec in known.values()):
        return [StepPlan(update_early(net), 0, 0, 0.0)]
    forward = Forward(net, [name for name, spec in specs.items() if spec.value is not None])
    sizes = {name: spec.nbytes for name, spec in known.items() if spec is not None}
    seconds = [_seconds(op, known) for op in forward.ops]
    is_cheap = [lookup(op).multiply_adds is None for op in forward.ops]
    found: List[StepPlan] = []
    memory = Memory()
    for dropped in choices(forward, sizes, seconds, is_cheap):
        other, repeated = recompute(net, forward, dropped)
        other = update_early(other)
        took = sum(seconds[forward.writers[op.output[0]]] for op in repeated)
        found.append(StepPlan(other, _peak(other, specs, wanted, memory), len(repeated), took))
    return _best(found)


def _seconds(op: OperatorDef, known: Mapping[str, Optional[TensorSpec]]) -> float:
    cost = cost_of(op, [known.get(name) for name in op.input], [s for s in map(known.get, op.output) if s is not None])
    return cost.multiply_adds / MULTIPLY_ADDS + cost.nbytes / NBYTES


def _peak(net: NetDef, specs: Mapping[str, TensorSpec], wanted: Sequence[str], memory: Memory) -> int:
    """Bytes that are live at the worst step, if results overwrite operands where they may."""
    given = {name: specs[name] for name in net.external_input if name in specs}
    env = {name: Value(name, spec, FEED_STEP, spec.value) for name, spec in given.items()}
    trace = Trace(net.op, 0, env, memory)
    set_lifetimes(trace.steps, trace.feeds, [trace.env[name] for name in wanted if name in trace.env])
    sharing = Sharing(trace.steps, trace.feeds)
    sharing.share_views()
    sharing.share_in_place()
    return sharing.peak()


def _best(plans: Sequence[StepPlan]) -> List[StepPlan]:
    """In the order of time, the plans that take less memory than all before them."""
    chosen: List[StepPlan] = []
    for plan in sorted(plans, key=lambda plan: (plan.seconds, plan.peak)):
        if not chosen or plan.peak < chosen[-1].peak:
            chosen.append(plan)
    return chosen
