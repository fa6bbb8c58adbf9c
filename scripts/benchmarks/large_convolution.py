"""``python -m scripts.benchmarks.large_convolution``: runs one convolution and prints its memory as JSON."""

from __future__ import annotations

import json
import resource

import numpy as np

from runtime_arm import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill

SIZE, CHANNELS = 2048, 64


def _peak_nbytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Prints by how much the process grows in addition to its input and output."""
    w = np.random.default_rng(0).standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
    init = NetDef("init", (fill("w", w),), (), ("w",))
    net = NetDef.from_text('net "large": data, w -> y\nConv(data, w) -> y  kernel=3  pad=1')
    x = np.ones((1, CHANNELS, SIZE, SIZE), np.float32)
    y = np.ones_like(x)
    before = _peak_nbytes()
    with Predictor(init, net, threads=1) as predictor:
        predictor.run({"data": x}, out={"y": y})
        grown = _peak_nbytes() - before
        segment = predictor.plan({"data": x.shape})
        engines = "+".join(step.engine for step in segment.running)
        facts = {"arena_nbytes": segment.arena_nbytes, "peak_nbytes": grown, "blobs_nbytes": x.nbytes + y.nbytes}
        print(json.dumps({**facts, "engine": engines}))


if __name__ == "__main__":
    main()
