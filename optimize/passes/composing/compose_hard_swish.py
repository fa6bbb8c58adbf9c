"""Arithmetic that computes HardSigmoid or HardSwish becomes that operator.

clip(x + 3, 0, 6) / 6 = HardSigmoid(x)        x clip(x + 3, 0, 6) / 6 = HardSwish(x)
"""

from __future__ import annotations

from optimize.rewriting.patterns import commutative, operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _is_zero_to_six(program: Program, clip: OperatorDef) -> bool:
    if clip.type == "ReluN":
        return clip.get_float("n", 6.0) == 6
    return clip.get_float("min", -1.0) == 0 and clip.get_float("max", 0.0) == 6


def _to_hard_sigmoid(program: Program, x: str, last: OperatorDef, **inner: OperatorDef) -> Rewrite:
    require_same_shape(program, x, last, *inner.values())
    return Rewrite((OperatorDef.of("HardSigmoid", [x], last.output, name=last.name, alpha=1 / 6, beta=0.5),))


def _to_hard_swish(program: Program, x: str, last: OperatorDef, **inner: OperatorDef) -> Rewrite:
    require_same_shape(program, x, last, *inner.values())
    return Rewrite((OperatorDef.of("HardSwish", [x], last.output, name=last.name, domain="onnx"),))


def require_same_shape(program: Program, x: str, last: OperatorDef, *inner: OperatorDef) -> None:
    """Refusal if the result has, or may have, more dimensions than ``x``: the constants may add some."""
    values = [program.value(name) for op in (last, *inner) for name in op.input if name in program.weights]
    if all(value is not None and value.ndim == 0 for value in values):
        return
    y = last.output[0]
    for before, after in zip(program.specs(x), program.specs(y)):
        if before is None or after is None:
            raise Refusal(f"{y!r} may have more dimensions than {x!r}, whose shape is not known")
        if before.shape != after.shape:
            raise Refusal(f"{y!r} has more dimensions than {x!r}")


_ADD, _MULTIPLY = commutative({"Add", "onnx.Add"}, "total"), commutative({"Mul", "onnx.Mul"})
_RELU6, _CLIP = operator({"Clip", "ReluN"}, where=_is_zero_to_six), operator({"onnx.Clip"})
_DIVIDE, _SCALE = operator({"Div", "onnx.Div"}, "last"), commutative({"Mul", "onnx.Mul"}, "last")

_CLIPPED = _RELU6(_ADD("x", 3)), _CLIP(_ADD("x", 3), 0, 6)
_PRODUCT = _MULTIPLY("x", _CLIPPED)

PASS = Pass(
    "compose_hard_swish",
    (
        rule(_DIVIDE(_CLIPPED, 6), _SCALE(_CLIPPED, 1 / 6), to=_to_hard_sigmoid),
        rule(_DIVIDE(_PRODUCT, 6), _SCALE(_PRODUCT, 1 / 6), to=_to_hard_swish),
    ),
)
