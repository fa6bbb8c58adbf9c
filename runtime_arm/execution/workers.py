"""Workers that run their parts of a net's steps, on one core each: processes over shared memory, or threads.

The caller is worker 0 and runs every step. The others run their parts of the steps that are split, in lockstep:

    caller    start   step 0   go   step 1, part 0   met go   step 2, part 0   met   step 3 ...
    worker                     go   step 1, part 1   met go   step 2, part 1   met

``go`` says that everything the step reads has been written, ``met`` that a part is done. Where workers read each
other's results within a step, its phases are run like steps. Both are messages over pipes,
which order memory accesses on every processor. A waiting worker polls for a moment before it sleeps, because waking up
takes longer than many steps. Workers do not synchronise between steps that the caller runs alone.

Workers are processes where the system can fork. They inherit the plan, the packed weights and the arena, which is in
anonymous shared memory, as they are at the fork. Elsewhere workers are threads. A process ends when the other end of
its pipe is closed, by ``WorkerPool.close`` or because the caller dies.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Iterator, List, Sequence

from runtime_arm.errors import WorkerError
from runtime_arm.execution.worker_process import WorkerProcess
from runtime_arm.execution.worker_protocol import GO, MET, WORD, Member
from runtime_arm.execution.worker_thread import WorkerThread
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.kernel import phases_of
from runtime_arm.registry.steps import in_turn

if TYPE_CHECKING:
    from runtime_arm.execution.worker_protocol import Programs
    from runtime_arm.planning.plan import Segment
    from runtime_arm.registry.kernel import Run

FORKS = hasattr(os, "fork") and sys.platform.startswith(("linux", "android"))  # Apple's BLAS does not work after a fork


class WorkerPool:
    """Workers for some segments in their present state. ``workers`` includes the caller.

    The caller starts each run: ``start(segment)``, then ``segment.execute()``. After an exception the pool must be
    closed, because the other workers may be anywhere in the net. ResourceError if the system has no more processes.
    """

    def __init__(self, segments: Sequence[Segment], workers: int):
        self._numbers = {segment: number.to_bytes(WORD, "little") for number, segment in enumerate(segments)}
        self._members: List[Member] = []
        self._close = weakref.finalize(self, _end, self._members)
        _pools.add(self)
        try:
            for worker in range(1, workers):
                self._members.append(_start(worker, [_parts(segment, worker) for segment in segments]))
        except BaseException:
            self.close()
            raise
        for segment in segments:
            segment.runs = list(_in_lockstep(segment, self._members))

    def __contains__(self, segment: Segment) -> bool:
        return segment in self._numbers

    def start(self, segment: Segment) -> None:
        """Wake the workers for a run of this segment."""
        for member in self._members:
            _tell(member, self._numbers[segment], segment.running[0].op)

    def processes(self) -> List[int]:
        """The process ids of the workers that are processes."""
        return [member.pid for member in self._members if isinstance(member, WorkerProcess)]

    def close(self) -> None:
        """End the workers, whatever they are doing; closing twice does nothing.

        In a process that the user forked, forget them.
        """
        self._close()


def _start(worker: int, programs: Programs) -> Member:
    return WorkerProcess(worker, programs) if FORKS else WorkerThread(worker, programs)


def _parts(segment: Segment, worker: int) -> List[Run]:
    return [phase for parts in segment.bound if len(parts) > 1 for phase in phases_of(parts[worker])]


def _end(members: List[Member]) -> None:
    for member in members:
        member.end()


def _in_lockstep(segment: Segment, members: Sequence[Member]) -> Iterator[Run]:
    """The functions that the caller runs, one for each step."""
    is_split = [False, *(len(parts) > 1 for parts in segment.bound), False]
    for at, (step, parts) in enumerate(zip(segment.running, segment.bound)):
        if len(parts) > 1:
            phases = phases_of(parts[0])
            assert all(len(phases_of(part)) == len(phases) for part in parts), f"{step.op.signature()}: unequal phases"
            first, last = not is_split[at], not is_split[at + 2]
            yield in_turn(
                [
                    _lockstep(phase, step.op, members, first and number == 0, last and number == len(phases) - 1)
                    for number, phase in enumerate(phases)
                ]
            )
        else:
            yield parts[0]


def _lockstep(part: Run, op: OperatorDef, members: Sequence[Member], first: bool, last: bool) -> Run:
    """A function that runs the caller's part of a step and synchronises the workers.

    first: the step before is not split. last: the step after is not split.
    """
    *others, other = members

    def run() -> None:
        if first:
            for member in members:
                _tell(member, GO, op)
        part()
        for member in others:
            _meet(member, op)
        if not last:
            _tell(other, GO, op)  # all others have met
        _meet(other, op)
        if not last:
            for member in others:
                _tell(member, GO, op)

    return run


def _tell(member: Member, message: bytes, op: OperatorDef) -> None:
    try:
        member.send(message)
    except BrokenPipeError:
        _meet(member, op)


def _meet(member: Member, op: OperatorDef) -> None:
    message = member.receive()
    if message != MET:
        raise WorkerError(f"{op.signature()}: {member.reason_of_end(message)}")


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _forget_pools() -> None:
    """In a newly forked process, close its ends of the pipes: the workers must notice when their parent ends."""
    for pool in list(_pools):
        pool.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)

__all__ = ["FORKS", "WorkerPool"]
