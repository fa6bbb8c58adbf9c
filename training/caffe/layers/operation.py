"""An operator of the runtime as a function of arrays: the heavy parts of layers run on its kernels."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


class Operation:
    """``Operation("Conv", 1, kernel=3)(x, w, b)`` gives a list of one output. Plans are kept from call to call."""

    def __init__(self, type: str, outputs: int, domain: str = "", **arguments: Any):
        self._type, self._domain, self._arguments = type, domain, arguments
        self._outputs = [f"y{index}" for index in range(outputs)]
        self._executors: Dict[int, Tuple[Executor, List[str]]] = {}

    def __call__(self, *inputs: Array) -> List[Array]:
        executor, names = self._executors.get(len(inputs)) or self._made(len(inputs))
        found = executor.run(dict(zip(names, inputs)), self._outputs)
        return [found[name] for name in self._outputs]

    def trial(self, *inputs: Array) -> List[Array]:
        """Zeros of the outputs' shapes."""
        op, _ = self._described(len(inputs))
        specs = lookup(op).infer(op, [TensorSpec(x.shape, x.dtype) for x in inputs])
        return [np.zeros(spec.shape, spec.dtype) for spec in specs]

    def _described(self, count: int) -> Tuple[OperatorDef, List[str]]:
        """The operator, and the names of its inputs."""
        names = [f"x{index}" for index in range(count)]
        return OperatorDef.of(self._type, names, self._outputs, domain=self._domain, **self._arguments), names

    def _made(self, count: int) -> Tuple[Executor, List[str]]:
        op, names = self._described(count)
        net = NetDef(self._type, (op,), external_input=tuple(names), external_output=tuple(self._outputs))
        self._executors[count] = Executor(net, {}), names
        return self._executors[count]
