"""Workers that are threads, for systems that cannot fork."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from runtime_arm.execution.worker_protocol import ENDED, FAILED, serve

if TYPE_CHECKING:
    from runtime_arm.execution.worker_protocol import Programs


class _Link:
    """One end of a pair of queues."""

    def __init__(self, reading: queue.SimpleQueue[bytes], writing: queue.SimpleQueue[bytes]):
        self.receive = reading.get
        self.send = writing.put


class WorkerThread:
    """A thread that serves one pool."""

    def __init__(self, worker: int, programs: Programs):
        down: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        up: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.send, self.receive = down.put, up.get
        self._reason = ""
        self._thread = threading.Thread(target=self._serve, args=(_Link(down, up), programs), daemon=True)
        self._thread.name = f"armnet worker {worker}"
        self._thread.start()

    def _serve(self, link: _Link, programs: Programs) -> None:
        try:
            serve(link, programs)
        except Exception as error:
            self._reason = f"{type(error).__name__}: {error}"
            link.send(FAILED)

    def end(self) -> None:
        self.send(ENDED)
        self._thread.join()

    def reason_of_end(self, message: bytes) -> str:
        return f"{self._thread.name} failed: {self._reason}"
