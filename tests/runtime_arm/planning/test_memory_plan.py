"""Sharing memory changes no bit of any result."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from runtime_arm.execution.executor import Executor
from tests.support.random_nets import KINDS, PARTS, RandomNet, random_nets


@settings(max_examples=150)
@given(random_nets(kinds=PARTS) | random_nets(kinds=[*KINDS, *PARTS]))
def test_planned_and_unplanned_are_bit_equal(drawn: RandomNet) -> None:
    """If every blob is fetched, none can share memory; if only the outputs are, all sharing is used."""
    executor = Executor(drawn.net, drawn.weights)
    everything = [name for op in drawn.net.op for name in op.output]
    for seed in range(2):
        unplanned = executor.run(drawn.feed(seed), list(dict.fromkeys(everything)))
        planned = executor.run(drawn.feed(seed), drawn.net.external_output)
        for name in drawn.net.external_output:
            assert planned[name].tobytes() == unplanned[name].tobytes(), name
            assert np.isfinite(planned[name]).all(), name
