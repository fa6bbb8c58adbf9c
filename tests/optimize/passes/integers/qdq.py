"""Nets in ONNX's QDQ form as text: integers become floats, an operator computes, and floats become integers."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from optimize import Report, optimize
from optimize.rewriting.rewrite import Pass
from tests.optimize.nets import Arrays, Outcome, numbers, pair_of

RANDOM = np.random.default_rng(9)
PARAMETERS: Dict[str, Any] = {
    "s": np.float32(0.02),
    "z": np.uint8(100),
    "t": np.float32(0.05),
    "u": np.uint8(128),
    "i": np.int8(0),
    "w": RANDOM.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8),
    "ws": np.linspace(0.001, 0.01, 6).astype(np.float32),
    "wz": np.zeros(6, np.int8),
    "b": RANDOM.integers(-3000, 3000, 6).astype(np.int32),
    "bs": np.float32(0.02) * np.linspace(0.001, 0.01, 6).astype(np.float32),
    "m": RANDOM.integers(-127, 128, (6, 5)).astype(np.int8),
    "ms": np.float32(0.004),
    "c": RANDOM.integers(-3000, 3000, 6).astype(np.int32),
    "cs": np.float32(np.float32(0.02) * np.float32(0.004)),
}
Q, DQ = "onnx.QuantizeLinear", "onnx.DequantizeLinear"


def qdq(
    *middle: str, shapes: Dict[str, Sequence[int]], out: str = "t, u", more: Optional[Arrays] = None
) -> Tuple[Any, ...]:
    """A net that quantises its inputs with the scale s and the zero point z, computes y, and quantises y with ``out``.

    The last argument of a pass's tests: text, weights and shapes. Names of blobs: x is an input, x_ its integers, X the
    floats that stand for these.
    """
    lines = [f"{Q}({name}, s, z) -> {name}_\n {DQ}({name}_, s, z) -> {name.upper()}" for name in shapes]
    lines += [*middle, f"{Q}(y, {out}) -> y_", f"{DQ}(y_, {out}) -> end"]
    weights = {**PARAMETERS, **(more or {})}
    text = "\n ".join(lines)
    used = [name for name in weights if any(f"{name}{mark}" in text for mark in (",", ")"))]
    return (
        f'net "": {", ".join([*shapes, *used])} -> end\n {text}',
        {name: weights[name] for name in used},
        {name: tuple(shape) for name, shape in shapes.items()},
    )


def types(outcome: Outcome) -> Sequence[str]:
    """The operators on integers that a pass made, without those around them."""
    made = [op.full_type for op in outcome.after.predict_net.op]
    return [one for one in made if one not in (Q, DQ)]


def assert_keeps_integers(one: Pass, *nets: Tuple[Any, ...], beside: float = 0.01) -> None:
    """With the pass, and through optimize(), each net gives the integers of floats, or those beside them.

    beside: the share of the latter, at most.
    """
    for text, weights, shapes in nets:
        pair = pair_of(text, weights, shapes)
        assert Outcome(pair, [one]).report.steps, text
        feeds = {name: RANDOM.standard_normal(shape).astype(np.float32) * 2 for name, shape in shapes.items()}
        report = Report()
        wanted, actual = numbers(pair, feeds)["end"], numbers(optimize(pair, report=report), feeds)["end"]
        assert any("compute on integers: of " in note for note in report.notes), report.notes
        step = max(weights[name].max() for name in ("s", "t") if name in weights)
        far = np.abs(wanted - actual)
        assert far.max(initial=0) <= step * 1.01, text
        assert np.count_nonzero(far) <= max(2, beside * far.size), text
