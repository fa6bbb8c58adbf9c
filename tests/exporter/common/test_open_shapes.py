"""What is known of shapes while a model leaves sizes open."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from exporter.common.builder import NetBuilder
from runtime_arm.netdef import OperatorDef

FLOAT = np.dtype(np.float32)


def builder(shape: Sequence[Optional[int]], names: Sequence[Optional[str]] = ()) -> NetBuilder:
    """A builder whose input x has this shape."""
    made = NetBuilder()
    made.input("x", FLOAT, tuple(shape), names)
    return made


def add(net: NetBuilder, type: str, inputs: Sequence[str], output: str, **arguments: Any) -> NetBuilder:
    outputs = [output, f"{output}_old"] if type in ("Concat", "Reshape") else [output]
    net.add(OperatorDef.of(type, inputs, outputs, **arguments))
    return net


def test_open_sizes_stay_open_and_others_are_known() -> None:
    net = builder((None, 3, None, 20))
    net.constant("w", np.zeros((8, 3, 3, 3), np.float32))
    add(net, "Conv", ["x", "w"], "y", kernel=3)
    assert net.dims("y") == (None, 8, None, 18)
    assert net.dtype("y") == FLOAT
    assert net.spec("y") is None


def test_a_size_that_does_not_depend_on_open_ones_is_known() -> None:
    net = add(builder((None, 3, None, None)), "AveragePool", ["x"], "p", global_pooling=1)
    assert add(net, "Flatten", ["p"], "y").dims("y") == (None, 3)


def test_shapes_are_followed_through_arithmetic_on_shapes() -> None:
    net = add(builder((None, 4, 6)), "Shape", ["x"], "s")
    net.constant("last", np.array([24], np.int64))
    net.constant("zero", np.array([0], np.int64))
    add(net, "Gather", ["s", "zero"], "n")
    add(net, "Concat", ["n", "last"], "to", axis=0)
    assert add(net, "Reshape", ["x", "to"], "y").dims("y") == (None, 24)
    assert net.value("s") is None


def test_sizes_of_one_name_are_equal() -> None:
    net = builder((None, 5), ("n", None))
    net.input("z", FLOAT, (None, 7), ("n", None))
    assert add(net, "Concat", ["x", "z"], "y", axis=1).dims("y") == (None, 12)


def test_sizes_that_the_net_refuses_say_nothing() -> None:
    net = builder((None, 3, None, None))
    net.constant("w", np.zeros((8, 3, 40, 40), np.float32))  # larger than the smallest images that are tried
    assert add(net, "Conv", ["x", "w"], "y", kernel=40).dims("y") == (None, 8, None, None)


def test_where_one_choice_alone_is_left_nothing_is_known() -> None:
    net = builder((None, 3))
    net.constant("two", np.array([2, 3], np.int64))
    add(net, "Reshape", ["x", "two"], "z")  # refuses all but the first choice
    assert add(net, "Relu", ["z"], "y").dims("y") is None
    assert net.dtype("y") == FLOAT
    net.forget("x")
    assert net.dims("x") is None


def test_a_size_that_all_choices_left_share_is_not_known() -> None:
    """A table of positions that ends, and a filter that is longer than the shortest sequences that are tried."""
    net = builder((None, 3, None))
    filters, positions = np.zeros((8, 3, 40), np.float32), np.zeros(300, np.float32)
    for name, value in (("w", filters), ("table", positions), ("none", np.zeros(1, np.int64)), ("two", np.array([2]))):
        net.constant(name, value)
    add(add(net, "Shape", ["x"], "s"), "Gather", ["s", "two"], "length")
    for op, inputs, output in (("Slice", ["table", "none", "length"], "rows"), ("Add", ["x", "rows"], "a")):
        net.add(OperatorDef.of(op, inputs, [output], domain="onnx"))
    assert net.dims("a") == (None, 3, None)
    assert add(net, "Conv", ["a", "w"], "y", kernels=[40]).dims("y") is None


def test_a_declared_shape_counts_where_inference_knows_less() -> None:
    net = builder((None, 3))
    net.hint("y", FLOAT, (None, 9))
    assert net.dims("y") == (None, 9)
    assert NetBuilder().dims("nowhere") is None
