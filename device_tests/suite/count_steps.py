"""``python -m device_tests.suite.count_steps PAIR``: marks the start, an inference, and the steps of another one.

``device_tests.host.counting.operator_counts`` runs it in an emulator that counts instructions. The name of a step's
region consists of its index, type, output and engine, with tabs between them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Dict

import numpy as np

from device_tests.suite.regions import region

if TYPE_CHECKING:
    from runtime_arm import Predictor
    from runtime_arm.planning.steps import Step
    from runtime_arm.registry.kernel import Run

NOTHING, START, NETWORK = "nothing", "start", "network"  # the regions that are not operators


def main(path: str) -> None:
    """Runs the pair at ``path`` three times: including the start, as a whole, and step by step."""
    with region(NOTHING):
        pass
    with region(START):
        from runtime_arm import load

        predictor = load(path, threads=1)
        predictor.run(examples(predictor))
    from runtime_arm.execution.profiling import around_steps

    with predictor:
        feeds = examples(predictor)
        with region(NETWORK):
            predictor.run(feeds)
        with around_steps(predictor, _counted):
            predictor.run(feeds)


def examples(predictor: Predictor) -> Dict[str, Any]:
    """Inputs without random numbers: floats between -1 and 1, or small integers. Open dimensions are 1."""
    feeds = {}
    for info in predictor.inputs:
        like = info.example()
        wave = np.sin(np.arange(like.size)).reshape(like.shape)
        feeds[info.name] = (wave if like.dtype.kind == "f" else np.abs(wave) * 100).astype(like.dtype)
    return feeds


def _counted(step: Step, run: Run) -> Run:
    marks = region("\t".join([str(step.index), step.op.full_type, step.op.output[0], step.engine]))

    def run_counted() -> None:
        with marks:
            run()

    return run_counted


if __name__ == "__main__":
    main(sys.argv[1])
