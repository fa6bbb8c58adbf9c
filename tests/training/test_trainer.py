"""Trainer: what it trains, what it leaves, what it writes, and that it goes on from a checkpoint bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close, assert_each_close
from runtime_arm.errors import ArmnetError, FeedError, UsageError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.workspace import Workspace
from runtime_arm.machine import blas
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.training.nets import classifier, linear, pair_of, samples
from training.solvers import SGD, Adam
from training.trainer import Trainer

STATISTICS = {"m1", "v1", "m2", "v2"}


def weights_of(pair: Pair) -> Dict[str, Array]:
    with_values = (op for op in pair.init_net.op if op.has("values"))
    return {op.output[0]: op.get_tensor("values") for op in with_values}


def changed(before: Pair, after: Pair) -> Any:
    old, new = weights_of(before), weights_of(after)
    assert list(old) == list(new)
    return {name for name in old if not np.array_equal(old[name], new[name])}


def test_a_trained_pair_knows_the_samples() -> None:
    pair = classifier()
    trainer = Trainer(pair, solver=Adam(0.02))
    before = trainer.evaluate(samples(60))
    losses = [trainer.step(samples(60)) for _ in range(40)]
    after = trainer.evaluate(samples(60))
    assert losses[-1] < 0.2 * losses[0]
    assert after.loss < 0.3 * before.loss
    assert after.accuracy is not None
    assert after.accuracy > 0.95
    assert trainer.iteration == 40
    assert changed(pair, trainer.pair()) == set(weights_of(pair))
    with Predictor(trainer.pair(), threads=1) as predictor:
        found = predictor.run({"x": samples(60)["x"]})["y"].argmax(axis=1)
    assert (found == samples(60)["label"]).mean() == after.accuracy


@pytest.mark.parametrize("compatible", [False, True])
def test_only_what_is_to_be_trained_changes(compatible: bool) -> None:
    pair = classifier()
    for trainable, moved in (
        (["w", "b"], {"w", "b"}),
        ("w", {"w"}),
        ("b", {"b"}),
        ("?2", {"c2", "s2", "b2", "m2", "v2"}),
        (["c1"], {"c1"}),
    ):
        trainer = Trainer(pair, trainable=trainable, solver=SGD(0.1), caffe2_compatible=compatible)
        for _ in range(2):
            trainer.step(samples())
        after = Pair(Trainer(trainer.pair()).pair().init_net, pair.predict_net, pair.inputs)
        assert changed(pair, after) == moved


def test_normalisations_may_learn_with_their_statistics_frozen() -> None:
    pair = classifier()
    for compatible in (False, True):
        trainer = Trainer(pair, solver=SGD(0.1), batch_norm="frozen", caffe2_compatible=compatible)
        trainer.step(samples())
        own = Trainer(trainer.pair()).pair()
        assert changed(pair, own) == set(weights_of(pair)) - STATISTICS


def test_the_whole_step_runs_in_a_workspace() -> None:
    trainer = Trainer(classifier(), solver=SGD(0.05, momentum=0.9, weight_decay=0.01), caffe2_compatible=True)
    trainer.step(samples(seed=9))
    init_net, train_net = trainer.nets()
    workspace = Workspace()
    workspace.run_net_once(init_net.to_bytes())
    for seed in range(4):
        feeds = samples(seed=seed)
        for name, value in feeds.items():
            workspace.feed(name, value)
        workspace.run_net_once(train_net)
        assert float(workspace.fetch("loss")) == trainer.step(feeds)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_those_of_blas_too(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: List[int] = []

    class Noted(blas.Threads):
        def __init__(self, count: int) -> None:
            counts.append(count)
            super().__init__(count)

    monkeypatch.setattr(blas, "Threads", Noted)
    trainer = Trainer(linear(), threads=threads)
    try:
        trainer.step({"x": np.zeros((2, 4)), "label": np.zeros(2)})
        trainer.evaluate({"x": np.zeros((2, 4)), "label": np.zeros(2)})
    finally:
        trainer.close()
    assert counts.count(threads) >= 2
    assert set(counts) <= {1, threads}


def test_a_checkpoint_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def trainer() -> Trainer:
        return Trainer(classifier(), solver=Adam(0.01, clip_norm=1.0))

    first = trainer()
    for seed in range(3):
        first.step(samples(seed=seed))
    first.save(tmp_path / "at3.npz")
    expected = [first.step(samples(seed=seed)) for seed in range(3, 6)]
    second = trainer()
    second.restore(tmp_path / "at3.npz")
    assert second.iteration == 3
    assert [second.step(samples(seed=seed)) for seed in range(3, 6)] == expected
    for name, value in weights_of(first.pair()).items():
        np.testing.assert_array_equal(value, weights_of(second.pair())[name])
    assert [path.name for path in tmp_path.iterdir()] == ["at3.npz"]


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    trainer = Trainer(classifier())
    path = tmp_path / "c.npz"
    trainer.save(path)
    content = path.read_bytes()
    with pytest.raises(UsageError, match="another net"):
        Trainer(classifier(), solver="adam").restore(path)
    for damaged in (b"", content[:200], content[: len(content) // 2], b"\0" * 5000):
        path.write_bytes(damaged)
        with pytest.raises(ArmnetError, match=r"c\.npz: no checkpoint"):
            trainer.restore(path)
    with pytest.raises(ArmnetError, match="missing"):
        trainer.restore(tmp_path / "missing")


def test_an_error_leaves_the_state_as_it_was() -> None:
    trainer = Trainer(classifier(), solver=SGD(0.1, iter_size=2))
    before = weights_of(trainer.pair())
    bad = {**samples(), "label": np.array([0] * 11 + [7])}
    with pytest.raises(ArmnetError, match="labels must be 0 to 2"):
        trainer.step(bad)
    assert trainer.iteration == 0
    assert all(np.array_equal(value, before[name]) for name, value in weights_of(trainer.pair()).items())


def test_evaluation_changes_nothing_and_takes_several_batches() -> None:
    trainer = Trainer(classifier())
    whole = trainer.evaluate(samples(20))
    parts = [{name: value[a:b] for name, value in samples(20).items()} for a, b in ((0, 7), (7, 20))]
    assert_close(np.float32(trainer.evaluate(iter(parts))), np.float32(whole), terms=20)
    assert changed(classifier(), trainer.pair()) == set()
    assert (
        Trainer(linear(), loss="l2", labels="t").evaluate({"x": np.ones((2, 4)), "t": np.ones((2, 3))}).accuracy is None
    )


def test_two_parameters_that_share_a_gradient_are_updated_each() -> None:
    weights = {"a": np.ones((2, 3)), "b": np.zeros((2, 3))}
    pair = pair_of('net "n": x, a, b -> y\nAdd(a, b) -> c\nMul(x, c) -> y', weights)
    trainer = Trainer(pair, loss="l2", labels="t", solver=SGD(0.5, weight_decay=0.1))
    trainer.step({"x": np.ones((2, 3)), "t": np.zeros((2, 3))})
    after = weights_of(trainer.pair())
    gradient = 2 / 6
    assert_each_close(after["a"], np.full((2, 3), 1 - 0.5 * (gradient + 0.1)))
    assert_each_close(after["b"], np.full((2, 3), -0.5 * gradient))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"loss": "nothing"}, "loss must be"),
        ({"solver": "nothing"}, "solver must be"),
        ({"labels": "x"}, "give them another name"),
        ({"labels": "w"}, "give them another name"),
        ({"trainable": ["nothing*"]}, "no parameter is called 'nothing\\*'"),
        ({"trainable": []}, "none of the parameters"),
        ({"outputs": "nothing"}, "takes 1 outputs"),
        ({"loss": "contrastive"}, "takes 2 outputs"),
        ({"batch_norm": "sometimes"}, "one of auto, train, frozen"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Trainer(classifier(), **arguments)


def test_feeds_are_checked() -> None:
    trainer = Trainer(classifier())
    with pytest.raises(FeedError, match="missing: label"):
        trainer.step({"x": samples()["x"]})
    with pytest.raises(FeedError, match="unknown: z"):
        trainer.step({**samples(), "z": 1})
    with pytest.raises(FeedError, match="iter_size 5 does not divide"):
        Trainer(classifier(), solver=SGD(iter_size=5)).step(samples())
    with pytest.raises(UsageError, match="several runs"):
        Trainer(classifier(), solver=SGD(iter_size=5)).nets()
    with pytest.raises(UsageError, match="nothing to evaluate"):
        trainer.evaluate([])


def test_frozen_normalisations_have_the_same_gradients_in_caffe2s_operators() -> None:
    trainers = [Trainer(classifier(), solver=SGD(0.1), batch_norm="frozen", caffe2_compatible=c) for c in (False, True)]
    for _ in range(4):
        first, second = (trainer.step(samples()) for trainer in trainers)
        assert_close(np.float32(first), np.float32(second), terms=100, amplification=4)  # steps


def test_rows_of_a_table_are_trained() -> None:
    pair = pair_of('net "n": i, table -> y\nGather(table, i) -> y', {"table": np.ones((4, 2))})
    trainer = Trainer(pair, loss="l2", labels="t", solver=SGD(1.0))
    trainer.step({"i": np.array([1, 1, 3]), "t": np.zeros((3, 2))})
    assert_each_close(weights_of(trainer.pair())["table"][:, 0], [1, 1 - 4 / 6, 1, 1 - 2 / 6], terms=2)


def test_words_in_sentences_and_one_matrix_for_a_stack_are_trained() -> None:
    """As in transformers: indices of two dimensions, some of them twice, and a product with a broadcast matrix."""
    random = np.random.default_rng(0)
    table, w = random.standard_normal((5, 3)).astype(np.float32), random.standard_normal((3, 2)).astype(np.float32)
    net = 'net "words": ids, table, w -> y\nGather(table, ids) -> x\nBatchMatMul(x, w) -> y  broadcast=1'
    trainer = Trainer(pair_of(net, {"table": table, "w": w}), loss="l2", solver=SGD(0.5))
    ids, label = np.array([[0, 3, 3], [1, 0, 4]]), np.zeros((2, 3, 2), np.float32)
    trainer.step({"ids": ids, "label": label})
    after, y = weights_of(trainer.pair()), table[ids] @ w
    errors, rows = 0.5 * 2 * y / y.size, np.zeros_like(table)
    np.add.at(rows, ids, errors @ w.T)
    assert_close(after["table"], table - rows, terms=3 * 2)
    columns = np.einsum("nsc,nsk->ck", table[ids], errors)
    assert_close(after["w"], w - columns, terms=3 * 6)


def test_caffe2_compatible_names_what_caffe2_lacks() -> None:
    pair = pair_of('net "n": x, w -> y\nMul(x, w) -> z\nonnx.HardSwish(z) -> y', {"w": np.ones((1, 3))})
    with pytest.raises(ArmnetError, match="HardSwish"):
        Trainer(pair, loss="l2", caffe2_compatible=True)
