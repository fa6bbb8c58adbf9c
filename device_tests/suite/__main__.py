"""``python -m device_tests.suite [pytest's arguments]``: runs the suite on this machine.

The last line of stdout is JSON: the machine's identity, the counts, and the tests that failed or were skipped, with the
reasons. While it runs, lines such as ``suite: 12 of 345 tests`` on stderr say how far it is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from runtime_arm.machine import identity as machine

USAGE_ERROR = 4  # pytest's exit status for arguments that it does not understand
INTERVAL = 1.0  # seconds between two lines of progress


class Tally:
    """A pytest plugin that records how every test ended."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: List[Dict[str, str]] = []
        self.skipped: List[Dict[str, str]] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.skipped:
            self.skipped.append({"test": report.nodeid, "reason": str(report.longrepr[2])})
        elif report.failed:
            self.failed.append({"test": report.nodeid, "reason": _reason(report)})
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append({"test": report.nodeid, "reason": _reason(report)})


class Progress:
    """A pytest plugin that says on stderr, which pytest captures for the tests, how many of them have ended."""

    def __init__(self) -> None:
        self._stderr = os.fdopen(os.dup(2), "w", 1)
        self._done, self._total, self._said = 0, 0, 0.0

    def pytest_collection_finish(self, session: Any) -> None:
        self._total = len(session.items)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._done += 1
        if time.monotonic() > self._said + INTERVAL:
            self._said = time.monotonic()
            print(f"suite: {self._done} of {self._total} tests", file=self._stderr)


def _reason(report: Any) -> str:
    """The message of the error that made a test fail, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text: str = crash.message if crash is not None else report.longreprtext
    return " ".join(text.split())[:400]


def main(arguments: List[str]) -> int:
    """Runs the suite; returns pytest's exit status."""
    try:
        import pytest
    except ImportError:
        print("the suite needs pytest: apt-get install python3-pytest, or pip install pytest", file=sys.stderr)
        return 2
    tally, start = Tally(), time.monotonic()
    words = ["-q", "-p", "no:cacheprovider", str(Path(__file__).parent), *arguments]
    status = int(pytest.main(words, plugins=[tally, Progress()]))
    if status == USAGE_ERROR:
        return status  # pytest has said on stderr what is wrong
    seconds = round(time.monotonic() - start, 1)
    print(json.dumps({"identity": machine.identity(), "seconds": seconds, **vars(tally)}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
