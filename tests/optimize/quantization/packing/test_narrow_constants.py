"""Biases and small weights that become float16s: which ones do, and which do not."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from optimize import optimize, quantize
from optimize.quantization.table import Choice
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of

NET = """net "n": x, w, b, s, c, t -> y
 Conv(x, w, b) -> h  kernel=3
 Sigmoid(h) -> g
 Conv(g, s, c) -> i  kernel=1
 Div(i, t) -> y"""


def pair(**changed: np.ndarray) -> Pair:
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 4, 3, 3), "b": (16,), "s": (5, 16, 1, 1), "c": (5,), "t": (1, 5, 4, 4)}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return pair_of(NET, {**values, **changed}, {"x": (1, 4, 6, 6)})


def stored(pair: Pair) -> Dict[str, Any]:
    return {op.output[0]: op.get_tensor("values") for op in pair.init_net.op}


def are_halves(value: np.ndarray) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(value.astype(np.float16).astype(np.float32), value))


def test_what_layers_read_becomes_halves_and_stays_float32_in_the_net() -> None:
    before, after = stored(pair()), stored(quantize(pair()))
    for name in ("b", "s", "c"):
        assert after[name].dtype == np.float32
        assert not are_halves(before[name])
        assert np.array_equal(after[name], before[name].astype(np.float16))
    assert np.array_equal(after["t"], before["t"]), "what no layer reads stays"


def test_outputs_hardly_change(tmp_path: Any) -> None:
    x = {"x": np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32)}
    wanted, found = numbers(pair(), x)["y"], numbers(quantize(pair()), x)["y"]
    assert np.square(wanted - found).sum() < 1e-4 * np.square(wanted).sum()
    quantize(pair()).save(tmp_path / "saved")
    assert np.array_equal(numbers(Pair.load(tmp_path / "saved"), x)["y"], found)


@pytest.mark.parametrize("bias", [np.full(16, 1e5), np.full(16, np.inf), np.full(16, 1e-7)])
def test_what_float16_cannot_hold_stays(bias: np.ndarray) -> None:
    assert np.array_equal(stored(quantize(pair(b=bias.astype(np.float32))))["b"], bias.astype(np.float32))


def test_a_layer_that_is_to_stay_float32_stays_whole() -> None:
    kept = stored(quantize(pair(), table={"armnet.FusedConv g": Choice("float32", "float32")}))
    assert np.array_equal(kept["w"], stored(pair())["w"])
    assert np.array_equal(kept["b"], stored(pair())["b"])
    assert are_halves(kept["c"])


def test_what_others_read_stays() -> None:
    text = 'net "n": x, w, b -> y, z\n Conv(x, w, b) -> y  kernel=3\n Negative(b) -> z'
    weights = {name: value for name, value in stored(pair()).items() if name in ("w", "b")}
    shared = pair_of(text, weights, {"x": (1, 4, 6, 6)})
    small = quantize(shared)
    x = {"x": np.ones((1, 4, 6, 6), np.float32)}
    assert np.array_equal(numbers(small, x)["z"], -weights["b"])


def test_quantised_pairs_alone_are_narrow() -> None:
    plain = pair()
    small = quantize(plain)
    assert (small.init_net.is_narrow, small.predict_net.is_narrow) == (True, True)
    assert small.init_net.external_output == ()
    assert optimize(small).init_net == small.init_net
    for other in (plain, optimize(plain)):
        assert not other.init_net.is_narrow
