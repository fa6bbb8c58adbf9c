"""Gradient makers of the operators on rows and segments."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity")
def distance(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0, 1])


@gradient("RowMul")
def row_mul(forward: Forward) -> Backward:
    dx, dw, dy = forward.name(0), forward.name(1), forward.gradient()
    terms = f"{dw}before_aggregate"
    ops = [
        forward.make("RowMul", [dy, forward.input(1)], [dx], copy=False),
        forward.make("Mul", [dy, forward.input(0)], [terms], copy=False),
        forward.make("ReduceTailSum", [terms], [dw], copy=False),
    ]
    return forward.result(ops, {0: dx, 1: dw})
