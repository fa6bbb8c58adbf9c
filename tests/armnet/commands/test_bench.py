"""Timing against other runtimes: what is timed, and the warnings about the figures."""

from __future__ import annotations

import json
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, List, Optional

import numpy as np
import pytest

import armnet as armnet_package
from armnet import other_runtimes, timing
from armnet.other_runtimes import Original, OtherRuntime, difference
from armnet.timing import cpu_seconds, take_turns
from runtime_arm import Pair, load
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO


@pytest.fixture
def beside_its_source(digits: Path, tmp_path: Path) -> Path:
    """The digits pair, in a folder with the model it was made from."""
    shutil.copytree(digits, tmp_path / "digits")
    shutil.copy(DEMO / "digits.onnx", tmp_path)
    return tmp_path / "digits"


def test_other_runtimes_run_the_source_model_and_agree(armnet: Armnet, beside_its_source: Path) -> None:
    pytest.importorskip("onnxruntime", reason="timing onnxruntime needs it")
    words = ("--against", "onnxruntime,reference", "--threads", "1,2", "--runs", 3, "--json")
    status, out, err = armnet("bench", beside_its_source, *words)
    assert status == 0
    facts = json.loads(out)
    assert (facts["command"], facts["runs"]) == ("bench", 3)
    rows = facts["results"]
    assert [row["threads"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["runtime"].split()[0] for row in rows] == ["armnet", "onnxruntime", "onnx"] * 2
    for row in rows:
        assert row["runs"] == 3
        assert 0 < row["fastest"] <= row["low"] <= row["seconds"] <= row["high"]
        if "ratio" in row:
            assert row["runs_model"] == "digits.onnx"
            assert row["difference"] < 1e-5
    assert rows[1]["ratio"] == rows[0]["seconds"] / rows[1]["seconds"]
    assert "do not spin" in err


def test_without_the_source_model_other_runtimes_run_the_pair(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="timing onnxruntime needs it")
    pytest.importorskip("ai_edge_litert", reason="timing LiteRT needs it")
    shutil.copytree(digits, tmp_path / "pair")
    (tmp_path / "digits.onnx").write_bytes(b"another model of that name")
    words = ("--against", "onnxruntime,tflite", "--threads", "1", "--runs", 1, "--json")
    status, out, _ = armnet("bench", tmp_path / "pair", *words)
    assert status == 0
    rows = json.loads(out)["results"]
    assert [row.get("runs_model") for row in rows] == [None, "the pair as ONNX", "the pair as TFLite"]
    assert max(row["difference"] for row in rows[1:]) < 1e-5


def test_the_table_has_a_row_for_armnet(armnet: Armnet, digits: Path) -> None:
    status, out, _ = armnet("bench", digits, "--runs", 2)
    assert status == 0
    assert "median ms" in out.splitlines()[0]
    assert out.splitlines()[2].startswith("armnet ")


def test_what_cannot_be_timed_is_refused(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    words = armnet("bench", digits, "--against", "caffe2")
    refused(words, "--against takes onnxruntime, tflite, mnn, ncnn, opencv, reference or all; got 'caffe2'")
    for threads in ("0", "1,", "²"):
        refused(armnet("bench", digits, "--threads", threads), "--threads takes numbers of cores")
    refused(armnet("bench", digits, "--runs", "0"), "--runs must be 1 or more")
    refused(armnet("bench", digits, "--model", tmp_path / "nothing.onnx"), "no such file")


def test_a_source_model_is_recognised_by_its_hash(beside_its_source: Path) -> None:
    pair = Pair.load(beside_its_source)
    assert Original(pair, beside_its_source).onnx()[0] == "digits.onnx"
    (beside_its_source.parent / "digits.onnx").write_bytes(b"")
    assert Original(pair, beside_its_source).onnx()[0] == "the pair as ONNX"


def test_a_large_difference_is_explained(
    armnet: Armnet, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(name: str, exact: Optional[float]) -> Callable[..., OtherRuntime]:
        """Returns outputs that differ from armnet's; those of its reference kernels, if any, differ by ``exact``."""
        return lambda original, feeds, threads: OtherRuntime(
            name,
            "a model",
            lambda: [probabilities + 1],
            None if exact is None else lambda: [probabilities + exact],
        )

    np.savez(tmp_path / "in.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    with load(digits, threads=1) as predictor:
        probabilities = predictor.run([np.zeros((1, 1, 8, 8), np.float32)])["probabilities"]
    made = {"rounding": other("rounding", 0.0), "wrong": other("wrong", 1.0), "opaque": other("opaque", None)}
    monkeypatch.setattr(other_runtimes, "OTHER_RUNTIMES", made)
    words = ["--against", ",".join(made), "--runs", 1, "--threads", 1, "--input", tmp_path / "in.npz", "--json"]
    warnings = json.loads(armnet("bench", digits, *words)[1])["warnings"]
    explained = {warning.split()[3]: warning for warning in warnings if warning.startswith("the outputs of ")}
    assert (
        "its fast kernels round differently; from its own reference kernels armnet differs by 0e+00"
        in explained["rounding"]
    )
    for name in ("wrong", "opaque"):
        assert explained[name].endswith("armnet compare MODEL PAIR finds the operator")


def test_candidates_take_turns_and_slow_ones_get_fewer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: List[str] = []
    figures, _ = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 4)
    assert order == ["a", "b"] * 5
    assert figures["a"].runs == 4
    monkeypatch.setattr(timing, "MOST_SECONDS", 0.0)
    figures, _ = take_turns({"a": lambda: None}, 50)
    assert figures["a"].runs == timing.LEAST_RUNS


class Clock:
    """Replaces the module time; time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(timing, "cpu_seconds", lambda: 0.0)
    return clock


def test_noise_and_throttling_cause_warnings(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "busy_seconds", lambda: clock.now * (os.cpu_count() or 1))
    monkeypatch.setattr(timing, "condition", lambda: {"slowed": ["under-voltage"]})
    _, warnings = take_turns({"a": lambda: clock.sleep(0.01)}, 3)
    assert any("other processes took 100%" in warning for warning in warnings)
    assert any("under-voltage" in warning for warning in warnings)


def test_a_candidate_that_becomes_slower_causes_a_warning(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "busy_seconds", lambda: None)
    seconds = iter([0.0, *[0.01] * 4, *[0.02] * 8])
    _, warnings = take_turns({"a": lambda: clock.sleep(next(seconds))}, 12)
    assert any("slower while it was timed" in warning for warning in warnings)
    assert any("of the median apart" in warning for warning in warnings)


def test_cpu_time_includes_living_children() -> None:
    before, own = cpu_seconds(), time.process_time()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.2:
            pass
        os.write(writing, b"x")
        time.sleep(60)
    os.read(reading, 1)
    grown = cpu_seconds() - before - (time.process_time() - own)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    assert grown > 0.1


def test_outputs_are_compared_whatever_their_layout() -> None:
    ours = np.arange(24.0).reshape(1, 2, 3, 4)
    assert difference([ours], [np.moveaxis(ours, 1, -1)]) == 0
    assert difference([ours], [ours + 23]) == pytest.approx(0.5)
    assert difference([ours], [ours[..., 0]]) is None
    assert difference([ours, ours], [ours, ours + 23]) == pytest.approx(0.5)
    assert difference([ours[..., 0], ours], [ours, ours]) == 0
    nowhere = np.where(ours == 3, np.nan, ours)
    assert difference([ours], [nowhere]) == difference([nowhere], [ours]) == np.inf
    assert difference([nowhere], [nowhere]) == 0


@pytest.mark.parametrize(("name", "packages"), [("opencv", ["cv2"]), ("mnn", ["MNN"]), ("ncnn", ["ncnn", "pnnx"])])
def test_a_runtime_with_a_form_of_its_own_gives_the_same_answer(name: str, packages: List[str]) -> None:
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"timing {name} needs {package}")
    pair = armnet_package.export(DEMO / "digits.onnx")
    feeds = {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}
    other = other_runtimes.OTHER_RUNTIMES[name](Original(pair, DEMO, str(DEMO / "digits.onnx")), feeds, 1)
    with armnet_package.Predictor(pair, threads=1) as predictor:
        assert difference(list(predictor.run(feeds).values()), other.infer()) < 1e-5


def test_what_is_not_installed_is_named_in_one_line(
    armnet: Armnet, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_runtimes, "find_spec", lambda package: None)
    status, out, err = armnet("bench", digits, "--against", "all", "--runs", 1, "--threads", 1)
    assert (status, len(out.splitlines())) == (0, 3)
    wanted = "pip install 'armnet[validate]' MNN ncnn pnnx 'armnet[caffe]'"
    assert err.splitlines()[0] == f"not installed: onnxruntime, tflite, mnn, ncnn, opencv; {wanted}"
