"""Runs single operators of a rewritten net on the blobs that the plain net has, so that no difference is carried on."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from optimize.engines.sample_inputs import drawn, first_taken_below
from optimize.engines.trials import MOST_WORK, work_of
from optimize.rewriting.shapes import first_taken
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

Blobs = Mapping[str, Array]


def blobs_of(plain: Pair, names: Sequence[str]) -> Optional[Dict[str, Array]]:
    """These blobs of the plain net, and its inputs, for drawn ones; None if a run takes more than MOST_WORK."""

    def run(specs: Mapping[str, TensorSpec]) -> Optional[Dict[str, Array]]:
        keep = [name for name in names if name not in specs]

        def attempt(below: int) -> Dict[str, Array]:
            feeds = drawn(specs, below=below)
            return {**feeds, **predictor.run(feeds, keep=keep)}

        with Predictor(plain, threads=1) as predictor:
            if work_of(predictor.plan({name: spec.shape for name, spec in specs.items()}).steps) > MOST_WORK:
                return None
            return first_taken_below(specs, attempt)[1]

    return first_taken(plain.inputs, run)


def results_of(pair: Pair, ops: Sequence[OperatorDef], feeds: Blobs, outputs: Sequence[str]) -> Dict[str, Array]:
    """The blobs ``outputs`` after these operators, which read ``feeds`` and weights of the pair."""
    inside = {name for op in ops for name in op.output}
    weights = dict.fromkeys(name for op in ops for name in op.reads() if name not in inside and name not in feeds)
    net = NetDef(op=tuple(ops), external_input=(*feeds, *weights), external_output=tuple(outputs))
    inputs = tuple(TensorInfo(name, feed.shape, feed.dtype.name) for name, feed in feeds.items())
    with Predictor(Pair(pair.init_net, net, inputs), threads=1) as predictor:
        return dict(predictor.run(dict(feeds)))
