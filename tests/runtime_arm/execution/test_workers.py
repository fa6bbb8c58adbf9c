"""Steps that workers split, and the life of workers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, List, Optional, Sequence

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError, ResourceError, WorkerError
from runtime_arm.execution import workers
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.worker_process import WorkerProcess
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.work_splitting import BYTE, least
from runtime_arm.registry.kernel import Call
from tests.runtime_arm.execution.worker_nets import HELD, ROWS, is_running, net, numbers, run, wait_until
from tests.support.paths import ROOT

DESCRIPTORS = 8 if sys.version_info >= (3, 10) else 4  # that it takes to start a worker process
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture
def three() -> Any:
    """Makes executors with three workers, and closes them."""
    made: List[Executor] = []

    def make(*types: str) -> Executor:
        made.append(Executor(net(*types), {}, workers=3))
        return made[-1]

    yield make
    for executor in made:
        executor.close()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("blocks", [0, 1, 4, 5, 17])
def test_parts_are_consecutive_and_make_up_the_whole(count: int, blocks: int) -> None:
    op = OperatorDef.of("Relu", ["x"], ["y"])
    calls = Call(op, [], [], [], [], [], {}).for_each_worker(count)
    parts = [call.mine(range(blocks)) for call in calls]
    assert [block for part in parts for block in part] == list(range(blocks))
    sizes = {len(part) for part in parts}
    assert max(sizes) - min(sizes) <= 1


@FORKS
def test_every_worker_is_a_process_and_does_its_part(three: Any) -> None:
    executor = three("TestProcess")
    first, again = run(executor), run(executor)
    assert len(np.unique(first)) == 3
    assert np.array_equal(first, again)
    assert len(executor.worker_processes()) == 2
    assert os.getpid() not in executor.worker_processes()


def test_workers_are_threads_where_the_system_cannot_fork(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FORKS", False)
    before = threading.active_count()
    executor = three("TestThread", "TestThread")
    assert len(np.unique(run(executor))) == 3
    assert threading.active_count() == before + 2
    executor.close()
    assert threading.active_count() == before
    assert np.array_equal(run(three("TestDouble", "Relu", "TestDouble")), numbers() * 4)
    failing = three("TestFail")
    with pytest.raises(WorkerError, match="armnet worker 1 failed: RuntimeError: no more paper"):
        run(failing)
    assert threading.active_count() == before + 2


@pytest.mark.parametrize("forks", [pytest.param(True, marks=FORKS), False])
def test_steps_wait_for_what_they_read(three: Any, monkeypatch: pytest.MonkeyPatch, forks: bool) -> None:
    monkeypatch.setattr(workers, "FORKS", forks)
    for types in (["TestDouble"] * 4, ["TestDouble", "Exp", "Log", "TestDouble"], ["Relu", "TestDouble", "Relu"]):
        alone = Executor(net(*types), {})
        executor = three(*types)
        for seed in range(20):
            x = np.random.default_rng(seed).random((ROWS, 128), np.float32)
            assert np.array_equal(run(executor, x), run(alone, x))


def test_one_worker_starts_neither_process_nor_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WorkerPool", None)
    before = threading.active_count()
    executor = Executor(net("TestDouble"), {}, workers=1)
    assert np.array_equal(run(executor), numbers() * 2)
    assert threading.active_count() == before
    assert executor._pool is None


def test_small_steps_are_not_split(three: Any) -> None:
    executor = three("TestDouble", "TestDouble")
    assert np.array_equal(run(executor, numbers(4)), numbers(4) * 2 * 2)
    assert executor._pool is None


def test_a_net_that_is_small_as_a_whole_has_no_workers(three: Any) -> None:
    worth = least()
    rows = worth.step // BYTE // numbers(1).nbytes
    few, many = three("TestDouble", "TestDouble"), three(*["TestDouble"] * (worth.all // worth.step))
    for executor in (few, many):
        run(executor, numbers(rows))
    assert few._pool is None
    assert many._pool is not None
    assert [step.workers for step in many.plans()[0].steps] == [3] * (worth.all // worth.step)


@FORKS
def test_workers_know_shapes_that_come_later(three: Any) -> None:
    executor = three("TestDouble")
    for rows in (ROWS, 2 * ROWS, ROWS, 4, 3 * ROWS):
        assert np.array_equal(run(executor, numbers(rows)), numbers(rows) * 2)
    assert len(executor.worker_processes()) == 2


@FORKS
def test_workers_serve_the_segments_after_a_border() -> None:
    lines = ["test.TestDouble(x) -> a", "onnx.NonZero(x) -> n", "test.TestDouble(a) -> y"]
    executor = Executor(NetDef.from_text("\n".join(['net "test": x -> y, n', *lines])), {}, workers=2)
    for rows in (ROWS, ROWS, 2 * ROWS):
        results = executor.run({"x": numbers(rows)}, ["y", "n"])
        assert np.array_equal(results["y"], numbers(rows) * 4)
    executor.close()


@FORKS
def test_closing_ends_the_workers(three: Any) -> None:
    executor = three("TestDouble")
    run(executor)
    pids = executor.worker_processes()
    executor.close()
    executor.close()
    assert not any(map(is_running, pids))
    assert np.array_equal(run(executor), numbers() * 2), "workers start again"


@FORKS
def test_workers_end_when_their_executor_is_forgotten() -> None:
    executor: Optional[Executor] = Executor(net("TestDouble"), {}, workers=2)
    assert executor is not None
    run(executor)
    pids = executor.worker_processes()
    del executor
    gc.collect()
    assert not any(map(is_running, pids))


@FORKS
def test_a_worker_that_fails_is_an_error_with_its_reason(three: Any) -> None:
    executor = three("Relu", "TestFail")
    for _ in range(2):
        with pytest.raises(WorkerError, match=r"test.TestFail\(b0\) -> y: worker process \d+ failed: RuntimeError: no"):
            run(executor)


@FORKS
def test_a_worker_that_is_killed_is_an_error_and_the_next_run_has_new_ones(three: Any) -> None:
    executor = three("TestDouble", "TestDouble")
    run(executor)
    for victim in (0, 1):
        os.kill(executor.worker_processes()[victim], signal.SIGKILL)
        with pytest.raises(ArmnetError, match=r"TestDouble\(x\) -> b0: worker process \d+ was killed by signal 9"):
            run(executor)
        assert np.array_equal(run(executor), numbers() * 4)


@FORKS
def test_a_worker_that_is_killed_at_work_is_an_error(three: Any) -> None:
    executor = three("TestLinger")

    def kill() -> None:
        wait_until(lambda: len(executor.worker_processes()) == 2)
        time.sleep(0.1)
        os.kill(executor.worker_processes()[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorkerError, match="killed by signal 9"):
        run(executor)
    killer.join()


@FORKS
def test_an_interrupted_run_leaves_no_worker_behind_and_the_next_works(three: Any) -> None:
    executor = three("TestInterrupt")
    with pytest.raises(KeyboardInterrupt):
        run(executor)
    assert executor._pool is None
    other = three("TestDouble")
    run(other)
    for pid in other.worker_processes():
        os.kill(pid, signal.SIGINT)
    assert np.array_equal(run(other), numbers() * 2), "Ctrl-C is for the caller alone"


@FORKS
def test_several_executors_have_workers_of_their_own_also_in_threads(three: Any) -> None:
    executors = [three("TestDouble", "TestDouble") for _ in range(3)]
    wrong: List[int] = []

    def use(index: int) -> None:
        for seed in range(10):
            x = np.random.default_rng(seed + index).random((ROWS, 128), np.float32)
            if not np.array_equal(run(executors[index], x), x * 4):
                wrong.append(index)

    threads = [threading.Thread(target=use, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({pid for executor in executors for pid in executor.worker_processes()}) == 6
    assert np.array_equal(run(executors[0]), numbers() * 4), "the thread that started them has ended"


@FORKS
@pytest.mark.parametrize("left", range(DESCRIPTORS))
def test_with_too_few_descriptors_no_worker_starts_and_nothing_stays_open(left: int) -> None:
    import resource  # where systems fork

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]

    def take_all() -> int:
        before = len(taken)
        with suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        return len(taken) - before

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64 + taken[0], limits[1]))
        take_all()
        for _ in range(left):
            os.close(taken.pop())
        with pytest.raises(ResourceError, match=r"threads=1 needs none: .*open files"):
            WorkerProcess(1, [])
        assert take_all() == left
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


@FORKS
def test_a_process_that_the_user_forks_has_workers_and_memory_of_its_own(three: Any) -> None:
    executor = three("TestProcess")
    ours = run(executor)
    pid = os.fork()
    if pid == 0:
        theirs = set(np.unique(run(executor)))
        os._exit(len(theirs & set(np.unique(ours))) + (len(theirs) != 3))
    assert os.waitpid(pid, 0)[1] == 0
    assert np.array_equal(run(executor), ours)


@FORKS
def test_a_process_that_is_forked_during_a_run_does_not_wait_for_it(three: Any) -> None:
    executor = three("TestHold")
    HELD[0] = True
    runner = threading.Thread(target=run, args=(executor,))
    runner.start()
    wait_until(lambda: len(executor.worker_processes()) == 2)
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        HELD[0] = False
        os._exit(not np.array_equal(run(executor), numbers()))
    status = os.waitpid(pid, 0)[1]
    HELD[0] = False
    runner.join()
    assert status == 0


SCRIPT = """
import os, sys, time
import numpy as np
from tests.runtime_arm.execution.worker_nets import Executor, net, run
executor = Executor(net("TestDouble"), {}, workers=2)
run(executor)
print(*executor.worker_processes(), flush=True)
"""


def _script(more: str) -> Sequence[str]:
    return [sys.executable, "-c", SCRIPT + more]


@FORKS
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "sys.exit(0)"])
def test_workers_die_with_their_parent_however_it_dies(end: str) -> None:
    done = subprocess.run(_script(end), stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 1
    wait_until(lambda: not any(map(is_running, pids)))


@FORKS
def test_workers_keep_no_descriptor_open_that_another_process_waits_for() -> None:
    reading, writing = os.pipe()
    executor = Executor(net("TestDouble"), {}, workers=2)
    run(executor)
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
    executor.close()


@FORKS
def test_nothing_of_the_shared_memory_has_a_name(three: Any) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    executor = three("TestDouble")
    run(executor)
    after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    assert after <= before


LOOP = """
end = time.monotonic() + 60  # where nobody interrupts it, because the test has failed
try:
    while time.monotonic() < end:
        run(executor)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    run(executor)
    sys.exit(3)
"""


@FORKS
def test_ctrl_c_ends_the_run_and_no_worker_complains() -> None:
    with subprocess.Popen(
        _script(LOOP),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job would ignore it
    ) as process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (3, "interrupted\n", "")
    wait_until(lambda: not is_running(first))
