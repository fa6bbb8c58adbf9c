"""Sub-nets: branches, loops, captured blobs, loops that never run, nested nets."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import NetError, OperatorError, UnknownOperator
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.control.declared import with_declared
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec
from tests.support.exact import assert_same

Ops = Sequence[OperatorDef]


def op(type: str, inputs: str, outputs: str, **arguments: Any) -> OperatorDef:
    domain = "onnx" if type in ("Loop", "Scan") else ""
    return OperatorDef.of(type, inputs.split(), outputs.split(), domain=domain, **arguments)


def net(inputs: str, outputs: str, *ops: OperatorDef) -> NetDef:
    return NetDef(op=tuple(ops), external_input=tuple(inputs.split()), external_output=tuple(outputs.split()))


def run(outputs: str, feeds: Dict[str, Any], *ops: OperatorDef, **constants: Any) -> List[Any]:
    """The outputs of a net whose ``constants`` are known when it is planned; the other inputs are fed. Runs twice."""
    executor = Executor(net(" ".join([*feeds, *constants]), outputs, *ops).check(), constants)
    first = executor.run(feeds, outputs.split())
    second = executor.run(feeds, outputs.split())
    for name in outputs.split():
        np.testing.assert_array_equal(first[name], second[name])
    return [first[name] for name in outputs.split()]


def numbers(*values: float) -> Any:
    return np.array(values, np.float32)


class TestIf:
    THEN = net("", "", op("Add", "X c", "Y"))
    ELSE = net("", "", op("Mul", "X c", "Y"), op("Alias", "X", "Z"))

    @pytest.mark.parametrize(("condition", "expected"), [(True, 5.0), (False, 6.0)])
    def test_branches_write_outer_names(self, condition: bool, expected: float) -> None:
        branches = op("If", "b", "Y", then_net=self.THEN, else_net=self.ELSE)
        (y,) = run("Y", {"X": numbers(3), "b": np.array([condition])}, branches, c=numbers(2))
        assert y.tolist() == [expected]

    @pytest.mark.parametrize(("condition", "expected"), [(True, [5.0, 9.0]), (False, [6.0, 3.0])])
    def test_blobs_that_a_branch_does_not_write_keep_their_values(self, condition: bool, expected: List[float]) -> None:
        ops = [op("Mul", "X X", "Z"), op("If", "b", "Y Z", then_net=self.THEN, else_net=self.ELSE)]
        y, z = run("Y Z", {"X": numbers(3), "b": np.array(condition)}, *ops, c=numbers(2))
        assert [y[0], z[0]] == expected

    @pytest.mark.parametrize("condition", [True, False])
    def test_without_else_net_all_blobs_keep_their_values(self, condition: bool) -> None:
        ops = [op("Alias", "X", "Y"), op("If", "b", "Y", then_net=self.THEN), op("Add", "Y Y", "S")]
        (s,) = run("S", {"X": numbers(3), "b": np.array(condition)}, *ops, c=numbers(2))
        assert s[0] == (10 if condition else 6)

    @pytest.mark.parametrize("condition", [True, False])
    def test_outputs_by_position_may_differ_in_shape(self, condition: bool) -> None:
        branches = {
            "then_net": net("", "a p", op("Alias", "X", "a"), op("Add", "X c", "p")),
            "else_net": net("", "q X", op("Concat", "X X", "q l", axis=0)),
        }
        y, z, s = run(
            "Y Z s",
            {"X": numbers(1, 2), "b": np.array(condition)},
            op("If", "b", "Y Z", **branches),
            op("Shape", "Y", "s"),
            c=numbers(2, 2),
        )
        assert y.tolist() == ([1, 2] if condition else [1, 2, 1, 2])
        assert z.tolist() == ([3, 4] if condition else [1, 2])
        assert s.tolist() == [len(y)]

    def test_quantised_blobs_keep_their_scale(self) -> None:
        x = QuantizedTensor(np.array([1, 2], np.uint8), 0.5, 3)
        alias = op("If", "b", "Y", then_net=net("", "y", op("Alias", "X", "y")))
        y = Executor(net("X b", "Y", alias), {}).run({"X": x, "b": np.array(True)}, ["Y"])["Y"]
        assert (y.values.tolist(), y.scale, y.zero_point) == ([1, 2], 0.5, 3)

    def test_refuses(self) -> None:
        feeds = {"X": numbers(1), "b": np.array([True, False])}
        with pytest.raises(OperatorError, match="condition must be one element"):
            run("Y", feeds, op("If", "b", "Y", then_net=self.THEN), c=numbers(2))
        two = net("", "a X", op("Alias", "X", "a"))
        with pytest.raises(OperatorError, match="has 2 outputs, but the operator has 1"):
            run("Y", {**feeds, "b": np.array(True)}, op("If", "b", "Y", then_net=two))

    def test_operators_of_branches_are_looked_up_at_once(self) -> None:
        inner = op("If", "b", "Y", then_net=net("", "", op("NoSuchOperator", "X", "Y")))
        with pytest.raises(UnknownOperator, match="NoSuchOperator"):
            Executor(net("X b", "Y", op("If", "b", "Y", then_net=net("", "", inner))), {})


class TestWhile:
    BODY = net("", "", op("Add", "n one", "n"), op("Mul", "X two", "X"))
    TEST = net("", "", op("LT", "n limit", "go"))

    @pytest.mark.parametrize(("limit", "expected"), [(0, [0, 3]), (1, [1, 6]), (5, [5, 96])])
    def test_counts(self, limit: int, expected: List[float]) -> None:
        loop = op("While", "go n X", "n X go", cond_net=self.TEST, loop_net=self.BODY)
        n, x = run(
            "n X",
            {"go": np.array(True), "n": numbers(0), "X": numbers(3)},
            loop,
            one=numbers(1),
            two=numbers(2),
            limit=numbers(limit),
        )
        assert [n[0], x[0]] == expected

    def test_without_cond_net_the_body_writes_the_condition(self) -> None:
        body = net("", "", op("Add", "n one", "n"), op("LT", "n limit", "go"))
        ops = [op("While", "go n", "n", loop_net=body), op("Add", "n one", "Y")]
        n, y = run("n Y", {"go": np.array(True), "n": numbers(0)}, *ops, one=numbers(1), limit=numbers(4))
        assert (n[0], y[0]) == (4, 5)

    def test_temporaries_that_the_body_reads_again_are_kept(self) -> None:
        body = net("", "", op("Add", "n step", "n"), op("Add", "step one", "step"), op("LT", "n limit", "go"))
        ops = [op("Alias", "one", "step"), op("While", "go n", "n", loop_net=body)]
        (n,) = run("n", {"go": np.array(True), "n": numbers(0)}, *ops, one=numbers(1), limit=numbers(10))
        assert n[0] == 1 + 2 + 3 + 4


class TestLoop:
    def loop(self, inputs: str, body: NetDef, outputs: str = "Y s t") -> OperatorDef:
        return OperatorDef.of("Loop", inputs.split(","), outputs.split(), domain="onnx", body=body)

    @given(st.one_of(st.none(), st.integers(-1, 6)), st.one_of(st.none(), st.booleans()), st.floats(1, 50))
    @settings(max_examples=60)
    def test_stops_at_the_count_or_the_condition(self, trips: Any, condition: Any, limit: float) -> None:
        if trips is None and condition is None:
            return
        feeds = {"X": numbers(1, 0.5)}
        feeds.update({} if trips is None else {"M": np.array(trips)})
        feeds.update({} if condition is None else {"b": np.array(condition)})
        x, scanned, goes_on, trip = numbers(1, 0.5), [], condition is not False, 0
        while goes_on and (trips is None or trip < trips):
            x = x + x
            scanned.append(x)
            goes_on = condition is None or bool(x[0] < np.float32(limit))
            trip += 1
        names = ",".join(["" if trips is None else "M", "" if condition is None else "b", "X"])
        body = net(
            "i go x",
            "again x2 x2 i",
            op("Add", "x x", "x2"),
            op("Slice", "x2", "first", starts=[0], ends=[1]),
            op("LT", "first limit", "again"),
        )
        y, s, t = run("Y s t", feeds, self.loop(names, body), limit=numbers(limit))
        assert_same(y, x)
        assert_same(s, np.array(scanned, np.float32).reshape(trip, 2))
        assert_same(t, np.arange(trip))

    def test_carried_blobs_may_grow(self) -> None:
        body = net("i go x", "go x2 n", op("Concat", "x c", "x2 l", axis=0), op("Size", "x2", "n"))
        y, s = run("Y s", {"M": np.array(4), "X": numbers(0)}, self.loop("M,,X", body, "Y s"), c=numbers(7, 8))
        assert y.tolist() == [0, 7, 8, 7, 8, 7, 8, 7, 8]
        assert s.tolist() == [3, 5, 7, 9]

    def test_inner_names_hide_outer_ones(self) -> None:
        body = net("i go X", "go x2", op("Add", "X c", "x2"))
        y, x = run("Y X", {"M": np.array(3), "X": numbers(5)}, op("Add", "X X", "c"), self.loop("M,,X", body, "Y"))
        assert (y[0], x[0]) == (35, 5)

    def test_constants_may_be_hidden_too(self) -> None:
        body = net("i go c", "go y", op("Add", "c d", "y"))
        (y,) = run("Y", {"M": np.array(3)}, self.loop("M,,c", body, "Y"), c=numbers(5), d=numbers(1))
        assert y[0] == 8

    @pytest.mark.parametrize("trips", [0, 2])
    def test_nets_in_nets_see_all_surrounding_blobs(self, trips: int) -> None:
        branch = {"then_net": net("", "p", op("Add", "x outer", "p")), "else_net": net("", "q", op("Sub", "x c", "q"))}
        inner = net("j go2 x", "go2 x2", op("LT", "x limit", "b"), op("If", "b", "x2", **branch))
        body = net("i go x0", "go x3 i", self.loop("n,,x0", inner, "x3"))
        feeds = {"M": np.array(trips), "X": numbers(0), "outer": numbers(10)}
        y, s = run("Y s", feeds, self.loop("M,,X", body, "Y s"), n=np.array(3), c=numbers(1), limit=numbers(25))
        x = 0.0
        for _ in range(3 * trips):
            x = x + 10 if x < 25 else x - 1
        assert y[0] == x
        assert s.shape == (trips,)

    def test_a_scan_output_of_unknown_shape_needs_one_iteration_or_a_declaration(self) -> None:
        body = net("i go x", "go x u", OperatorDef.of("NonZero", ["x"], ["u"], domain="onnx"))
        feeds = {"M": np.array(2), "X": numbers(3, 0)}
        assert run("s", feeds, self.loop("M,,X", body, "Y s"))[0].shape == (2, 1, 1)
        with pytest.raises(OperatorError, match="never ran"):
            run("s", {**feeds, "M": np.array(0)}, self.loop("M,,X", body, "Y s"))
        known = with_declared(body, {"u": TensorSpec((1, 4), np.int64), "x": TensorSpec((), np.float32)})
        (found,) = run("s", {**feeds, "M": np.array(0)}, self.loop("M,,X", known, "Y s"))
        assert (found.shape, found.dtype) == ((0, 1, 4), np.int64)

    def test_refuses(self) -> None:
        body = net("i go x", "go x2", op("Add", "x x", "x2"))
        with pytest.raises(OperatorError, match="the loop never ends"):
            run("Y", {"X": numbers(1)}, self.loop(",,X", body, "Y"))
        with pytest.raises(OperatorError, match="the body must have 4 inputs"):
            run("Y", {"X": numbers(1), "M": np.array(1)}, self.loop("M,,X,X", body, "Y Z"))
        ragged = net("i go x", "go x2 x2", op("Concat", "x x", "x2 l", axis=0))
        with pytest.raises(OperatorError, match="the same shape in every step"):
            run("s", {"X": numbers(1), "M": np.array(2)}, self.loop("M,,X", ragged, "Y s"))


class TestScan:
    BODY = net("sum x y", "total total product", op("Add", "sum x", "total"), op("Mul", "x y", "product"))

    @given(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1), st.integers(-2, 1), st.integers(-2, 1))
    @settings(max_examples=60)
    def test_axes_and_directions(self, length: int, backward: int, reverse: int, axis: int, out_axis: int) -> None:
        draw = np.random.default_rng(length)
        x, y = draw.standard_normal((2, length, 3)).astype(np.float32)
        scan = op(
            "Scan",
            "S X Y",
            "T t p",
            body=self.BODY,
            num_scan_inputs=2,
            scan_input_axes=[axis, 0],
            scan_input_directions=[backward, 0],
            scan_output_axes=[out_axis, 0],
            scan_output_directions=[0, reverse],
        )
        feeds = {"S": numbers(1, 2, 3), "X": np.ascontiguousarray(np.moveaxis(x, 0, axis)), "Y": y}
        total, totals, products = run("T t p", feeds, scan)
        steps = x[::-1] if backward else x
        sums = [numbers(1, 2, 3)]
        for step in steps:
            sums.append(sums[-1] + step)
        assert_same(total, sums[-1])
        assert_same(totals, np.moveaxis(np.array(sums[1:], np.float32).reshape(length, 3), 0, out_axis))
        assert_same(products, (steps * y)[:: -1 if reverse else 1])

    def test_refuses(self) -> None:
        feeds = {"S": numbers(1), "X": np.zeros((3, 1), np.float32), "Y": np.zeros((2, 1), np.float32)}
        with pytest.raises(OperatorError, match=r"must have equal lengths, got \[3, 2\]"):
            run("T", feeds, op("Scan", "S X Y", "T t p", body=self.BODY, num_scan_inputs=2))
        with pytest.raises(OperatorError, match="num_scan_inputs must be 1 to 3"):
            run("T", feeds, op("Scan", "S X Y", "T t p", body=self.BODY, num_scan_inputs=4))
        with pytest.raises(OperatorError, match="axis 5 is out of range"):
            run("T", feeds, op("Scan", "S X X", "T t p", body=self.BODY, num_scan_inputs=2, scan_input_axes=[5]))


def test_a_blob_that_no_surrounding_net_has_is_refused() -> None:
    branch = op("If", "b", "Y", then_net=net("", "", op("Add", "X nowhere", "Y")))
    with pytest.raises(NetError, match="nowhere"):
        Executor(net("X b", "Y", branch), {}).run({"X": numbers(1), "b": np.array(True)}, ["Y"])


class TestONNXWhile:
    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ({"has_trip_count": 1}, [1, 2, 3, 4]),
            ({"has_cond": 1}, [1, 2, 3]),
            ({"has_trip_count": 1, "has_cond": 1}, [1, 2, 3]),
        ],
    )
    def test_the_trip_count_and_the_condition_are_used_only_if_enabled(self, flags: Any, expected: List[float]) -> None:
        ops = (op("Add", "x step", "y"), op("LT", "y limit", "again"), op("Alias", "y", "s"))
        loop = op("ONNXWhile", "n go x", "last all", body=net("i go x", "again y s", *ops), **flags)
        feeds = {"n": np.array(4, np.int64), "go": np.array(True), "x": numbers(0)}
        last, everything = run("last all", feeds, loop, step=numbers(1), limit=numbers(3))
        assert everything.tolist() == expected
        assert last.tolist() == expected[-1:]

    @pytest.mark.parametrize(
        ("shape", "trips", "wanted"),
        [((1, 2), 3, (3, 2)), ((2, 3), 1, (2, 3)), ((), 1, ()), ((2, 3), 0, (0,)), ((2, 3), 2, None), ((), 2, None)],
    )
    def test_scanned_blobs_have_one_row_a_trip(self, shape: Any, trips: int, wanted: Any) -> None:
        body = net("i go x", "go x s", op("Copy", "x", "s"))
        loop = op("ONNXWhile", "n go x", "last all", body=body, has_trip_count=1)
        feeds = {"n": np.array(trips, np.int64), "go": np.array(True), "x": np.ones(shape, np.float32)}
        if wanted is None:
            with pytest.raises(OperatorError, match="one row per trip"):
                run("last all", feeds, loop)
            return
        _, everything = run("last all", feeds, loop)
        assert (everything.shape, everything.dtype) == (wanted, np.float32 if trips else np.int32)
