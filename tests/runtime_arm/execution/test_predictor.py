from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close, assert_each_close
from runtime_arm import Pair, Predictor, Workspace, load
from runtime_arm.errors import ArmnetError, FeedError, NetError, OperatorError, PairError, UnknownOperator, UsageError
from runtime_arm.machine import blas
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def fill(name: str, value: np.ndarray) -> OperatorDef:
    return OperatorDef.of("GivenTensorFill", [], [name], values=value)


def pair(shape=("batch", 3), dtype="float32") -> Pair:
    init = NetDef("init", (fill("w", W), fill("b", np.ones(2, np.float32))))
    predict = NetDef.from_text('net "predict": x, w, b -> y\nFC(x, w, b) -> h\nRelu(h) -> y')
    return Pair(init, predict, (TensorInfo("x", shape, dtype),), (TensorInfo("y"),))


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ W.T + 1, 0)


def test_inputs_go_by_name_and_by_position() -> None:
    x = np.eye(3, dtype=np.float32)
    with Predictor(pair()) as predictor:
        assert_each_close(predictor.run({"x": x})["y"], expected(x), terms=4)
        assert_each_close(predictor.run([x])["y"], expected(x), terms=4)


def test_nets_are_taken_as_values_as_bytes_and_as_paths(tmp_path: Path) -> None:
    x = np.eye(3, dtype=np.float32)
    nets = pair().init_net, pair().predict_net
    data = tuple(net.to_bytes() for net in nets)
    paths = tmp_path / "init_net.pb", tmp_path / "predict_net.pb"
    for path, content in zip(paths, data):
        path.write_bytes(content)
    for given in (nets, data, paths, tuple(map(str, paths))):
        assert_each_close(Predictor(*given).run([x])["y"], expected(x), terms=4)
    assert_each_close(load(*paths).run([x])["y"], expected(x), terms=4)
    assert_each_close(load(tmp_path).run([x])["y"], expected(x), terms=4)


def test_the_batch_may_change_from_run_to_run() -> None:
    with Predictor(pair()) as predictor:
        for batch in (1, 5, 1, 2):
            x = np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)
            assert_close(predictor.run([x])["y"], expected(x), terms=4)


def test_outputs_belong_to_the_caller_and_may_be_given() -> None:
    x = np.eye(3, dtype=np.float32)
    with Predictor(pair()) as predictor:
        first = predictor.run([x])["y"]
        copy = first.copy()
        predictor.run([-x])
        np.testing.assert_array_equal(first, copy)
        target = np.empty((3, 2), np.float32)
        assert predictor.run([x], out={"y": target})["y"] is target
        np.testing.assert_array_equal(target, first)
        both = predictor.run([x], out={"y": target}, keep=["h"])
        assert list(both) == ["y", "h"]
        for wrong in (np.empty((1, 2), np.float32), np.empty((3, 2)), np.broadcast_to(target[:1], (3, 2)), [1.0]):
            for keep in ([], ["h"]):
                with pytest.raises(FeedError, match="out"):
                    predictor.run([x], out={"y": wrong}, keep=keep)


def test_intermediate_blobs_can_be_kept() -> None:
    results = Predictor(pair()).run([-np.eye(3, dtype=np.float32)], keep=["h", "w"])
    assert list(results) == ["y", "h", "w"]
    np.testing.assert_array_equal(np.maximum(results["h"], 0), results["y"])
    np.testing.assert_array_equal(results["w"], W)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"z": np.eye(3, dtype=np.float32)}, "no input 'z'; the net takes x"),
        ({}, "input 'x' was not given"),
        ([], "input 'x' was not given"),
        ([np.eye(3, dtype=np.float32)] * 2, "2 inputs given, the net takes 1: x"),
        ([np.eye(3)], r"'x' must be float32, got float64; astype\('float32'\) converts it"),
        ([np.eye(3, dtype=np.uint8)], "'x' must be float32, got uint8$"),
        ([np.zeros(3, np.float32)], r"'x' must have 2 dimensions \(batch, 3\), got shape \(3,\)"),
        (np.eye(3, dtype=np.float32), r"run\(\[x\]\)"),
    ],
)
def test_unsuitable_feeds_are_refused(inputs, message) -> None:
    with pytest.raises(FeedError, match=message):
        Predictor(pair()).run(inputs)


def test_shapes_that_an_operator_refuses_name_the_operator() -> None:
    with pytest.raises(OperatorError, match=r"FC\(x, w, b\) -> h"):
        Predictor(pair()).run([np.zeros((2, 4), np.float32)])


def test_errors_appear_at_construction_if_shapes_are_known() -> None:
    with pytest.raises(OperatorError, match="FC"):
        Predictor(pair(shape=(2, 4)))
    unknown = NetDef.from_text('net "predict": x, w, b -> y\nFrobnicate(x, w, b) -> y')
    with pytest.raises(UnknownOperator):
        Predictor(pair().init_net, unknown)
    cyclic = NetDef.from_text('net "predict": x, w, b -> y\nAdd(x, b) -> a\nAdd(a, x) -> y')
    swapped = cyclic.replace(op=cyclic.op[::-1])
    with pytest.raises(NetError):
        Predictor(pair().init_net, swapped)
    with pytest.raises(PairError, match="'v'"):
        Predictor(
            Pair(
                pair().init_net,
                NetDef.from_text('net "p": x, v -> y\nAdd(x, v) -> y'),
                (TensorInfo("x"),),
                (TensorInfo("y"),),
            ).check()
        )


def test_a_closed_predictor_refuses_to_run() -> None:
    predictor = Predictor(pair())
    predictor.close()
    predictor.close()
    with pytest.raises(UsageError, match="closed"):
        predictor.run([np.eye(3, dtype=np.float32)])


def test_a_blob_that_the_net_overwrites_keeps_its_content() -> None:
    init = NetDef("init", (fill("count", np.zeros(1, np.float32)), fill("one", np.ones(1, np.float32))))
    predict = NetDef.from_text('net "p": count, one -> seen\nAdd(count, one) -> count\nAdd(count, one) -> seen')
    predictor = Predictor(Pair(init, predict, (TensorInfo("count", (1,), "float32"),), (TensorInfo("seen"),)))
    assert [float(predictor.run([])["seen"][0]) for _ in range(3)] == [2, 3, 4]
    assert (
        float(
            Predictor(Pair(init, predict, (TensorInfo("count", (1,), "float32"),), (TensorInfo("seen"),))).run([])[
                "seen"
            ][0]
        )
        == 2
    )


def test_a_state_that_is_kept_from_run_to_run_needs_no_plan_of_its_own() -> None:
    net = NetDef.from_text('net "p": x, h -> y\nAdd(x, h) -> h\nRelu(h) -> y')
    x = np.ones((2, 3), np.float32)
    with Predictor(Pair.from_nets(NetDef(), net), threads=1) as predictor:
        predictor.run({"x": x, "h": x})
        np.testing.assert_array_equal(predictor.run({"x": x})["y"], 3 * x)
        assert len(predictor.executor.plans()) == 1


def test_several_predictors_and_threads_share_a_process() -> None:
    x = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)
    first, second = Predictor(pair()), Predictor(pair(), threads=1)
    answers = []

    def work(predictor: Predictor) -> None:
        for _ in range(50):
            answers.append(predictor.run([x])["y"])

    threads = [threading.Thread(target=work, args=(p,)) for p in (first, second, first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 200
    for answer in answers:
        assert_close(answer, expected(x), terms=3)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_absurd_thread_counts_are_refused(threads: Any) -> None:
    with pytest.raises(UsageError, match="threads"):
        Predictor(pair(), threads=threads)


def test_blas_threads_are_set_for_the_run_and_restored() -> None:
    library = blas.loaded()
    if library is None:
        pytest.skip("NumPy's BLAS here is not OpenBLAS; its threads are left alone")
    before = library.get_threads()
    with blas.Threads(1):
        assert library.get_threads() == 1
        with blas.Threads(2):
            assert library.get_threads() in (1, 2)  # a build for one core stays at one
        assert library.get_threads() == 1
    assert library.get_threads() == before


def test_runs_that_overlap_in_any_order_restore_the_blas_threads() -> None:
    library = blas.loaded()
    if library is None:
        pytest.skip("NumPy's BLAS here is not OpenBLAS; its threads are left alone")
    before = library.get_threads()
    first, second = blas.Threads(1), blas.Threads(2)
    first.__enter__()
    second.__enter__()
    assert library.get_threads() == 1
    first.__exit__(None, None, None)
    assert library.get_threads() in (1, 2)  # a build for one core stays at one
    second.__exit__(None, None, None)
    assert library.get_threads() == before


def test_concurrent_first_searches_all_find_the_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    found, listed = blas.loaded(), list(blas._mapped_libraries())
    monkeypatch.setattr(blas, "_found", [])
    monkeypatch.setattr(blas, "_mapped_libraries", lambda: time.sleep(0.05) or listed)
    answers: List[Any] = []
    callers = [threading.Thread(target=lambda: answers.append(blas.loaded())) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [answer and answer.path for answer in answers] == [found and found.path] * 3


@pytest.mark.parametrize("given", [None, 3, [[1, [2, 3]]]])
def test_a_feed_that_is_not_an_array_is_refused(given: Any) -> None:
    with pytest.raises(FeedError):
        Predictor(pair()).run(given)


def test_the_byte_order_of_an_input_does_not_matter() -> None:
    x = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(Predictor(pair()).run([x.astype(">f4")])["y"], expected(x))


def test_the_runtime_works_alone_copied_into_an_empty_folder(tmp_path: Path) -> None:
    import shutil

    import runtime_arm

    shutil.copytree(
        Path(runtime_arm.__file__).parent, tmp_path / "runtime_arm", ignore=shutil.ignore_patterns("__pycache__")
    )
    pair().save(tmp_path / "pair")
    program = (
        "import sys, numpy as np; from runtime_arm import load; p = load('pair');"
        "print(p.run([np.ones((1, 3), np.float32)])['y'].tolist());"
        "print(sorted(set(sys.modules) & {'onnx', 'exporter', 'armnet', 'google.protobuf', 'PIL'}))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(expected(np.ones((1, 3), np.float32)).tolist()), "[]"]


def test_a_workspace_runs_nets_as_caffe2_does() -> None:
    workspace = Workspace()
    workspace.feed("x", np.array([[-1.0, 2.0]], np.float32))
    net = NetDef.from_text('net "n": x -> y\nRelu(x) -> y\nShape(y) -> s')
    workspace.run_net_once(net)
    workspace.run_net_once(NetDef("again", (OperatorDef.of("Add", ["y", "y"], ["y"]),)).to_bytes())
    np.testing.assert_array_equal(workspace.fetch("y"), [[0, 4]])
    np.testing.assert_array_equal(workspace.fetch("s"), [1, 2])
    assert workspace.blobs() == ["s", "x", "y"]
    with pytest.raises(FeedError, match="'nothing'"):
        workspace.fetch("nothing")
    with pytest.raises(ArmnetError):
        workspace.run_net_once(NetDef("bad", (OperatorDef.of("Add", ["y", "nothing"], ["z"]),)))


def test_a_state_that_is_an_output_too_is_not_the_callers_array() -> None:
    init = NetDef("init", (fill("s", np.zeros(3, np.float32)),))
    predict = NetDef.from_text('net "counter": x, s -> s\nAdd(s, x) -> s')
    predictor = Predictor(Pair(init, predict, (TensorInfo("x", (3,), "float32"),), (TensorInfo("s"),)))
    one = np.ones(3, np.float32)
    predictor.run([one])["s"][:] = 100
    target = np.empty(3, np.float32)
    predictor.run([one], out={"s": target})
    np.testing.assert_array_equal(target, 2 * one)
    target[:] = 100
    np.testing.assert_array_equal(predictor.run([one])["s"], 3 * one)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: load(None), "load takes the path of a pair's folder or bundle, .* got None"),
        (lambda: load("a.pb", 5), "load takes the path .* got 5"),
        (lambda: Predictor(5, 6), "a net is a NetDef, bytes, or the path of a .pb file; got 5"),
        (lambda: Predictor(None), "give init_net and predict_net, or a Pair"),
    ],
)
def test_a_refusal_of_something_that_is_not_a_network_says_what_is_expected(call, complaint):
    with pytest.raises(UsageError, match=complaint):
        call()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"keep": "relu"}, "keep takes a list of blob names, got 'relu'"),
        ({"keep": [5]}, r"keep takes a list of blob names, got \[5\]"),
        ({"out": []}, "out takes arrays by blob name, got list"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(options, complaint):
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> relu\n Sigmoid(relu) -> y')
    pair = Pair(NetDef(), net, (TensorInfo("x", (2,), "float32"),))
    with Predictor(pair) as predictor, pytest.raises(UsageError, match=complaint):
        predictor.run([np.zeros(2, np.float32)], **options)


def test_the_memory_of_results_is_used_again_once_nobody_has_it() -> None:
    net = NetDef.from_text('net "big": x -> y\n Relu(x) -> y')
    x = np.linspace(-1, 1, 1 << 16, dtype=np.float32)
    with Predictor(NetDef(), net, threads=1) as predictor:
        first = predictor.run({"x": x})["y"]
        second = predictor.run({"x": x + 1})["y"]
        assert not np.shares_memory(first, second), "the caller has the first result"
        np.testing.assert_array_equal(first, np.maximum(x, 0))
        view = second[5:]
        del second
        third = predictor.run({"x": x + 2})["y"]
        assert not np.shares_memory(view, third), "a view holds the second result"
        np.testing.assert_array_equal(view, np.maximum(x + 1, 0)[5:])
        address = third.ctypes.data
        del third
        fourth = predictor.run({"x": x})["y"]
        assert fourth.ctypes.data == address
        np.testing.assert_array_equal(fourth, first)
        other = predictor.run({"x": x[: 1 << 15]})["y"]
        assert other.shape == (1 << 15,)
        np.testing.assert_array_equal(fourth, first)
