"""The other end of ``ssh``: runs on the device, in a folder of its own, and does what messages on its input say.

It is sent as text and executed by whatever Python 3 is there, so it uses only the standard library and the syntax of
Python 3.5. A message is a line of JSON; bytes follow a ``put`` and the answer to a ``fetch``. However it ends (end of
input, no message for a minute, a signal), it kills what it has started and removes the folder, which also holds the
temporary files of these programs. If an agent cannot remove its folder, because the device loses power, the next agent
does, since it finds the folder's lock free.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, BinaryIO, List, Optional

MARK = "armnet-agent 1"  # the host ignores everything before this line, such as the output of login scripts
PREFIX = "armnet-device-"
SIGNALS = (signal.SIGHUP, signal.SIGTERM)
SILENCE = 60  # seconds without a message after which the host is taken to be gone
CHUNK = 1 << 20


class HostGone(Exception):
    """The host does not listen any more."""


class Input:
    """Lines and bytes from the host."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def _more(self) -> None:
        ready, _, _ = select.select([0], [], [], SILENCE)
        data = os.read(0, CHUNK) if ready else b""
        if not data:
            raise HostGone
        self.buffer += data

    def message(self) -> Any:
        while b"\n" not in self.buffer:
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line.decode("utf-8"))

    def copy(self, nbytes: int, file: BinaryIO) -> None:
        while nbytes:
            if not self.buffer:
                self._more()
            part = self.buffer[:nbytes]
            file.write(part)
            del self.buffer[: len(part)]
            nbytes -= len(part)


def reply(message: Any, content: bytes = b"") -> None:
    try:
        sys.stdout.buffer.write(json.dumps(message).encode("utf-8") + b"\n" + content)
        sys.stdout.buffer.flush()
    except OSError:
        raise HostGone from None


def make_folder() -> str:
    """Makes a folder and locks it, after removing folders that are not locked."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        if name.startswith(PREFIX):
            remove_if_abandoned(os.path.join(parent, name))
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        if lock(folder) is not None and os.path.isdir(folder):  # otherwise another agent has removed it as abandoned
            return folder


def lock(folder: str) -> Optional[int]:
    """Locks a folder until this process ends; returns the descriptor, or None if another process holds the lock."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_if_abandoned(folder: str) -> None:
    descriptor = lock(folder)
    if descriptor is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


class Agent:
    """Serves one host in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.input = Input()
        self.child = None  # type: Any

    def serve(self) -> None:
        while True:
            message = self.input.message()
            if "put" in message:
                self.put(message["put"])
            elif "run" in message:
                threading.Thread(target=self.run, args=(message["run"], message["stream"]), daemon=True).start()
            elif "fetch" in message:
                self.fetch(message["fetch"])

    def put(self, files: List[Any]) -> None:
        """Receives files, each given as [path in the folder, nbytes]; their contents follow the message."""
        for name, nbytes in files:
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                self.input.copy(nbytes, file)
        reply({})

    def run(self, arguments: List[str], stream: bool) -> None:
        """Runs Python to its end, in a thread of its own, so that the main thread keeps listening to the host.

        stream: whether the host is sent each line of stderr as soon as it is written.
        """
        try:
            self.child = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ, TMPDIR=self.folder, ARMNET_CACHE=os.path.join(self.folder, ".cache")),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            errors = []  # type: List[str]
            listener = threading.Thread(target=self.listen, args=(self.child.stderr, errors, stream), daemon=True)
            listener.start()
            stdout = self.child.stdout.read().decode("utf-8", "replace")
            listener.join()
            self.child.wait()
            reply({"returncode": self.child.returncode, "stdout": stdout, "stderr": "".join(errors)})
        except OSError as error:
            reply({"error": str(error)})
        except HostGone:
            pass

    def listen(self, stream: BinaryIO, lines: List[str], forward: bool) -> None:
        """Collects the lines of a stream; with ``forward`` sends each to the host as soon as it is complete."""
        with contextlib.suppress(HostGone):
            for line in stream:
                lines.append(line.decode("utf-8", "replace"))
                if forward:
                    reply({"line": lines[-1]})

    def fetch(self, name: str) -> None:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                content = file.read()
        except OSError as error:
            reply({"error": str(error)})
        else:
            reply({"nbytes": len(content)}, content)

    def close(self) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: sys.exit(1))
    sys.stdout.buffer.write(MARK.encode("ascii") + b"\n")
    agent = None
    try:
        agent = Agent(make_folder())
        reply({"python": list(sys.version_info[:3]), "numpy": importlib.util.find_spec("numpy") is not None})
        agent.serve()
    except HostGone:
        pass
    except OSError as error:
        reply({"error": str(error)})
    finally:
        if agent is not None:
            agent.close()


main()
