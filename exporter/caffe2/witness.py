"""Caffe2 nets and pairs run by armnet's own reference kernels, where no other runtime is to be had."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Mapping, Sequence

import numpy as np

from exporter.caffe2.export import from_caffe2
from exporter.compare.witness import AnyPath, Evidence, Seen
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import REFERENCE


def reference(paths: Sequence[AnyPath], feeds: Mapping[str, Array]) -> Evidence:
    """Every blob of a Caffe2 pair of files, or of a pair's folder, computed by definition."""
    pair = from_caffe2(paths[0], paths[1]) if len(paths) == 2 else Pair.load(paths[0])
    net = by_definition(pair.predict_net)
    names = _written(net)
    with Predictor(pair.replace(predict_net=net), threads=1) as predictor:
        values = predictor.run(dict(feeds), keep=names)
    seen = [Seen(name, name, values[name]) for name in names if isinstance(values[name], np.ndarray)]
    return Evidence("armnet's reference kernels (of Caffe2 no runtime is to be had)", seen)


def by_definition(net: NetDef) -> NetDef:
    """The net with the reference kernel for every operator."""
    return net.replace(op=tuple(replace(op, engine=REFERENCE) for op in net.op))


def _written(net: NetDef) -> List[str]:
    return list(dict.fromkeys(name for op in net.op for name in op.output if name))
