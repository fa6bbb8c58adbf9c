"""Workers that are forked processes."""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import sys
import warnings
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Callable, List, NoReturn, Optional, Tuple

from runtime_arm.errors import ResourceError
from runtime_arm.execution.worker_protocol import FAILED, WORD, serve
from runtime_arm.records import NamedTuple

if TYPE_CHECKING:
    from runtime_arm.execution.worker_protocol import Programs

# How often an empty pipe is polled before the process sleeps, about 0.2 ms at most. Measured on a workstation:
# synchronising two processes takes 2 us if both are awake, 30 us if one must be woken. But spinning on a busy core
# starves the process being waited for: each failed poll halves the number of tries, each success doubles it.
MOST_ASKED, LEAST_ASKED = 256, 8

ONE_EVENT = (1).to_bytes(8, sys.byteorder)


class Bell(NamedTuple):
    """An event that wakes the process waiting for it; on systems without events the messages themselves wake it.

    Linux moves a process that is woken by a pipe to the processor of the writer, as if the writer were about to sleep.
    Here the writer goes on working; an event leaves both processes on their processors.
    """

    event: Optional[int]

    @classmethod
    def new(cls) -> Bell:
        """A bell, silent if the system has no events. OSError if no file descriptor is left."""
        if sys.version_info >= (3, 10) and hasattr(os, "eventfd"):
            try:
                return cls(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EPERM):  # some sandboxes refuse the call
                    raise
        return cls(None)

    def ring(self) -> None:
        if self.event is not None:
            os.write(self.event, ONE_EVENT)

    def silence(self) -> None:
        if self.event is not None:
            with suppress(BlockingIOError):
                os.read(self.event, len(ONE_EVENT))

    def twin(self) -> Bell:
        """A duplicate for the other end, which closes its own."""
        return Bell(None if self.event is None else os.dup(self.event))


class Pipes:
    """One end of two pipes, one for each direction, each with a bell."""

    def __init__(self, reading: int, writing: int, bell: Bell, their_bell: Bell):
        self._reading, self._writing = reading, writing
        self._bell, self._their_bell = bell, their_bell
        self._open = [reading, writing, *(one.event for one in (bell, their_bell) if one.event is not None)]
        os.set_blocking(reading, False)
        self._patience = MOST_ASKED
        self._poll = select.poll()
        if bell.event is None:
            self._poll.register(reading, select.POLLIN)
        else:
            self._poll.register(reading, 0)  # POLLHUP is reported all the same
            self._poll.register(bell.event, select.POLLIN)

    def send(self, message: bytes) -> None:
        os.write(self._writing, message)
        self._their_bell.ring()

    def receive(self) -> bytes:
        for _ in range(self._patience):
            try:
                message = os.read(self._reading, WORD)
            except BlockingIOError:
                continue
            self._patience = min(2 * self._patience, MOST_ASKED)
            return message
        self._patience = max(self._patience // 2, LEAST_ASKED)
        while True:
            self._poll.poll()
            self._bell.silence()
            with suppress(BlockingIOError):  # the bell rang for a message that was already read
                return os.read(self._reading, WORD)

    def rest(self) -> str:
        """The text that the other end sent before it was closed."""
        os.set_blocking(self._reading, True)
        return b"".join(iter(lambda: os.read(self._reading, 4096), b"")).decode("utf-8", "replace")

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def close_others(self) -> None:
        """Close every other descriptor except standard error: an open copy of a pipe would keep its reader waiting."""
        kept = {2, *self._open}
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        for descriptor in _open_descriptors():
            if descriptor > 1 and descriptor not in kept:
                with suppress(OSError):
                    os.close(descriptor)


def _open_descriptors() -> List[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return list(range(min(os.sysconf("SC_OPEN_MAX"), 4096)))


class WorkerProcess:
    """A process that serves one pool; creating the object forks it."""

    def __init__(self, worker: int, programs: Programs):
        self._owner = os.getpid()
        self._reaped = False
        try:
            self._pipes, self.pid = _started(programs)
        except OSError as error:
            raise ResourceError(f"no worker process can be started, threads=1 needs none: {error}") from None
        self.send, self.receive = self._pipes.send, self._pipes.receive

    def end(self) -> None:
        self._pipes.close()
        if os.getpid() == self._owner:
            self._reap(signal.SIGKILL)

    def reason_of_end(self, message: bytes) -> str:
        if message == FAILED:
            return f"worker process {self.pid} failed: {self._pipes.rest()}"
        status = self._reap()
        if status is None or not os.WIFSIGNALED(status):
            return f"worker process {self.pid} has ended"
        number = os.WTERMSIG(status)
        memory = ", as systems do that are short of memory" if number == signal.SIGKILL else ""
        return f"worker process {self.pid} was killed by signal {number}{memory}; threads=1 needs none"

    def _reap(self, kill: int = 0) -> Optional[int]:
        """Wait for the process, with ``kill`` after sending it that signal; its exit status, None if it is unknown."""
        if self._reaped:
            return None
        self._reaped = True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG if kill else 0)
            if pid == 0:
                os.kill(self.pid, kill)
                _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            return None
        return status


def _started(programs: Programs) -> Tuple[Pipes, int]:
    """The caller's end and the process id of a new process that serves. After an OSError nothing is left open."""
    ours, theirs = _connected()
    try:
        return ours, _fork(theirs, programs)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()


def _connected() -> Tuple[Pipes, Pipes]:
    """Two connected ends. After an OSError nothing is left open."""
    with ExitStack() as opened:

        def pipe() -> Tuple[int, int]:
            ends = os.pipe()
            for end in ends:
                opened.callback(os.close, end)
            return ends

        def bell(make: Callable[[], Bell]) -> Bell:
            one = make()
            if one.event is not None:
                opened.callback(os.close, one.event)
            return one

        down, up, mine, other = pipe(), pipe(), bell(Bell.new), bell(Bell.new)
        ends = Pipes(up[0], down[1], mine, other), Pipes(down[0], up[1], bell(other.twin), bell(mine.twin))
        opened.pop_all()
        return ends


def _fork(link: Pipes, programs: Programs) -> int:
    """The process id of a new process that serves and then ends. Signals are blocked until it can handle them."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # other threads do not survive the fork; the worker needs none
            pid = os.fork()
        if pid == 0:
            _become_worker(link, programs)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _become_worker(link: Pipes, programs: Programs) -> NoReturn:
    status = 1
    try:
        gc.disable()
        _take_signals()
        link.close_others()
        serve(link, programs)
        status = 0
    except BrokenPipeError:
        status = 0
    except BaseException as error:
        with suppress(OSError):
            link.send(FAILED + f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def _take_signals() -> None:
    """Reset signal handlers to their defaults. Ctrl-C, which reaches all processes of a terminal, is for the caller."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
