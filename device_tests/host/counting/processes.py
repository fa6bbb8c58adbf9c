"""Times whole processes in turns, and measures their peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from statistics import median
from typing import Dict, List, Mapping, NamedTuple, Sequence

# A process inherits the peak of the one that starts it, so a small interpreter without NumPy starts it.
_LAUNCHER = """\
import json, resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([seconds, peak * (1 if sys.platform == "darwin" else 1024), done.returncode]))
"""


class Usage(NamedTuple):
    """Medians over the rounds. ``peak_nbytes`` is the largest resident set, including pages of mapped files."""

    seconds: float
    peak_nbytes: int


def interleaved(commands: Mapping[str, Sequence[str]], rounds: int = 7) -> Dict[str, Usage]:
    """The usage of each command. They take turns, so that noise hits all alike; the first round does not count."""
    taken: Dict[str, List[Usage]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, command in commands.items():
            taken[name].append(once(command))
    return {
        name: Usage(median(c.seconds for c in used[1:]), int(median(c.peak_nbytes for c in used[1:])))
        for name, used in taken.items()
    }


def once(command: Sequence[str]) -> Usage:
    """The usage of one run of a command. CalledProcessError, with its stderr, if it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    launched = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, *command], env=environment, capture_output=True, text=True, check=True
    )
    seconds, peak_nbytes, status = json.loads(launched.stdout)
    if status:
        raise subprocess.CalledProcessError(status, list(command), stderr=launched.stderr)
    return Usage(seconds, peak_nbytes)
