"""Runs a pair by armnet's own reference kernels: the original run of formats that no other runtime can run."""

from __future__ import annotations

from typing import Mapping

import numpy as np

from exporter.common.original_run import OriginalBlob, OriginalRun
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.kernel import REFERENCE


def run_reference(pair: Pair, feeds: Mapping[str, Array]) -> OriginalRun:
    """Every blob of a pair, each computed by its operator's reference kernel."""
    net = by_definition(pair.predict_net)
    names = list(dict.fromkeys(name for op in net.op for name in op.output if name))
    with Predictor(pair.replace(predict_net=net), threads=1) as predictor:
        values = predictor.run(dict(feeds), keep=names)
    blobs = [OriginalBlob(name, name, values[name]) for name in names if isinstance(values[name], np.ndarray)]
    return OriginalRun("armnet's reference kernels (there is no runtime of Caffe2's to install)", blobs)


def by_definition(net: NetDef) -> NetDef:
    """The net with the reference kernel demanded for every operator."""
    return net.replace(op=tuple(op.replace(engine=REFERENCE) for op in net.op))
