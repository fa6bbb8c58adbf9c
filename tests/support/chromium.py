"""Drives Chromium without a window, through the pipes of its DevTools."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 30.0  # seconds for an answer
STARTS = 3  # on a busy machine a browser may start and never answer
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--mute-audio",
)


def program() -> Optional[str]:
    """The browser's path, None if there is none."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


# Chromium reads commands from its file 3 and writes answers to its file 4.
_LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in enumerate(ends, 3):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A page of a running browser."""

    def __init__(self, commands: int, answers: int):
        self._commands, self._answers = commands, answers
        self._number = 0
        self._pending = b""
        self._session: Optional[str] = None
        self.said: List[str] = []  # errors that the page or the console told
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Dict[str, Any]:
        """The result of a command of DevTools."""
        self._number += 1
        message: Dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self._hear(answer)

    def _next(self, deadline: float) -> Dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser has ended"
            self._pending += part
        message, _, self._pending = self._pending.partition(b"\0")
        return dict(json.loads(message))

    def _hear(self, event: Dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description", details["text"]))
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.said.append(event["params"]["entry"]["text"])

    def go(self, url: str) -> None:
        """Open a page."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str, seconds: float = TIMEOUT) -> None:
        """Waits until a condition holds in the page."""
        deadline = time.monotonic() + seconds
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"{condition} never holds; said: {self.said}"
            time.sleep(0.05)

    def choose(self, selector: str, file: Path) -> None:
        """Chooses a file for an input, as a user does."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(file)], nodeId=node)

    def resize(self, width: int, height: int) -> None:
        """The size of the page on the screen."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=width < 600
        )

    def picture(self) -> bytes:
        """What is to be seen, a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


class _Process:
    """A browser's process and the ends of its pipes."""

    def __init__(self, path: str, profile: Path, options: Sequence[str]):
        commands_out, self.commands = os.pipe()
        self.answers, answers_in = os.pipe()
        words = [path, *_OPTIONS, f"--user-data-dir={profile}", *options, "about:blank"]
        passed = (commands_out, answers_in)
        launched = [sys.executable, "-c", _LAUNCHER, *map(str, passed), *words]
        self._process = subprocess.Popen(
            launched, pass_fds=passed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for end in passed:
            os.close(end)

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.commands)
        os.close(self.answers)


def _started(path: str, folder: Path, options: Sequence[str], starts: int = STARTS) -> Tuple[_Process, Browser]:
    process = _Process(path, folder / f"profile_{starts}", options)
    try:
        return process, Browser(process.commands, process.answers)
    except (AssertionError, BrokenPipeError):
        process.end()
        if starts == 1:
            raise
    return _started(path, folder, options, starts - 1)


@contextmanager
def chromium(folder: Path, options: Sequence[str] = ()) -> Iterator[Browser]:
    """A browser whose profile lies in the folder."""
    path = program()
    assert path is not None, "there is no Chromium"
    process, browser = _started(path, folder, options)
    try:
        yield browser
    finally:
        process.end()
