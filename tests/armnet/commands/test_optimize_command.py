"""``armnet optimize``, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from armnet.__main__ import main
from device_tests.suite.tolerance import assert_each_close
from runtime_arm import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

NET = """
    net "tiny": x, w, s -> y
    Conv(x, w) -> a  kernel=1
    Mul(a, s) -> b
    Relu(b) -> c
    Softmax(c) -> y
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    weights: Dict[str, Any] = {"w": np.ones((2, 2, 1, 1), np.float32), "s": np.full((2, 1, 1), 2, np.float32)}
    fills = tuple(fill(name, value) for name, value in weights.items())
    info = TensorInfo("x", (1, 2, 3, 3), "float32")
    Pair(NetDef("init", fills), NetDef.from_text(NET), (info,)).save(tmp_path / "pair")
    return tmp_path


def optimized(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Tuple[int, str, str]:
    capsys.readouterr()
    status = main(["optimize", str(folder / "pair"), "-o", str(folder / "cheap"), *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_it_writes_the_pair_and_counts_its_operators(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = optimized(folder, capsys)
    assert status == 0
    assert [line.split() for line in out.splitlines()[2:8]] == [
        ["Conv", "1"],
        ["Mul", "1"],
        ["Relu", "1"],
        ["Softmax", "1", "1"],
        ["ConvRelu", "1"],
        ["all", "4", "2"],
    ]
    pairs = [Pair.load(folder / name) for name in ("pair", "cheap")]
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 3)).astype(np.float32)
    plain, cheap = (Predictor(pair).run([x])["y"] for pair in pairs)
    assert_each_close(cheap, plain, terms=2)


def test_json_has_counts_passes_and_refusals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = optimized(folder, capsys, "--json")
    facts = json.loads(out)
    assert (status, err, facts["schema"], facts["command"]) == (0, "", 1, "optimize")
    assert facts["before"] == {"Conv": 1, "Mul": 1, "Relu": 1, "Softmax": 1}
    assert facts["after"] == {"ConvRelu": 1, "Softmax": 1}
    assert facts["passes"] == {"fold_batch_norm": 1, "fuse_relu": 1, "eliminate_dead_code": 1}
    assert facts["steps"] == 3
    assert set(facts) >= {"pair", "refused", "warnings", "weights_nbytes"}


def test_explain_shows_every_rewrite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = optimized(folder, capsys, "--explain")
    for line in (
        "step 1: fold_batch_norm",
        "  - Mul(a, s) -> b",
        "  + Conv(x, w_folded) -> b  kernel=1",
        "    new weight w_folded float32[2, 2, 1, 1]",
        "step 2: fuse_relu",
    ):
        assert line in out.splitlines()


def test_stop_after_skips_the_later_rewrites(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized(folder, capsys, "--stop-after", "1")
    types = [op.type for op in Pair.load(folder / "cheap").predict_net.op]
    assert types == ["Conv", "Relu", "Softmax"]


def test_caffe2_compatible_and_engines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized(folder, capsys, "--caffe2-compatible", "--engines", "NNPACK")
    pair = Pair.load(folder / "cheap")
    assert [(op.type, op.engine) for op in pair.predict_net.op] == [("ConvRelu", "NNPACK"), ("Softmax", "")]
    assert all(arg.t is None for op in pair.init_net.op for arg in op.arg)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--engines", "WARP"], "no operator has an engine 'WARP'"),
        (["--stop-after", "-3"], "stop_after must not be negative"),
        (["--shape", "x=2,2"], "input 'x' is (1, 2, 3, 3), shape [2, 2] does not fit"),
        (["--shape", "z=2,2"], "no input 'z'"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], words: Any, complaint: str
) -> None:
    status, out, err = optimized(folder, capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"armnet: {complaint}")
    assert len(err.splitlines()) == 1
    assert not (folder / "cheap").exists()


def test_warnings_go_to_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = Pair.load(folder / "pair")
    pair.replace(inputs=(TensorInfo("x"),)).save(folder / "pair")
    status, _, err = optimized(folder, capsys)
    assert status == 0
    assert err.startswith("warning: the shape of input 'x' is not known")


def test_json_includes_the_explanations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = optimized(folder, capsys, "--json", "--explain")
    facts = json.loads(out)
    assert len(facts["rewrites"]) == facts["steps"] == 3
    assert facts["rewrites"][0]["pass_name"] == "fold_batch_norm"
    assert facts["rewrites"][0]["before"] == ["Conv(x, w) -> a  kernel=1", "Mul(a, s) -> b"]


def test_paranoid_runs_the_result_in_poisoned_memory(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = optimized(folder, capsys, "--paranoid")
    assert status == 0
    assert "of free memory poisoned before 2 steps; the outputs equal those of a run without a memory plan" in out
    np.save(folder / "x.npy", np.ones((1, 2, 3, 3), np.float32))
    run = ["run", str(folder / "cheap"), "--input", str(folder / "x.npy")]
    assert main([*run, "--paranoid"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("paranoid: ")
    assert main(run) == 0
    assert capsys.readouterr().out == captured.out
    for contradiction in (["--threads", "2"], ["--keep", "x"]):
        assert main([*run, "--paranoid", *contradiction]) == 2
        assert "--paranoid runs on one core and returns only outputs" in capsys.readouterr().err


def test_a_tuning_is_kept_only_for_the_net_that_was_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimized(folder, capsys, "--engines", "measure", "--threads", "1")
    measured = folder / "cheap/tuning.json"
    again = ["optimize", str(folder / "cheap"), "-o", str(folder / "again")]
    assert main(again) == 0
    assert (folder / "again/tuning.json").read_bytes() == measured.read_bytes()
    assert "belongs to another net" not in capsys.readouterr().out
    of_another_net = {**json.loads(measured.read_text()), "predict_net": "0" * 64}
    (folder / "pair/tuning.json").write_text(json.dumps(of_another_net))
    assert "tuning.json belongs to another net" in optimized(folder, capsys)[1]


def test_measured_engines_are_saved_with_the_pair_and_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = optimized(folder, capsys, "--engines", "measure", "--threads", "1", "--json")
    facts = json.loads(out)
    assert status == 0
    tuning = json.loads((folder / "cheap/tuning.json").read_text())
    assert [one["threads"] for one in tuning["measurements"]] == [1]
    assert {"cpu", "numpy", "blas"} <= tuning["machine"].keys()
    conv = facts["engines"][0]
    assert conv["operator"].startswith("ConvRelu(x")
    assert all(option["seconds"]["1"] > 0 for option in conv["options"].values())
    assert "WINOGRAD" in conv["refused"] or any(name.startswith("WINOGRAD") for name in conv["refused"])
    with Predictor(Pair.load(folder / "cheap"), threads=1) as predictor:
        assert predictor.notes == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--engines", "IM2COL", "--accuracy", "1e-3"], "an accuracy chooses engines, a list forces them"),
        (["--engines", "measure", "--stop-after", "1"], "stop_after counts steps"),
        (["--engines", "auto,IM2COL"], "'auto' cannot stand in a list"),
        (["--threads", "2"], "a number of threads can only be given if engines are measured"),
        (["--engines", "WARP"], "no operator has an engine 'WARP'"),
    ],
)
def test_contradictory_options_are_refused_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], words: List[str], complaint: str
) -> None:
    status, out, err = optimized(folder, capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert complaint in err
    assert not (folder / "cheap").exists()


def test_keep_biases_leaves_biases_in_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"w": np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1), "b": np.array([1, -2], np.float32)}
    text = 'net "two": x, w, b -> y\nConvRelu(x, w, b) -> a  kernel=1\nConv(a, w, b) -> y  kernel=1'
    fills = tuple(fill(name, value) for name, value in weights.items())
    pair = Pair(NetDef("init", fills), NetDef.from_text(text), (TensorInfo("x", (1, 2, 3, 3), "float32"),))
    pair.save(folder / "pair")
    shown = {}
    for words in ((), ("--keep-biases",)):
        assert optimized(folder, capsys, *words)[0] == 0
        shown[words] = [op.output[0] for op in Pair.load(folder / "cheap").predict_net.op]
    assert shown == {(): ["a_shifted", "y"], ("--keep-biases",): ["a", "y"]}
