"""Operators that split their rows among workers, and nets of them: some say who computed, others fail or wait."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Optional

import numpy as np

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

ROWS = 1 << 15  # of 1 << 7 numbers: more than makes splitting pay, and workers


def _declare(type: str, part: Any) -> None:
    """An operator that splits its rows; ``part(x, y, worker)`` computes some."""

    @operator(type, domain="test")
    def schema(op: OperatorDef, x: TensorSpec) -> Any:
        return [x]

    @schema.kernel("NUMPY", splits_work=True)
    def kernel(call: Call) -> Run:
        rows = call.mine(range(call.inputs[0].shape[0]))
        mine = slice(rows[0], rows[-1] + 1)
        return lambda: part(call.inputs[0][mine], call.outputs[0][mine], call.worker)


def _process_ids(x: Array, y: Array, worker: int) -> None:
    y[...] = os.getpid() % (1 << 20)


def _thread_ids(x: Array, y: Array, worker: int) -> None:
    y[...] = threading.get_native_id()  # small enough for a float


def _fail(x: Array, y: Array, worker: int) -> None:
    if worker:
        raise RuntimeError("no more paper")
    y[...] = x


def _interrupt(x: Array, y: Array, worker: int) -> None:
    if worker == 0:
        raise KeyboardInterrupt
    y[...] = x


def _linger(x: Array, y: Array, worker: int) -> None:
    if worker:
        time.sleep(60)
    y[...] = x


HELD = [False]


def _hold(x: Array, y: Array, worker: int) -> None:
    while HELD[0] and worker == 0:
        time.sleep(0.01)
    y[...] = x


def _double(x: Array, y: Array, worker: int) -> None:
    np.multiply(x, 2, out=y)


for _type, _part in [
    ("TestProcess", _process_ids),
    ("TestThread", _thread_ids),
    ("TestFail", _fail),
    ("TestInterrupt", _interrupt),
    ("TestLinger", _linger),
    ("TestDouble", _double),
    ("TestHold", _hold),
]:
    _declare(_type, _part)


def net(*types: str) -> NetDef:
    """A chain of operators from x to y."""
    names = ["x", *(f"b{i}" for i in range(len(types) - 1)), "y"]
    domains = ("test." if type.startswith("Test") else "" for type in types)
    lines = [f"{domain}{type}({one}) -> {two}" for domain, type, one, two in zip(domains, types, names, names[1:])]
    return NetDef.from_text("\n".join(['net "test": x -> y', *lines]))


def numbers(rows: int = ROWS) -> Array:
    return np.arange(rows * 128, dtype=np.float32).reshape(rows, 128) % 251


def run(executor: Executor, x: Optional[Array] = None) -> Array:
    return executor.run({"x": numbers() if x is None else x}, ["y"])["y"]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("in vain")
