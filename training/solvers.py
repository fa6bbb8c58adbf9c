"""Solvers: how a train net updates its parameters. Each adds operators that update a parameter in place.

All are made of Caffe2's operators. ``rate`` is positive, and a schedule multiplies it. Before the solver's rule,
gradients are clipped, and then the decay is added, in Caffe's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping, Type, Union

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from training.builder import NetBuilder
from training.schedules import Schedule

WEIGHT, SCALE, BIAS = KINDS = ("weight", "scale", "bias")


@dataclass(frozen=True)
class Solver:
    """The options of all solvers.

    schedule: how the rate changes. weight_decay: the share of each parameter that is added to its gradient; one number,
    for weights and the scales of normalisations but not for biases, or a number for each of the kinds "weight", "scale"
    and "bias". regularization: "L2", or "L1", which adds the sign. clip_norm: the largest norm of all gradients
    together; clip_value: the largest magnitude of each number. iter_size: the number of parts of a batch that are
    computed one after the other; their gradients are averaged.
    """

    rate: float = 0.01
    schedule: Schedule = field(default_factory=Schedule)
    weight_decay: Union[float, Mapping[str, float]] = 0.0
    regularization: str = "L2"
    clip_norm: float = 0.0
    clip_value: float = 0.0
    iter_size: int = 1

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise UsageError(f"the rate of a solver must be positive, got {self.rate}")
        if self.regularization not in ("L1", "L2"):
            raise UsageError(f"regularization must be L1 or L2, got {self.regularization!r}")
        if isinstance(self.weight_decay, Mapping) and not set(self.weight_decay) <= set(KINDS):
            raise UsageError(f"weight_decay is for {', '.join(KINDS)}; got {', '.join(map(str, self.weight_decay))}")
        if self.clip_norm < 0 or self.clip_value < 0:
            raise UsageError("clip_norm and clip_value must not be negative")
        if self.iter_size < 1:
            raise UsageError(f"iter_size must be at least 1, got {self.iter_size}")

    @property
    def direction(self) -> float:
        """1 if the rule subtracts rate times something, -1 if it adds it."""
        return -1.0

    def decay_of(self, kind: str) -> float:
        """The decay of the parameters of a kind."""
        if isinstance(self.weight_decay, Mapping):
            return float(self.weight_decay.get(kind, 0.0))
        return 0.0 if kind == BIAS else float(self.weight_decay)

    def decay(self, net: NetBuilder, kind: str, parameter: str, gradient: str) -> str:
        """Adds the decay to a gradient, and returns the blob of both."""
        decay = self.decay_of(kind)
        if not decay:
            return gradient
        term = net.add("Sign", [parameter], f"{parameter}_sign") if self.regularization == "L1" else parameter
        inputs = [gradient, net.number("ONE", 1.0), term, net.number(f"decay_{kind}", decay)]
        net.write("WeightedSum", inputs, [gradient])
        return gradient

    def update(self, net: NetBuilder, names: Names) -> None:
        """Adds the operators that update a parameter."""
        raise NotImplementedError


@dataclass(frozen=True)
class Names:
    """The blobs of one update: a parameter with its kind and its value at the start, its gradient, rate, iteration."""

    parameter: str
    kind: str
    value: Array
    gradient: str
    rate: str
    iteration: str

    def state(self, net: NetBuilder, suffix: str, fill: float = 0.0) -> str:
        """A state of the parameter's shape; its initial value is one number, which takes no memory."""
        return net.blob(f"{self.parameter}_{suffix}", np.broadcast_to(np.float32(fill), self.value.shape))


@dataclass(frozen=True)
class SGD(Solver):
    """p -= rate g; with momentum, m' = momentum m + rate g and p -= m'; with Nesterov's, p -= (1 + momentum) m' -
    momentum m."""

    momentum: float = 0.0
    nesterov: bool = False

    @property
    def direction(self) -> float:
        return 1.0 if self.momentum else -1.0

    def update(self, net: NetBuilder, names: Names) -> None:
        p, g = names.parameter, names.gradient
        if not self.momentum:
            net.write("WeightedSum", [p, net.number("ONE", 1.0), g, names.rate], [p])
            return
        m = names.state(net, "momentum")
        arguments = {"momentum": float(self.momentum), "nesterov": int(self.nesterov)}
        net.write("MomentumSGDUpdate", [g, m, names.rate, p], [g, m, p], **arguments)


@dataclass(frozen=True)
class AdaGrad(Solver):
    """h = decay h + g^2;  p -= rate g / (sqrt(h) + epsilon)."""

    epsilon: float = 1e-4
    decay_of_squares: float = 1.0

    def update(self, net: NetBuilder, names: Names) -> None:
        p, h = names.parameter, names.state(net, "squared_sum")
        arguments = {"epsilon": float(self.epsilon), "decay": float(self.decay_of_squares)}
        net.write("Adagrad", [p, h, names.gradient, names.rate], [p, h], **arguments)


@dataclass(frozen=True)
class AdaDelta(Solver):
    """h, d: decaying means of g^2 and s^2, where s = g sqrt((d + epsilon) / (h + epsilon));  p -= rate s."""

    rate: float = 1.0
    epsilon: float = 1e-4
    decay_of_squares: float = 0.95

    def update(self, net: NetBuilder, names: Names) -> None:
        p = names.parameter
        h, d = names.state(net, "squared_moment"), names.state(net, "squared_moment_delta")
        arguments = {"epsilon": float(self.epsilon), "decay": float(self.decay_of_squares)}
        net.write("Adadelta", [p, h, d, names.gradient, names.rate], [p, h, d], **arguments)


@dataclass(frozen=True)
class RMSProp(Solver):
    """h: decaying mean of g^2;  m = momentum m + rate g / sqrt(h + epsilon);  p -= m."""

    rate: float = 0.001
    epsilon: float = 1e-5
    decay_of_squares: float = 0.9
    momentum: float = 0.0

    @property
    def direction(self) -> float:
        return 1.0

    def update(self, net: NetBuilder, names: Names) -> None:
        p, g = names.parameter, names.gradient
        h, unused, m = (names.state(net, suffix) for suffix in ("mean_squares", "scaled", "momentum"))
        one = net.number("ONE", 1.0)
        arguments = {"epsilon": float(self.epsilon), "decay": float(self.decay_of_squares), "momentum": 0.0}
        net.write("RmsProp", [g, h, unused, one], [g, h, unused], **arguments)
        net.write("MomentumSGDUpdate", [g, m, names.rate, p], [g, m, p], momentum=float(self.momentum), nesterov=0)


@dataclass(frozen=True)
class Adam(Solver):
    """m, v: decaying means of g and g^2;  p -= rate c m / (sqrt(v) + epsilon), c corrects that both start at 0."""

    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise UsageError(f"beta1 and beta2 must be from 0 to less than 1, got {self.beta1:g} and {self.beta2:g}")

    def update(self, net: NetBuilder, names: Names) -> None:
        p, m, v = names.parameter, names.state(net, "first_moment"), names.state(net, "second_moment")
        inputs = [p, m, v, names.gradient, names.rate, names.iteration]
        arguments = {name: float(getattr(self, name)) for name in ("beta1", "beta2", "epsilon")}
        net.write("Adam", inputs, [p, m, v], **arguments)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decay that does not enter the moments: p -= rate decay p, before the step.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019).
    """

    weight_decay: Union[float, Mapping[str, float]] = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularization != "L2":
            raise UsageError("AdamW decays by L2 alone")

    def decay(self, net: NetBuilder, kind: str, parameter: str, gradient: str) -> str:
        return gradient

    def update(self, net: NetBuilder, names: Names) -> None:
        p, one, decay = names.parameter, net.number("ONE", 1.0), self.decay_of(names.kind)
        if decay:
            kept = net.add("WeightedSum", [one, one, net.number(f"decay_{names.kind}", decay), names.rate], f"{p}_kept")
            net.write("WeightedSum", [p, kept], [p])
        super().update(net, names)


SOLVERS: Dict[str, Type[Solver]] = {
    "sgd": SGD,
    "adagrad": AdaGrad,
    "adadelta": AdaDelta,
    "rmsprop": RMSProp,
    "adam": Adam,
    "adamw": AdamW,
}


def solver_of(solver: Union[str, Solver, None]) -> Solver:
    """The solver, or the one of that name with its defaults. UsageError if there is none."""
    if solver is None:
        return SGD()
    if isinstance(solver, Solver):
        return solver
    if solver not in SOLVERS:
        raise UsageError(f"solver must be a training.solvers.Solver or one of {', '.join(SOLVERS)}; got {solver!r}")
    return SOLVERS[solver]()
