"""The costs of one variant of a model: bytes, operators, multiply-adds, memory, time, instructions."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from armnet.model_files import files_nbytes
from armnet.opening import pair_folder
from armnet.timing import take_turns
from armnet.weights import weights_nbytes
from runtime_arm.app.model import Model
from runtime_arm.netdef import Array
from runtime_arm.planning.cost import cost_of

Costs = Dict[str, Optional[float]]
NAMES = ("A", "B")


def costs_of(path: str, model: Model, feeds: Mapping[str, Array]) -> Costs:
    """The costs that do not depend on the machine. file_nbytes: the size of the model's files, if known; memory_nbytes:
    of the weights and the arena that an inference of ``feeds`` takes.
    """
    segment = model.predictor.plan({name: array.shape for name, array in feeds.items()})
    adds = sum(cost_of(step.op, step.in_specs, step.out_specs).multiply_adds for step in segment.steps)
    weights = weights_nbytes(model.pair)
    return {
        "file_nbytes": files_nbytes([path]),
        "weights_nbytes": weights,
        "memory_nbytes": weights + segment.arena_nbytes,
        "operators": len(model.pair.predict_net.op),
        "multiply_adds": adds,
    }


def times_of(
    models: Sequence[Model], feeds: Sequence[Mapping[str, Array]], runs: int, progress: Callable[[int, int], None]
) -> Tuple[List[Costs], List[str]]:
    """The median milliseconds and CPU milliseconds of each model, which take turns; and warnings."""

    def inference(model: Model, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        return lambda: model.predictor.run(feeds)

    figures, warnings = take_turns(dict(zip(NAMES, map(inference, models, feeds))), runs, progress)
    return [{"ms": figures[name].seconds * 1e3, "cpu_ms": figures[name].cpu_seconds * 1e3} for name in NAMES], warnings


def instructions_of(path: str, cpu: str) -> Costs:
    """The instructions of an inference on an emulated CPU."""
    from device_tests.host.counting.operator_counts import count_pair
    from device_tests.host.emulation.machine import machine_with

    with pair_folder([path]) as folder:
        return {"instructions": count_pair(machine_with(cpu), folder).network.instructions}
