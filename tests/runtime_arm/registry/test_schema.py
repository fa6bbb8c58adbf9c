"""The rules of a schema for dtypes and for outputs that overwrite inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime_arm.errors import ShapeError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.plan import Segment
from runtime_arm.registry.schema import lookup, operator
from runtime_arm.registry.specs import TensorSpec

X = TensorSpec((8, 8), np.float32)


@operator("TestPicky", domain="test", inputs=2, dtypes=("int8", "uint8"), inplace={0: (1, 0)})
def picky(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> Any:
    """An operator that takes bytes and may overwrite either input."""
    return [b]


def planned(*lines: str, fetches: str) -> Segment:
    net = NetDef.from_text("\n".join([f'net "test": x, z -> {fetches}', *lines]))
    return Executor(net, {}).plan({"x": X, "z": X}, [name.strip() for name in fetches.split(",")])


def test_an_output_overwrites_any_operand_that_is_not_read_later() -> None:
    for line in ("Add(a, z) -> y", "Add(z, a) -> y"):
        segment = planned("Exp(x) -> a", line, fetches="y, z")
        assert np.shares_memory(segment.env["y"].array, segment.env["a"].array)


def test_an_output_overwrites_no_operand_that_is_needed_later_or_twice() -> None:
    for lines in (("Add(a, z) -> y", "Add(a, z) -> w"), ("Add(a, a) -> y", "Exp(z) -> w")):
        segment = planned("Exp(x) -> a", *lines, fetches="y, w, z")
        assert not np.shares_memory(segment.env["y"].array, segment.env["a"].array)


def test_an_output_does_not_overwrite_an_operand_of_another_size() -> None:
    segment = planned("ReduceSum(x) -> a  axes=[0]  keepdims=1", "Add(a, z) -> y", fetches="y, z")
    assert not np.shares_memory(segment.env["y"].array, segment.env["a"].array)


def test_names_may_be_overwritten_where_the_schema_allows_it() -> None:
    spec = TensorSpec((2,), np.int8)
    for output in ("a", "b", "y"):
        op = OperatorDef.of("TestPicky", ["a", "b"], [output], domain="test")
        assert lookup(op).infer(op, [spec, spec]) == [spec]
    op = OperatorDef.of("Abs", ["a"], ["a"])
    with pytest.raises(ShapeError, match=r"Abs\(a\) -> a: output 'a' must not overwrite the input of that name"):
        lookup(op).infer(op, [X])


def test_the_first_input_is_of_a_dtype_that_the_schema_names() -> None:
    op = OperatorDef.of("TestPicky", ["a", "b"], ["y"], domain="test")
    with pytest.raises(ShapeError, match=r"input 'a' must be int8 or uint8; got float32\[8, 8\], float32\[8, 8\]"):
        lookup(op).infer(op, [X, X])


def test_an_empty_blob_whose_other_dimensions_no_array_can_have_is_refused() -> None:
    op = OperatorDef.of("Tile", ["x", "times"], ["y"], domain="onnx")
    times = TensorSpec.known(np.array([1, 1 << 40, 1 << 40], np.int64))
    with pytest.raises(ShapeError, match="which no array can have"):
        lookup(op).infer(op, [TensorSpec((0, 1, 1), np.float32), times])
