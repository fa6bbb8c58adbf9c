"""The tables of the benchmarks, made from given figures, and the models that the benchmarks time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import onnx
import pytest
from onnx import helper

import armnet
from armnet.other_runtimes import OtherRuntime
from runtime_arm import Pair
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from scripts.benchmarks import in_turns, models, runtimes, sequences, tiny
from scripts.benchmarks.__main__ import PARTS, main
from scripts.benchmarks.part import Options
from scripts.benchmarks.sequence_networks import gpt, minilm, recurrent, vit_tiny
from scripts.benchmarks.training import part as training

ROW = {
    "network": "resnet18",
    "threads": 1,
    "numpy": "2.0",
    "ratio": 0.75,
    "difference": 1e-6,
    "warnings": ["other processes took 40% of the processor: the machine is noisy"],
    **{
        f"{who}_{key}": value
        for who in ("armnet", "onnxruntime")
        for key, value in {"seconds": 0.03, "cpu_seconds": 0.02, "spread": 0.1}.items()
    },
}
MACHINE = {
    "cpu": "4 x Cortex-A72",
    "cores": 4,
    "caches": {"L2": 1048576},
    "system": "Linux 6.1",
    "python": "3.11.2",
    "numpy": "2.0",
    "blas": {"config": "OpenBLAS 0.3.27"},
    "armnet": "0.1.0",
}


def _results() -> Dict[str, Any]:
    grown = [{**ROW, "batch": n, "size": 64 * n, "image_seconds": 0.01, "pixel_seconds": 1e-8} for n in (1, 2, 4)]
    parts = {
        "networks": [ROW, {**ROW, "threads": 2}],
        "runtimes": [
            {"network": "resnet18", "cpu_seconds": {"armnet": 0.02}, "onnxruntime_ratio": 0.7, "mnn_ratio": 0.9}
        ],
        "models": [ROW, {"network": "odd.onnx", "refused": "no Loop"}],
        "size": grown,
        "batch": grown,
    }
    about = {"when": "2026-01-02 03:04 UTC", "machine": MACHINE, "versions": {"onnxruntime": "1.20"}}
    return {"schema": 1, "parts": parts, "measured": dict.fromkeys(parts, about)}


def test_results_become_markdown_with_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs matplotlib")
    (tmp_path / "results.json").write_text(json.dumps(_results()))
    main(["--parts", "--json", str(tmp_path / "results.json"), "--write", str(tmp_path / "BENCHMARKS.md")])
    text = (tmp_path / "BENCHMARKS.md").read_text()
    for line in (
        "| machine | 4 x Cortex-A72, L2 1.05 MB |",
        "| system | Linux 6.1, Python 3.11.2 |",
        "| armnet | 0.1.0, NumPy 2.0, OpenBLAS 0.3.27 |",
        "| beside | onnxruntime 1.20 |",
        "| day | 2026-01-02 |",
    ):
        assert line in text
    assert "| resnet18 | 1 | 30.00 | 30.00 | 0.75 | 20.00 | 20.00 | 10% | 1e-06 |" in text
    assert "| resnet18 | 20.00 | 0.70 |  | 0.90 |  |  |" in text
    assert "no Loop" in text
    assert "- resnet18: other processes took 40%" in text
    assert "![Ratios to onnxruntime, and times by image size and batch](BENCHMARKS.svg)" in text
    assert (tmp_path / "BENCHMARKS.svg").read_text().startswith("<?xml")
    assert capsys.readouterr().out == ""


def test_measuring_a_part_again_replaces_only_that_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(_results()))
    other = PARTS["networks"]._replace(measure=lambda options: [{**ROW, "ratio": 0.5, "threads": options.threads[0]}])
    monkeypatch.setitem(PARTS, "networks", other)  # type: ignore[arg-type]
    main(["--parts", "networks", "--threads", "3", "--json", str(path)])
    results = json.loads(path.read_text())
    assert [row["ratio"] for row in results["parts"]["networks"]] == [0.5]
    assert results["parts"]["models"] == _results()["parts"]["models"]
    assert results["measured"]["networks"]["machine"]["armnet"] == armnet.__version__
    assert "resnet18        3" in capsys.readouterr().out


def test_both_runtimes_are_timed_on_one_network(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="timing onnxruntime needs it")
    pair = in_turns.export_known("squeezenet1_1", tmp_path, image_size=64)
    row = in_turns.compare(pair, tmp_path / "squeezenet1_1.onnx", {pair.inputs[0].name: in_turns.picture(1, 64)}, 2, 1)
    assert row["ratio"] == row["armnet_seconds"] / row["onnxruntime_seconds"]
    assert row["difference"] < 1e-3
    assert row["threads"] == 2
    assert in_turns.mean_ratio([{"ratio": 0.5}, {"ratio": 2.0}]) == pytest.approx(1)


def test_recurrent_networks_and_transformers_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="timing onnxruntime needs it")
    small = {
        "gru": lambda: recurrent("GRU", hidden=8, steps=5, batch=2),
        "bilstm": lambda: recurrent("LSTM", hidden=8, steps=5, directions=2),
        "vit": lambda: vit_tiny(layers=1, width=24, classes=5),
        "encoder": lambda: minilm(layers=1, width=24, positions=7),
        "decoder": lambda: gpt(3, past=4, layers=1, width=32, heads=2),
    }
    monkeypatch.setattr(sequences, "NETWORKS", small)
    rows = sequences.measure(Options([1], 1, [], ""))
    assert [row["network"] for row in rows] == list(small)
    for row in rows:
        assert row["difference"] < 1e-4
        assert row["cpu_ratio"] == row["armnet_cpu_seconds"] / row["onnxruntime_cpu_seconds"]


def test_tiny_networks_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="timing onnxruntime needs it")
    monkeypatch.setattr(tiny, "TOGETHER", 2)
    rows = tiny.measure(Options([1], 1, [], ""))
    assert [row["network"] for row in rows] == ["digits", "lenet", "mnist", "kws", "vww"]
    for row in rows:
        assert row["difference"] < 1e-4
        assert row["ratio"] == row["armnet_cpu_seconds"] / row["onnxruntime_cpu_seconds"]


def test_steps_of_training_are_timed() -> None:
    (row,) = training.measure(Options([1], 1, ["digits"], ""))
    assert row["armnet_cpu_seconds"] > 0
    assert row["armnet_peak_nbytes"] > 1e7
    if "ratio" in row:
        assert row["ratio"] == row["armnet_cpu_seconds"] / row["torch_cpu_seconds"]
        assert row["difference"] < training.APART


@pytest.mark.parametrize("last", [2.5, float("nan")])
def test_wrong_steps_are_not_timed(last: float, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stub(training.Worker):
        def __init__(self, python: str, name: str, folder: Path) -> None:
            self._losses = [3.0, 2.0, last if name == "armnet" else 1.0]

        def steps(self, count: int) -> Dict[str, Any]:
            return {"losses": self._losses}

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(training, "Worker", Stub)
    row = training.measured("digits", {"armnet": "", "torch": ""}, 1)
    assert row["refused"] == "the losses of the first steps differ"
    assert "ratio" not in row


def test_a_runtime_that_answers_otherwise_is_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(apart: float) -> Callable[..., OtherRuntime]:
        name = f"{apart:g}"
        return lambda original, feeds, threads: OtherRuntime(name, "", lambda: [np.maximum(feeds["x"], 0) + apart])

    monkeypatch.setattr(runtimes, "OTHER_RUNTIMES", {"good": other(0), "wrong": other(1), "lost": other(np.nan)})
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 4])],
        [helper.make_tensor_value_info("y", 1, [1, 4])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.ones((1, 4), np.float32)
    row = runtimes.beside_all(tmp_path / "m.onnx", x, ["good", "wrong", "lost"], 3)
    assert row["cpu_seconds"].keys() == {"armnet", "good"}
    assert row["refused"] == {
        "wrong": "1 gives another answer: 5e-01 away",
        "lost": "nan gives another answer: inf away",
    }
    assert row["good_ratio"] == row["cpu_seconds"]["armnet"] / row["cpu_seconds"]["good"]
    assert "another answer" in capsys.readouterr().err


def test_models_are_found_with_all_their_files(tmp_path: Path) -> None:
    for name in (
        "a/net.onnx",
        "b/net.tflite",
        "c/net.caffemodel",
        "c/net_deploy.prototxt",
        "c/other.prototxt",
        "d/init_net.pb",
        "d/predict_net.pb",
        "e/lonely.caffemodel",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [tuple(Path(path).name for path in paths) for paths in models.sources(tmp_path)]
    alone, pairs = [("net.onnx",), ("net.tflite",)], [("net_deploy.prototxt", "net.caffemodel")]
    assert found == [*alone, *pairs, ("init_net.pb", "predict_net.pb")]


def test_networks_with_8_bit_weights_are_left_out() -> None:
    net = NetDef.from_text('net "n": x, w -> y\nMatMul(x, w) -> y')
    for dtype, expected in ((np.float32, True), (np.int8, False), (np.uint8, False), (np.int64, True)):
        init = NetDef("init", (fill("w", np.ones((2, 2), dtype)),), (), ("w",))
        assert models.is_float(Pair.from_nets(init, net)) is expected


def test_models_run_on_their_recorded_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "SHARED", tmp_path)
    (tmp_path / "references").mkdir()
    pictures = np.ones((4, 3, 8, 8), np.float32)
    np.savez(tmp_path / "references" / "onnx_net.npz", input=np.zeros((1, 1)))
    np.savez(tmp_path / "references" / "onnx_net__fast.npz", in_x=pictures, out_0=pictures)
    np.savez(tmp_path / "references" / "caffe_net_det1.npz", input=pictures)
    net = NetDef.from_text('net "n": x -> y\nRelu(x) -> y')
    pair = Pair.from_nets(NetDef("init"), net)
    assert models.inputs_of("onnx/net/fast.onnx", pair)["x"].shape == (4, 3, 8, 8)
    assert models.inputs_of("caffe/net/det1-320.caffemodel", pair)["x"].shape == (1, 3, 8, 8)
    assert models.inputs_of("caffe/net_v1/net_v1_det1.caffemodel", pair)["x"].shape == (1, 3, 8, 8)
    assert models.inputs_of("onnx/other/other.onnx", pair).keys() == {"x"}
