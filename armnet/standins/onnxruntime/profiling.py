"""Records the times of a session's operators in the format that trace viewers read, as onnxruntime does."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping

from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.profiling import around_steps
from runtime_arm.files import write_file
from runtime_arm.machine.locks import Turns
from runtime_arm.netdef import Array
from runtime_arm.planning.steps import Step


class Recorder:
    """The events of a session since ``start_ns``."""

    def __init__(self, prefix: str, start_ns: int):
        self.start_ns = start_ns
        self._prefix = prefix
        self._turn = Turns()
        self._events: List[Dict[str, Any]] = []
        self._add("Session", "session_initialization", start_ns, {})

    def run(self, predictor: Predictor, feeds: Mapping[str, Array]) -> Dict[str, Any]:
        """The outputs of a run whose operators are recorded. Operators whose output shape depends on data are not."""
        with self._turn.lock:
            predictor.plan({name: value.shape for name, value in feeds.items()})
            begin = time.monotonic_ns()
            with around_steps(predictor, self._timed):
                results = predictor.run(feeds)
            self._add("Session", "model_run", begin, {})
            return results

    def write(self) -> str:
        """The name of the file that the events are written to."""
        name = f"{self._prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        lines = ",\n".join(json.dumps(event) for event in self._events)
        write_file(name, [f"[\n{lines}\n]\n".encode()])
        return name

    def _timed(self, step: Step, run: Callable[[], None]) -> Callable[[], None]:
        facts = {"op_name": step.op.type, "provider": "CPUExecutionProvider", "engine": step.engine}
        name = f"{step.op.output[0]}_kernel_time"

        def timed() -> None:
            begin = time.monotonic_ns()
            run()
            self._add("Node", name, begin, facts)

        return timed

    def _add(self, category: str, name: str, begin_ns: int, facts: Mapping[str, Any]) -> None:
        self._events.append(
            {
                "cat": category,
                "pid": os.getpid(),
                "tid": threading.get_ident(),
                "dur": (time.monotonic_ns() - begin_ns) // 1000,
                "ts": (begin_ns - self.start_ns) // 1000,
                "ph": "X",
                "name": name,
                "args": dict(facts),
            }
        )
