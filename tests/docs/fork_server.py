"""Runs ``armnet`` commands of shell scripts quickly: a process that has imported NumPy and onnx forks for each of them.

    with ForkServer(folder) as server:
        subprocess.run(["bash", "-c", f"{server.function}\narmnet inspect digits | tail -1"], ...)

The shell function ``armnet`` writes a request into a FIFO, a line for each field, and reads the exit status from
another. The child opens the shell's own standard output and error, whatever the script has made of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import List, Optional, Type

from tests.support.paths import ROOT

FUNCTION = """armnet() {{
    local out errors status
    exec {{out}}>&1 {{errors}}>&2
    printf '%s\\n' "$BASHPID" "$out" "$errors" "$PWD" "$ARMNET_CACHE" "$#" "$@" > {requests}
    read -r status < {answers}
    exec {{out}}>&- {{errors}}>&-
    return "$status"
}}"""


class ForkServer:
    """The process and its two FIFOs, which lie in ``folder``."""

    def __init__(self, folder: Path):
        self.requests, self.answers = folder / "requests", folder / "answers"
        self.function = FUNCTION.format(requests=self.requests, answers=self.answers)

    def __enter__(self) -> ForkServer:
        for path in (self.requests, self.answers):
            os.mkfifo(path)
        command = [sys.executable, "-m", "tests.docs.fork_server", str(self.requests), str(self.answers)]
        self._process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._process.terminate()
        self._process.wait()


def serve(requests: str, answers: str) -> None:
    """Answers requests until it is terminated."""
    import numpy  # noqa: F401 (the children need it)
    import onnx  # noqa: F401
    import PIL.Image  # noqa: F401

    import armnet.__main__

    # Both are open both ways: the end of a shell's command must not end a file.
    told = os.open(answers, os.O_RDWR)
    with os.fdopen(os.open(requests, os.O_RDWR), encoding="utf-8") as asked:
        while True:
            shell, out, errors, folder, cache, count = (asked.readline().rstrip("\n") for _ in range(6))
            words = [asked.readline().rstrip("\n") for _ in range(int(count))]
            child = os.fork()
            if child == 0:
                streams = [f"/proc/{shell}/fd/{number}" for number in (out, errors)]
                _run(armnet.__main__.main, streams, folder, cache, words)
            status = os.waitpid(child, 0)[1]
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            os.write(told, f"{code}\n".encode())


def _run(main: object, streams: List[str], folder: str, cache: str, words: List[str]) -> None:
    """Runs one command in this process, with the shell's streams, and ends it."""
    import traceback

    status = 1
    try:
        for number, path in enumerate(streams, 1):
            stream = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.dup2(stream, number)
            os.close(stream)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        os.chdir(folder)
        os.environ["ARMNET_CACHE"] = cache
        status = main(words)  # type: ignore[operator]
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(*sys.argv[1:])
