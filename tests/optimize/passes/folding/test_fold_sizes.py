"""What follows from sizes that are not open becomes weights, all of it in one step."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from optimize import optimize
from optimize.passes.folding.fold_constants import FREE_NBYTES
from optimize.passes.folding.fold_sizes import PASS
from optimize.rewriting.report import Recorder
from optimize.untangling import untangled
from tests.optimize.kinds import times_a_size
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, pair_of, refusals

WEIGHTS: Dict[str, Any] = {"zero": np.array(0), "one": np.array(1), "w": np.ones(3, np.float32)}
# What PyTorch writes for ``x * torch.arange(x.shape[1])``.
RANGE = """
    net "": x, zero, one -> y
    Shape(x) -> n
    Gather(n, one) -> count
    onnx.Range(zero, count, one) -> numbers
    onnx.Cast(numbers) -> floats  to=1
    onnx.Mul(x, floats) -> y"""


@pytest.mark.parametrize(("rows", "unread"), [(2, []), ("rows", ["Shape(x) -> n"])])
def test_one_weight_takes_the_place_of_all_that_makes_it(rows: Any, unread: List[str]) -> None:
    outcome = applied(PASS, RANGE, WEIGHTS, {"x": (rows, 4)})
    assert outcome.text == [*unread, "onnx.Mul(x, floats) -> y"]
    assert outcome.weight("floats").tolist() == [0, 1, 2, 3]
    assert len(outcome.report.steps) == 1
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    assert_same_numbers(outcome.before, outcome.after, {"x": x})


def test_what_follows_from_open_sizes_stays() -> None:
    assert refusals(PASS, RANGE, WEIGHTS, {"x": (2, "columns")}) == []


def test_outputs_and_what_runs_for_its_effect_stay() -> None:
    text = 'net "": x, one -> y, n\n Shape(x) -> n\n Gather(n, one) -> count\n onnx.Expand(x, count) -> y'
    outcome = applied(PASS, text, WEIGHTS, {"x": (2, 4)})
    assert outcome.text == ["Shape(x) -> n", "onnx.Expand(x, count) -> y"]
    assert outcome.weight("count").tolist() == 4


def test_what_is_large_is_computed_when_the_net_runs() -> None:
    numbers, floats, product = [line.strip() for line in RANGE.splitlines()[-3:]]
    for columns, left in ((FREE_NBYTES // 4, [numbers, product]), (FREE_NBYTES // 4 + 1, [numbers, floats, product])):
        assert applied(PASS, RANGE, WEIGHTS, {"x": (1, columns)}).text == left


def test_what_is_written_again_stays() -> None:
    text = 'net "": x -> x, y\n Shape(x) -> n\n Cast(n) -> f  to=1\n Relu(x) -> x\n Copy(f) -> y'
    assert not applied(PASS, text, {}, {"x": (2,)}).report.steps


def test_behind_a_loop_nothing_computes_with_sizes() -> None:
    body = 'net "body": i, go, h -> go, out\n Concat(h, h) -> out, sizes  axis=1'
    loop = f'onnx.Loop(one, "", x) -> z  body={{\n {body}\n }}'
    text = RANGE.replace("(x)", "(z)").replace("(x,", "(z,").replace("-> y\n", f"-> y\n {loop}\n", 1)
    pair = pair_of(text, WEIGHTS, {"x": (2, 3)})
    result = untangled(pair, pair.inputs, {}, Recorder())[0]
    assert [op.full_type for op in result.predict_net.op] == ["Concat", "onnx.Mul"]
    x = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
    for each in (result, optimize(pair)):
        assert_same_numbers(pair, each, {"x": x})


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [times_a_size])
