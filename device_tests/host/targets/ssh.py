"""A machine over ssh, reached by the system's OpenSSH client with the user's configuration, keys and known hosts.

The only name from the user in a shell command is that of the Python to run, which is quoted. Files, arguments and
results travel through the standard input and output of one connection, to and from ``ssh_agent``. If the connection
drops, the agent kills what it runs and removes its folder; this side connects again, once, and repeats its request.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar

from device_tests.host.emulation.cache import progress
from device_tests.host.targets.target import Completed, DeviceError, Files, OnLine, Target, last_line
from runtime_arm.app.display import size
from runtime_arm.errors import UsageError

AGENT = Path(__file__).with_name("ssh_agent.py")
MARK = b"armnet-agent 1\n"
OLDEST_PYTHON = (3, 9)
CONNECT_TIMEOUT = 15  # seconds to connect, and again for Python to start
SILENCE = 5  # seconds without data after which ssh asks the other side for an answer; it gives up after three times
PING = 10.0  # seconds between messages that tell the agent that the host is alive
REPLY = 120.0  # seconds to wait for a reply, except to a run
CHUNK = 1 << 20

_ADDRESS = re.compile(
    r"ssh://(?:(?P<user>\w[\w.-]*)@)?(?:(?P<host>\w[\w.-]*)|\[(?P<ip>[0-9A-F:.]+(?:%\w+)?)\])(?::(?P<port>\d{1,5}))?/?",
    re.ASCII | re.IGNORECASE,
)
Answer = TypeVar("Answer")


class Address(NamedTuple):
    """The parts of ``ssh://[USER@]HOST[:PORT]``; without a port, ssh's configuration decides."""

    destination: str
    port: Optional[int]


def parse_address(name: str) -> Address:
    """The parts of an address; UsageError if it is not one. An accepted address cannot be an option of ssh or a shell
    command.
    """
    found = _ADDRESS.fullmatch(name)
    if found is None or int(found["port"] or 22) not in range(1, 1 << 16):
        raise UsageError(f"{name!r} is not an address of the form ssh://[USER@]HOST[:PORT]")
    host = found["host"] or found["ip"]
    return Address(f"{found['user']}@{host}" if found["user"] else host, int(found["port"]) if found["port"] else None)


class ConnectionLost(DeviceError):
    """The connection to the device dropped; the request may be repeated."""


class SshTarget(Target):
    """A machine over ssh. python: the program to run there."""

    def __init__(self, name: str, python: str = "python3"):
        super().__init__(name)
        self._address = parse_address(name)
        self._python = python
        self._files: Dict[str, Path] = {}
        self._connection: Optional[_Connection] = None

    def open(self) -> None:
        self._connection = _Connection(self.name, self._command())
        hello = self._connection.hello()
        version = tuple(hello["python"])
        if version < OLDEST_PYTHON:
            raise self.error(f"its {self._python} is Python {'.'.join(map(str, version))}; 3.9 or newer is needed")
        if not hello["numpy"]:
            raise self.error(
                f"its {self._python} has no NumPy: apt-get install python3-numpy, "
                "pkg install python-numpy, or pip install numpy"
            )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def deploy(self, files: Files) -> None:
        self._files.update(files)
        self._insist(lambda connection: connection.put(files))

    def fetch(self, name: str) -> bytes:
        assert self._connection is not None, f"{self.name} is not open"
        return self._connection.fetch(name)

    def _execute(self, arguments: Sequence[str], timeout: float, on_line: Optional[OnLine]) -> Completed:
        return self._insist(lambda connection: connection.run(arguments, timeout, on_line))

    def _insist(self, ask: Callable[[_Connection], Answer]) -> Answer:
        """Makes a request. If the connection drops, connects and copies all files again, and repeats it once."""
        assert self._connection is not None, f"{self.name} is not open"
        try:
            return ask(self._connection)
        except ConnectionLost as error:
            progress(f"{error}; connecting again")
        self.close()
        self.open()
        self._connection.put(self._files)
        return ask(self._connection)

    def _command(self) -> List[str]:
        loader = f'{shlex.quote(self._python)} -c "import sys; exec(sys.stdin.buffer.read({AGENT.stat().st_size}))"'
        return [*client(self._address, "-T", "-oBatchMode=yes"), loader]


def client(address: Address, *options: str) -> List[str]:
    """The command that starts ssh's client with these options; the command for the other side's shell comes last.

    ``$ARMNET_SSH_CONFIG`` names an ssh configuration to use instead of the user's.
    """
    config = os.environ.get("ARMNET_SSH_CONFIG")
    times = {"ConnectTimeout": CONNECT_TIMEOUT, "ServerAliveInterval": SILENCE, "ServerAliveCountMax": 3}
    return [
        "ssh",
        *options,
        *(["-F", config] if config else []),
        *(f"-o{key}={value}" for key, value in times.items()),
        *(["-p", str(address.port)] if address.port else []),
        "--",
        address.destination,
    ]


class _Connection:
    """One ssh process with an agent at its other end."""

    def __init__(self, name: str, command: Sequence[str]):
        self._name = name
        self._buffer = bytearray()
        self._greeted = False
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        try:
            self._ssh = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._messages, start_new_session=True
            )
        except FileNotFoundError:
            self._messages.close()
            raise DeviceError(f"{name}: this computer has no ssh client: apt-get install openssh-client") from None
        assert self._ssh.stdin is not None
        assert self._ssh.stdout is not None
        self._input, self._output = self._ssh.stdin, self._ssh.stdout

    def hello(self) -> Dict[str, Any]:
        """The agent's first message, after it has started: its Python's version, and whether that has NumPy."""
        self._write(AGENT.read_bytes())
        deadline = time.monotonic() + 2 * CONNECT_TIMEOUT
        while MARK not in self._buffer:
            if not self._more(deadline):
                raise DeviceError(f"{self._name}: {self._last_words(connected=False)}")
        del self._buffer[: self._buffer.index(MARK) + len(MARK)]
        self._greeted = True
        return self._reply(REPLY)

    def put(self, files: Files) -> None:
        """Copies files into the agent's folder."""
        sizes = {name: path.stat().st_size for name, path in files.items()}
        progress(f"{self._name}: copying {size(sum(sizes.values()))}")
        self._write(_line({"put": list(sizes.items())}))
        for name, path in files.items():
            self._write_file(path, sizes[name])
        self._reply(REPLY)

    def _write_file(self, path: Path, nbytes: int) -> None:
        with path.open("rb") as file:
            while nbytes:
                chunk = file.read(min(nbytes, CHUNK))
                if not chunk:
                    raise DeviceError(f"{self._name}: {path} became shorter while it was being copied")
                self._write(chunk)
                nbytes -= len(chunk)

    def run(self, arguments: Sequence[str], timeout: float, on_line: Optional[OnLine]) -> Completed:
        """Runs the agent's Python. A program that takes longer than ``timeout`` is killed, and the agent with it."""
        self._write(_line({"run": list(arguments), "stream": on_line is not None}))
        deadline = time.monotonic() + timeout
        while True:
            message = self._reply(deadline - time.monotonic())
            if on_line is None or "line" not in message:
                return Completed(**message)
            on_line(message["line"])

    def fetch(self, name: str) -> bytes:
        """The content of a file in the agent's folder."""
        self._write(_line({"fetch": name}))
        nbytes = self._reply(REPLY)["nbytes"]
        deadline = time.monotonic() + REPLY
        while len(self._buffer) < nbytes:
            self._require_more(deadline)
        content = bytes(self._buffer[:nbytes])
        del self._buffer[:nbytes]
        return content

    def close(self) -> None:
        """Ends the agent, and waits until it has cleaned up."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._ssh.wait(timeout=CONNECT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._output.close()
        self._messages.close()

    def _write(self, data: bytes) -> None:
        """Sends data. There is no error if the other side is gone: its last message can still be read."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(data)
            self._input.flush()

    def _reply(self, timeout: float) -> Dict[str, Any]:
        """The agent's next message. DeviceError if it reports an error, ConnectionLost if the connection ends."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            self._require_more(deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Dict[str, Any] = json.loads(line)
        if "error" in message:
            raise DeviceError(f"{self._name}: {message['error']}")
        return message

    def _require_more(self, deadline: float) -> None:
        if not self._more(deadline):
            if time.monotonic() >= deadline:
                raise DeviceError(f"{self._name}: no answer in time; stopped")
            raise ConnectionLost(f"{self._name}: the connection was lost: {self._last_words(connected=True)}")

    def _more(self, deadline: float) -> bool:
        """Waits for bytes, and sends keep-alive messages to the agent meanwhile; False at the deadline or the end of
        the connection.
        """
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._output], [], [], min(PING, max(0.0, deadline - time.monotonic())))
            if ready:
                data = os.read(self._output.fileno(), CHUNK)
                self._buffer += data
                return bool(data)
            if self._greeted:
                self._write(_line({}))
        return False

    def _last_words(self, connected: bool) -> str:
        """The reason why ssh ended, in one line."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._ssh.wait(timeout=1)
        self._messages.seek(0)
        words = last_line(self._messages.read().decode(errors="replace"))
        status = self._ssh.poll()
        if status is None:
            return "no answer"
        if status == 127:
            return f"there is no such program: {words}"
        return words or (f"ssh ended with exit status {status}" if connected else "Python did not start there")


def _line(message: Dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
