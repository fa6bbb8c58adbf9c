"""What a worker does, whether it is a process or a thread, and the messages between it and the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Sequence

import numpy as np

if TYPE_CHECKING:
    from runtime_arm.registry.kernel import Run

    Programs = Sequence[Sequence[Run]]  # for each segment, the parts of its steps that one worker runs, in order

WORD = 4  # bytes of a message; the number of a segment starts a run of that segment
GO, MET, FAILED = (word.to_bytes(WORD, "little") for word in (0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD))
ENDED = b""  # received when the other end is closed


class Link(Protocol):
    """One end of a connection."""

    def send(self, message: bytes) -> None:
        """BrokenPipeError if the other end is closed."""

    def receive(self) -> bytes:
        """Wait for the next message; ENDED if the other end is closed."""


class Member(Link, Protocol):
    """The caller's end of the connection to a worker."""

    def end(self) -> None:
        """End the worker and wait until it has ended; it may be called twice."""

    def reason_of_end(self, message: bytes) -> str:
        """The reason why the worker sent this message instead of MET."""


def serve(link: Link, programs: Programs) -> None:
    """Run parts of steps when the caller says so, until it closes its end."""
    with np.errstate(all="ignore"):
        while True:
            message = link.receive()
            if message == ENDED:
                return
            for part in programs[int.from_bytes(message, "little")]:
                if link.receive() != GO:
                    return
                part()
                link.send(MET)
