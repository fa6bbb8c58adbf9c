"""Measures the speed of a device, including the transfers to and from it."""

from __future__ import annotations

import time

import numpy as np

from runtime_arm.gpu.devices import open_device
from runtime_arm.gpu.island import Island, Session
from runtime_arm.netdef import OperatorDef
from runtime_arm.planning.steps import FEED_STEP, Value
from runtime_arm.planning.trace import Trace
from runtime_arm.registry.specs import TensorSpec

CHANNELS, SIDE, SECONDS = 64, 56, 0.2


def convolution_gflops(spec: str) -> float:
    """GFLOP/s of a 3 x 3 convolution of 64 channels and 56 x 56 pixels, copies to the device and back included."""
    x = Value("x", TensorSpec((1, CHANNELS, SIDE, SIDE), np.float32), FEED_STEP)
    weights = np.full((CHANNELS, CHANNELS, 3, 3), 1e-3, np.float32)
    w = Value("w", TensorSpec.known(weights), FEED_STEP, weights)
    trace = Trace([OperatorDef.of("Conv", ["x", "w"], ["y"], kernel=3, pad=1)], 0, {"x": x, "w": w})
    island = Island(Session(*open_device(spec)), trace.steps, [x], trace.steps[0].outputs)
    island.build()
    given = np.ones(x.spec.shape, np.float32)
    results = [np.empty(x.spec.shape, np.float32)]
    fastest, end = float("inf"), 0.0
    while not end or time.perf_counter() < end:
        start = time.perf_counter()
        island.run([given], results)
        fastest = min(fastest, time.perf_counter() - start)
        end = end or time.perf_counter() + SECONDS  # the first run compiles
    return 2e-9 * 9 * CHANNELS**2 * SIDE**2 / fastest
