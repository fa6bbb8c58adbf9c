"""Learning-rate policies: how the rate depends on the iteration, as a multiple of the base rate.

``policy_of(op)`` reads the arguments once and returns a function of the iteration. Source: Caffe2's LearningRate; the
formulas are those of its documentation, computed in float64. Arguments that an operator leaves out have Caffe2's
defaults.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, Callable, Dict

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple

Policy = Callable[[int], float]
LATE = 10_000_000  # iterations: Caffe2's default for stages without a bound


def power(base: Any, exponent: float) -> float:
    """base ^ exponent as C computes it: infinite where it overflows, NaN where it is not real."""
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(base), exponent))


class Arguments(NamedTuple):
    """The arguments of a policy: those of the operator whose names begin with ``prefix``."""

    op: OperatorDef
    prefix: str = ""

    def number(self, name: str, default: float) -> float:
        return self.op.get_float(self.prefix + name, default)

    def whole(self, name: str, default: int, least: int = 0) -> int:
        value = self.op.get_int(self.prefix + name, default)
        if value < least:
            raise ArgumentError(self.op, f"argument {self.prefix + name!r} must be at least {least}, got {value}")
        return value

    def base_rate(self) -> float:
        return self.op.get_float("base_lr")

    def named(self, prefix: str) -> Arguments:
        return self._replace(prefix=self.prefix + prefix)


def policy_of(op: OperatorDef) -> Policy:
    """The policy that the arguments describe. ArgumentError if there is none of that name, or an argument is wrong."""
    return _policy(Arguments(op), op.get_str("policy", "") if op.has("policy") else "")


def _policy(a: Arguments, name: str) -> Policy:
    if name not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise ArgumentError(a.op, f"argument {a.prefix + 'policy'!r} must be one of {known}, got {name!r}")
    return POLICIES[name](a)


def _fixed(a: Arguments) -> Policy:
    return lambda iteration: 1.0


def _step(a: Arguments) -> Policy:
    size, gamma = a.whole("stepsize", 0, 1), a.number("gamma", 0.0)
    return lambda iteration: power(gamma, iteration // size)


def _exponential(a: Arguments) -> Policy:
    gamma = a.number("gamma", 0.0)
    return lambda iteration: power(gamma, iteration)


def _inverse(a: Arguments) -> Policy:
    gamma, exponent = a.number("gamma", 0.0), a.number("power", 0.0)
    return lambda iteration: power(1 + gamma * iteration, -exponent)


def _polynomial(a: Arguments) -> Policy:
    exponent, last = a.number("power", 0.0), a.whole("max_iter", -1, -1)
    if last == 0:
        raise ArgumentError(a.op, f"argument {a.prefix + 'max_iter'!r} must not be 0")
    last %= 2**64  # Caffe2 holds it unsigned: without max_iter the rate stays
    return lambda iteration: power(1 - iteration / last, exponent)


def _alternating(a: Arguments) -> Policy:
    active_first = a.op.get_bool(a.prefix + "active_first", True)
    active, inactive = a.whole("active_period", -1), a.whole("inactive_period", -1)
    if active + inactive == 0:
        raise ArgumentError(a.op, "active_period and inactive_period must not both be 0")
    first = active if active_first else inactive
    return lambda iteration: float((iteration % (active + inactive) < first) == active_first)


def _gate(a: Arguments) -> Policy:
    before, after, border = a.number("multiplier_1", 1.0), a.number("multiplier_2", 1.0), a.whole("num_iter", 0)
    return lambda iteration: before if iteration < border else after


def _linear_warmup(a: Arguments) -> Policy:
    start, count = a.number("start_multiplier", 0.0), a.whole("num_iter", 0)
    return lambda iteration: 1.0 if iteration >= count else start + (1 - start) * iteration / count


def _constant_warmup(a: Arguments) -> Policy:
    multiplier, count = a.number("multiplier", 0.5), a.whole("num_iter", 0)
    return lambda iteration: 1.0 if iteration >= count else multiplier


def _piecewise_warmup(a: Arguments) -> Policy:
    borders = (a.whole("n1", 0), a.whole("n2", 0))
    multipliers = [a.number(name, 0.5) for name in ("m1", "m2", "m3")]
    return lambda iteration: multipliers[bisect_right(borders, iteration)]


def _hill(a: Arguments) -> Policy:
    climb, fall = _linear_warmup(a), _inverse(a)
    count, end = a.whole("num_iter", 0, 1), a.number("end_multiplier", 0.0)
    return lambda iteration: climb(iteration) if iteration < count else max(end, fall(iteration - count))


def _slope(a: Arguments) -> Policy:
    first, start = a.whole("num_iter_1", 0), a.number("multiplier_1", 0.0)
    second, least = a.whole("num_iter_2", 0), a.number("multiplier_2", 0.0)
    slope = (least - start) / (second - first) if second != first else 0.0
    return lambda iteration: start if iteration < first else max(least, start + (iteration - first) * slope)


def _constant_then_linear(a: Arguments) -> Policy:
    start = a.number("start_warmup_multiplier", 0.1)
    constant, linear = a.whole("constant_warmup_num_iter", LATE), a.whole("linear_warmup_num_iter", LATE)

    def policy(iteration: int) -> float:
        if iteration < constant:
            return start
        return 1.0 if iteration >= constant + linear else start + (1 - start) * (iteration - constant) / linear

    return policy


def _cyclical(a: Arguments, step: str = "stepsize", default_step: int = 0, highest: float = 0.005) -> Policy:
    base, high = a.base_rate(), a.number("max_lr", highest)
    size, decay = a.whole(step, default_step, 1), a.number("decay", 1.0)
    rise = abs(high) / abs(base) - 1 if base else 0.0

    def policy(iteration: int) -> float:
        cycle = int(iteration / (2 * size) + 1)
        return 1 + rise * max(0.0, 1 - abs(iteration / size - 2 * cycle + 1)) * power(decay, cycle - 1)

    return policy


def _cosine(a: Arguments) -> Policy:
    low, high, first = a.number("min_lr", 0.1), a.number("max_lr", 0.5), a.whole("period", 50, 1)
    growth, shrinking = a.number("t_mult", 1.0), a.number("lr_shrink", 0.99)

    def policy(iteration: int) -> float:
        if growth == 1:
            cycle = np.float64(iteration // first)
            length, begin = np.float64(first), cycle * first
        else:  # the sum of a geometric series of periods
            cycle = np.floor(np.log(np.float64(1 - iteration / first * (1 - growth))) / np.log(np.float64(growth)))
            length, begin = growth**cycle * first, (1 - growth**cycle) / (1 - growth) * first
        wave = 0.5 * (high - low) * (1 + np.cos(np.pi * (iteration - begin) / length))
        return float(power(shrinking, cycle) * (low + wave))

    return policy


def _after_warmup(then: Callable[[Arguments], Policy]) -> Callable[[Arguments], Policy]:
    def make(a: Arguments) -> Policy:
        warmup, main = _constant_then_linear(a), then(a)
        length = a.whole("constant_warmup_num_iter", LATE) + a.whole("linear_warmup_num_iter", LATE)
        return lambda iteration: warmup(iteration) if iteration < length else main(iteration - length)

    return make


def _composite(a: Arguments) -> Policy:
    """Policies one after the other. Caffe2 counts from 1; at iteration 0, it dies if there are more than two."""
    lengths = a.op.get_ints(a.prefix + "sub_policy_num_iters")
    if not lengths or min(lengths) < 1:
        raise ArgumentError(a.op, f"sub_policy_num_iters must list positive numbers, got {list(lengths)}")
    parts = []
    for index in range(len(lengths)):
        own = a.named(f"sub_policy_{index}_")
        name = a.op.get_str(own.prefix + "policy", "") if a.op.has(own.prefix + "policy") else ""
        if name == "composite":
            raise ArgumentError(a.op, f"argument {own.prefix + 'policy'!r} must not be composite again")
        parts.append((_policy(own, name), own.number("lr_scale", 1.0)))
    starts = [1 + start for start in accumulate((0, *lengths[:-1]))]

    def policy(iteration: int) -> float:
        if iteration < 1 and len(parts) > 2:
            raise ArgumentError(a.op, f"a composite policy counts iterations from 1, got {iteration}")
        chosen, scale = parts[max(bisect_right(starts, iteration) - 1, 0)]
        return chosen(iteration) * scale

    return policy


POLICIES: Dict[str, Callable[[Arguments], Policy]] = {
    "fixed": _fixed,
    "step": _step,
    "exp": _exponential,
    "inv": _inverse,
    "poly": _polynomial,
    "alter": _alternating,
    "gate": _gate,
    "linearWarmup": _linear_warmup,
    "constantWarmup": _constant_warmup,
    "pieceWarmup": _piecewise_warmup,
    "hill": _hill,
    "slope": _slope,
    "constantThenLinearWarmup": _constant_then_linear,
    "cyclical": _cyclical,
    "cosine": _cosine,
    "compositeCosine": _after_warmup(lambda a: _cosine(a.named("cosine_"))),
    "compositeCyclical": _after_warmup(lambda a: _cyclical(a.named("cyclical_"), "step_size", 1_000_000, 0.05)),
    "composite": _composite,
}
