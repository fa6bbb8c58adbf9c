"""``python -m device_tests.suite [pytest's arguments]``: runs the suite on this machine.

The last line of the output is JSON: the machine's identity, counts, what failed and what was skipped, with reasons.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from runtime_arm.machine import identity as machine


class Tally:
    """A pytest plugin that notes how every test ended."""

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


def _reason(report: Any) -> str:
    """The message of the error that made a test fail, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text: str = crash.message if crash is not None else report.longreprtext
    return " ".join(text.split())[:400]


def main(arguments: List[str]) -> int:
    """pytest's exit status."""
    try:
        import pytest
    except ImportError:
        print("the suite needs pytest: apt-get install python3-pytest, or pip install pytest", file=sys.stderr)
        return 2
    tally, start = Tally(), time.monotonic()
    status = int(pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).parent), *arguments], plugins=[tally]))
    seconds = round(time.monotonic() - start, 1)
    print(json.dumps({"identity": machine.identity(), "seconds": seconds, **vars(tally)}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
