"""An operator of the runtime as a function of arrays: the heavy parts of layers run on its kernels."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Array, NetDef, OperatorDef


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

    def _made(self, count: int) -> Tuple[Executor, List[str]]:
        names = [f"x{index}" for index in range(count)]
        op = OperatorDef.of(self._type, names, self._outputs, domain=self._domain, **self._arguments)
        net = NetDef(self._type, (op,), external_input=tuple(names), external_output=tuple(self._outputs))
        self._executors[count] = Executor(net, {}), names
        return self._executors[count]
