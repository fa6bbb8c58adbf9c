"""Outputs of one run that are inputs of the next: key/value caches stay where they are."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from runtime_arm import Pair, Predictor
from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo

CARRY = {"past_key": "key", "past_value": "value"}
RNG = np.random.default_rng(0)
STEPS = [RNG.standard_normal((1, 1, 16)).astype(np.float32) for _ in range(6)]


def net(op: OperatorDef, inputs: List[TensorInfo], weights: Dict[str, Any]) -> Pair:
    """One operator, and another that is no part of the cache."""
    double = OperatorDef.of("Add", ["x", "x"], ["twice"])
    outputs = [TensorInfo(name) for name in ("y", "key", "value", "twice")]
    read = [*(info.name for info in inputs), *weights]
    predict = NetDef("step", (double, op), external_input=tuple(read), external_output=tuple(o.name for o in outputs))
    fills = tuple(fill(name, content) for name, content in weights.items())
    return Pair(NetDef("init", fills, external_output=tuple(weights)), predict, tuple(inputs), tuple(outputs), {})


def grouped(room: int) -> Pair:
    """A step of a decoder: grouped attention whose keys and values have their final size from the beginning."""
    names = ["x", "x", "x", "past_key", "past_value", "last", "total"]
    heads = {"num_heads": 2, "kv_num_heads": 2}
    op = OperatorDef.of("GroupQueryAttention", names, ["y", "key", "value"], domain="com.microsoft", **heads)
    inputs = [TensorInfo("x", (1, 1, 16), "float32"), *(TensorInfo(name, (1, 2, room, 8), "float32") for name in CARRY)]
    return net(op, [*inputs, TensorInfo("last", (1,), "int32")], {"total": np.array([room], np.int32)})


def growing() -> Pair:
    """A step of a decoder whose keys and values grow by one."""
    names = ["x", "x", "x", "", "past_key", "past_value"]
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    op = OperatorDef.of("Attention", names, ["y", "key", "value"], domain="onnx", **heads)
    caches = [TensorInfo(name, (1, 2, "n", 8), "float32") for name in CARRY]
    return net(op, [TensorInfo("x", (1, 1, 16), "float32"), *caches], {})


def explicit(predictor: Predictor, caches: Dict[str, Any], feeds: List[Dict[str, Any]]) -> List[Any]:
    results = []
    for feed in feeds:
        found = predictor.run({**feed, **caches})
        caches = {name: found[output] for name, output in CARRY.items()}
        results.append(found["y"])
    return results


def carried(predictor: Predictor, caches: Dict[str, Any], feeds: List[Dict[str, Any]]) -> List[Any]:
    results = []
    for feed in feeds:
        found = predictor.run({**feed, **caches}, carry=CARRY)
        assert not set(CARRY.values()) & set(found)
        caches = {}
        results.append(found["y"])
    return results


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["final size", "growing"])
def test_carried_caches_give_the_same(kind: str, threads: int) -> None:
    room = 9 if kind == "final size" else 0
    caches = {name: np.zeros((1, 2, room, 8), np.float32) for name in CARRY}
    feeds: List[Dict[str, Any]] = [{"x": x} for x in STEPS]
    if room:
        feeds = [{**feed, "last": np.array([at], np.int32)} for at, feed in enumerate(feeds)]
    pair = grouped(room) if room else growing()
    with Predictor(pair, threads=threads) as one, Predictor(pair, threads=threads) as other:
        for _ in range(2):  # a second text begins with caches that are given
            for actual, expected in zip(carried(one, caches, feeds), explicit(other, caches, feeds)):
                np.testing.assert_array_equal(actual, expected)


def test_a_cache_of_the_final_size_is_written_in_place() -> None:
    with Predictor(grouped(9), threads=1) as predictor:
        segment = predictor.plan()
        fed = {value.name: value.array for value in segment.feeds}
        for name, output in CARRY.items():
            assert fed[name].ctypes.data == segment.env[output].array.ctypes.data


def test_what_cannot_be_carried_is_refused() -> None:
    with Predictor(growing()) as predictor:
        with pytest.raises(FeedError, match="input 'past_key' was not given, and no earlier run carried it"):
            predictor.run({"x": STEPS[0]}, carry=CARRY)
        with pytest.raises(UsageError, match="carry names an input and its output, got 'x': 'key_'"):
            predictor.run({"x": STEPS[0]}, carry={"x": "key_"})
