"""The state of a training: it stays where a step leaves it, and errors and interrupts leave it whole."""

from __future__ import annotations

import signal
import tracemalloc
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Array
from tests.training.nets import classifier, pair_of, samples
from training.interrupts import held_back
from training.solvers import SGD, Adam
from training.trainer import Trainer


def same(one: Dict[str, Array], other: Dict[str, Array]) -> bool:
    return list(one) == list(other) and all(np.array_equal(value, other[name]) for name, value in one.items())


def test_steps_allocate_nothing_of_the_size_of_a_blob() -> None:
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((300, 400)), "v": random.standard_normal((5, 300))}
    weights.update(b=np.zeros(300), c=np.zeros(5))
    pair = pair_of('net "n": x, w, v, b, c -> y\nFC(x, w, b) -> h\nRelu(h) -> r\nFC(r, v, c) -> y', weights)
    feeds = {"x": random.standard_normal((64, 400)).astype(np.float32), "label": np.arange(64, dtype=np.int32) % 5}
    trainer = Trainer(pair, solver=Adam(0.001))
    for _ in range(3):
        trainer.step(feeds)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        trainer.step(feeds)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert most < 60_000  # the weights alone are 480,000 bytes


def test_batches_of_other_sizes_go_on_from_the_same_state() -> None:
    sizes = (12, 6, 12, 7, 7, 12)
    one, other = (Trainer(classifier(), solver=Adam(0.02)) for _ in range(2))
    for size in sizes:
        loss = one.step(samples(size))
        other.go_back(other.state())
        assert other.step(samples(size)) == loss
    assert same(one.state(), other.state())
    one.close()
    assert same(one.state(), other.state())
    assert one.step(samples()) == other.step(samples())


def test_an_error_on_the_way_forward_leaves_the_state_as_it_was() -> None:
    trainer = Trainer(classifier(), solver=SGD(0.1, momentum=0.9))
    for _ in range(2):
        trainer.step(samples())
        before = trainer.state()
        with pytest.raises(ArmnetError, match="labels must be 0 to 2"):
            trainer.step({**samples(), "label": np.full(12, 7)})
        assert same(trainer.state(), before)
    other = Trainer(classifier(), solver=SGD(0.1, momentum=0.9))
    losses = [other.step(samples()) for _ in range(3)]
    assert trainer.step(samples()) == losses[2]


def test_a_step_that_fails_while_it_changes_parameters_is_not_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(classifier(), solver=SGD(0.1))
    trainer.step(samples())
    state, run = trainer.state(), Executor.run

    def failing(self: Executor, *args: Any, **keywords: Any) -> Any:
        run(self, *args, **keywords)
        raise MemoryError("in the last update")

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "run", failing)
        with pytest.raises(MemoryError):
            trainer.step(samples())
    for use in (trainer.pair, trainer.state, lambda: trainer.step(samples())):
        with pytest.raises(UsageError, match="failed while it changed the parameters"):
            use()
    trainer.go_back(state)
    assert trainer.iteration == 1
    trainer.step(samples())


@pytest.fixture
def interrupts() -> Iterator[List[int]]:
    heard: List[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGINT, before)


def test_interrupts_wait_for_the_end(interrupts: List[int]) -> None:
    with held_back():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert interrupts == []
    assert interrupts == [signal.SIGINT]
    signal.raise_signal(signal.SIGINT)
    assert len(interrupts) == 2
