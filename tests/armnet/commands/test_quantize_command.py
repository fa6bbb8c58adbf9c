"""``armnet quantize``, as a user types it."""

from __future__ import annotations

import errno
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from armnet.page.quantization import render
from runtime_arm import Predictor
from runtime_arm.app.display import size
from runtime_arm.pair.pair import Pair
from tests.support.chromium import chromium, program
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO


def nbytes(folder: Path, pattern: str = "*.pb") -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern))


def accuracy(pair: Pair) -> float:
    with np.load(DEMO / "held_back.npz") as archive, Predictor(pair, threads=1) as predictor:
        scores = next(iter(predictor.run([archive["images"]]).values()))
        return float(np.mean(scores.argmax(axis=1) == archive["labels"]))


def test_weights_alone_make_the_pair_smaller(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    status, out, _ = armnet("quantize", digits, "-o", tmp_path / "small")
    assert status == 0
    assert "weights:" in out
    assert nbytes(tmp_path / "small") < 0.3 * nbytes(digits)
    assert armnet("inspect", tmp_path / "small")[0] == 0
    assert accuracy(Pair.load(tmp_path / "small")) >= accuracy(Pair.load(digits)) - 0.001


def test_the_bytes_of_files_before_and_after(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """The result may take the place of the pair. What lies beside a pair is not of it."""
    pair = tmp_path / "pair"
    shutil.copytree(digits, pair)
    before = nbytes(pair, "*")
    (pair / "notes.txt").write_bytes(bytes(1000))
    status, out, _ = armnet("quantize", pair, "-o", pair, "--json")
    assert status == 0
    after = nbytes(pair, "*") - 1000
    assert json.loads(out)["files_nbytes"] == {"before": before, "after": after}
    assert (
        f"files: {size(before)} before, {size(after)} after" in armnet("quantize", digits, "-o", pair)[1].splitlines()
    )
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        archive.write(DEMO / "digits.onnx", "digits.onnx")
    status, out, _ = armnet("quantize", tmp_path / "models.zip" / "digits.onnx", "-o", tmp_path / "small")
    files = next(line for line in out.splitlines() if line.startswith("files: "))
    assert (status, files) == (0, f"files: 217 kB before, {size(nbytes(tmp_path / 'small', '*'))} after")


def test_layers_stay_float_until_enough_is_right(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """Weights of 4 bits change what the demo's network says about noise; some of that is demanded back."""
    noise = np.random.default_rng(0).random((300, 1, 8, 8), np.float32) / 2
    with Predictor(Pair.load(digits), threads=1) as predictor:
        said = predictor.run([noise])["probabilities"].argmax(axis=1)
    np.savez(tmp_path / "noise.npz", images=noise, labels=said)
    data = ["--data", DEMO / "held_back.npz", "--samples", 20, "--evaluate", tmp_path / "noise.npz"]
    words = ["quantize", digits, "--weights", "int4", "--rounding", "nearest", *data, "--json"]
    spoilt = json.loads(armnet(*words, "-o", tmp_path / "any", "--must", "top1=0")[1])["metrics"]["after"]["top1"]
    assert spoilt < 0.99
    share = (1 + spoilt) / 2
    status, out, _ = armnet(
        *words, "-o", tmp_path / "kept", "--must", f"top1={share}", "--html", tmp_path / "report.html"
    )
    assert status == 0
    facts = json.loads(out)
    assert facts["metrics"]["before"]["top1"] == 1.0
    assert facts["metrics"]["after"]["top1"] >= share
    page = (tmp_path / "report.html").read_text()
    assert page.count("<circle") == len(facts["layers"])
    assert {layer["weights"] for layer in facts["layers"]} == {"int4", "float16"}
    assert "it makes the outputs too noisy" in page
    assert nbytes(tmp_path / "any") < nbytes(tmp_path / "kept") < nbytes(digits)
    refused(armnet("quantize", digits, "-o", tmp_path / "x", "--must", "top1=1"), "--data or --evaluate")
    status, _, err = armnet(*words, "-o", tmp_path / "x", "--must", "map=1")
    assert (status, "a share of top1, top5" in err) == (2, True)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (np.full((2, 1, 8, 8), np.nan, np.float32), "sample 1: input 'image' holds numbers that are not finite"),
        (np.full((2, 1, 8, 8), 3e38, np.float32), "is not finite on sample 1"),
        (np.zeros((0, 1, 8, 8), np.float32), "holds no samples"),
        (np.zeros((1, 1, 8, 8), np.float32), ""),
    ],
)
def test_strange_data(armnet: Armnet, digits: Path, tmp_path: Path, images: Any, problem: str) -> None:
    np.savez(tmp_path / "data.npz", images=images)
    words = ["quantize", digits, "-o", tmp_path / "small", "--activations", "int8", "--data", tmp_path / "data.npz"]
    if problem:
        refused(armnet(*words), problem)
        assert not (tmp_path / "small").exists()
    else:
        assert armnet(*words)[0] == 0
    (tmp_path / "empty").mkdir()
    refused(armnet(*words[:-1], tmp_path / "empty", "-o", tmp_path / "other"), "empty: holds no samples")
    refused(armnet(*words, "--html", tmp_path / "nowhere" / "page.html"), "its folder does not exist")


def test_a_full_disk_leaves_nothing_behind(
    armnet: Armnet, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What calibration keeps goes first; then the pair may fit or not."""
    words = ["quantize", digits, "--activations", "int8", "--data", DEMO / "held_back.npz", "--samples", 4]
    left = {"nbytes": 1 << 16}

    def write(path: Path, chunks: Any) -> None:
        content = b"".join(map(bytes, chunks))
        if sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) + len(content) > left["nbytes"]:
            path.write_bytes(content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(content)

    monkeypatch.setattr("runtime_arm.files._write", write)
    for room, fits in ((1 << 16, True), (1 << 12, False)):
        left["nbytes"] = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) + room
        had = {*tmp_path.rglob("*")}
        if fits:
            assert armnet(*words, "-o", tmp_path / "small")[0] == 0
        else:
            refused(armnet(*words, "-o", tmp_path / "none"), "No space left on device")
            assert {*tmp_path.rglob("*")} == had


def test_integers_with_data_and_a_table_of_layers(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    words = [
        "quantize",
        digits,
        "-o",
        tmp_path / "small",
        "--activations",
        "int8",
        "--samples",
        40,
        "--data",
        DEMO / "held_back.npz",
    ]
    status, out, _ = armnet(*words, "--write-table", tmp_path / "layers.txt", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["output_snr"] > 20
    table = (tmp_path / "layers.txt").read_text()
    assert len(table.splitlines()) == 1 + len(facts["layers"])
    small = Pair.load(tmp_path / "small")
    assert small.meta["labels"] == Pair.load(digits).meta["labels"]
    assert accuracy(small) >= accuracy(Pair.load(digits)) - 0.01
    lines = table.splitlines()
    lines[1] = lines[1].replace("int8", "float32")
    (tmp_path / "layers.txt").write_text("\n".join(lines))
    status, out, _ = armnet(*words, "--table", tmp_path / "layers.txt", "--json")
    assert status == 0
    assert [row["activations"] for row in json.loads(out)["layers"]].count("float32") == 1


def test_mistakes_are_one_line_and_write_nothing(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ["quantize", digits, "-o", out]
    refused(armnet(*words, "--activations", "int8"), "need samples")
    refused(armnet(*words, "--activations", "int8", "--data", empty), "empty", "holds no samples")
    refused(armnet(*words, "--activations", "int8", "--data", tmp_path / "none.npz"), "none.npz")
    refused(armnet(*words, "--weights", "int5"), "int5", "palette")
    refused(armnet(*words, "--table", tmp_path / "none.txt"), "none.txt")
    (tmp_path / "wrong.txt").write_text("int8 float32 Conv nowhere\n")
    refused(armnet(*words, "--table", tmp_path / "wrong.txt"), "Conv nowhere")
    refused(armnet(*words, "--html", empty), "empty: is a folder; name a file")
    assert not out.exists()


def test_weights_are_unpacked_in_each_run(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    status, out, _ = armnet("quantize", digits, "-o", tmp_path / "lazy", "--unpack", "run")
    assert status == 0
    assert "unpacked at load: " in out
    assert "unpacked at run: " in out
    assert any(op.get_bool("each_run") for op in Pair.load(tmp_path / "lazy").predict_net.op)
    assert accuracy(Pair.load(tmp_path / "lazy")) >= accuracy(Pair.load(digits)) - 0.001
    facts = json.loads(armnet("quantize", digits, "-o", tmp_path / "eager", "--unpack", "load", "--json")[1])
    assert set(facts["unpacking"]) == {"packed_nbytes", "load", "run"}
    assert facts["unpacking"]["load"]["unpacked_nbytes"] > facts["unpacking"]["packed_nbytes"]


def test_integers_are_handed_on(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    data = ["--activations", "int8", "--data", DEMO / "held_back.npz", "--samples", 20]
    assert armnet("quantize", digits, "-o", tmp_path / "integers", "--per-tensor", *data)[0] == 0
    status, _, err = armnet("export", tmp_path / "integers", "--to", "caffe2", "-o", tmp_path / "bytes")
    assert (status, "predict_net.pb" in err) == (0, True)
    made = Pair.load(tmp_path / "bytes")
    assert all(op.domain == "" for op in made.predict_net.op)
    assert accuracy(made) >= accuracy(Pair.load(digits)) - 0.01
    words = ["export", tmp_path / "integers", "--to", "onnx", "-o"]
    assert armnet(*words, tmp_path / "qdq.onnx")[0] == 0
    assert armnet(*words, tmp_path / "exact.onnx", "--integers", "exact")[0] == 0
    assert (tmp_path / "qdq.onnx").read_bytes() != (tmp_path / "exact.onnx").read_bytes()
    refused(armnet("export", tmp_path / "integers", "--to", "tflite", "-o", "x", "--integers", "qdq"), "for --to onnx")


@pytest.mark.parametrize(("weights", "grow"), [("int4", True), ("int8", False)])
def test_a_file_that_cannot_hold_the_weights_so_is_no_surprise(
    armnet: Armnet, digits: Path, tmp_path: Path, weights: str, grow: bool
) -> None:
    assert armnet("quantize", digits, "-o", tmp_path / "small", "--weights", weights)[0] == 0
    status, _, err = armnet("export", tmp_path / "small", "--to", "onnx", "-o", tmp_path / "small.onnx")
    assert status == 0
    assert ("weights of int4 are floats in that file" in err) == grow


def test_all_layers_on_integers_or_until_the_outputs_are_close(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    words = ["quantize", digits, "-o", tmp_path / "small", "--activations", "int8", "--samples", "8", "--json"]
    floats = {}
    for demand in ("none", "70"):
        status, out, _ = armnet(*words, "--data", DEMO / "held_back.npz", "--snr", demand)
        assert status == 0
        floats[demand] = sum(layer["activations"] == "float32" for layer in json.loads(out)["layers"])
    assert floats["none"] == 0 < floats["70"]
    for word in ("nan", "much"):
        status, _, errors = armnet(*words, "--snr", word)
        assert status == 2
        assert f"invalid decibels value: '{word}'" in errors


def test_a_mistake_in_the_table_keeps_the_calibration_of_an_earlier_run(
    armnet: Armnet, digits: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "pair.calibration" / "ranges.npz"
    kept.parent.mkdir()
    kept.write_text("of hours")
    words = ["quantize", digits, "-o", tmp_path / "pair", "--activations", "int8", "--samples", 8]
    refused(armnet(*words, "--data", DEMO / "held_back.npz", "--table", tmp_path / "none.csv"), "none.csv")
    assert kept.read_text() == "of hours"


def test_a_refusal_leaves_no_calibration_behind(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """Whoever mends the data must not go on with what was found on the old."""
    words = ["quantize", digits, "-o", tmp_path / "none", "--activations", "int8", "--samples", 8]
    had = {*tmp_path.rglob("*")}
    refused(armnet(*words, "--data", DEMO / "held_back.npz", "--snr", 300), "does not meet the demands")
    assert {*tmp_path.rglob("*")} == had


def layer_facts(name: str, alone: float) -> Dict[str, Any]:
    """What ``armnet quantize --json`` says of a layer."""
    facts = {"layer": name, "weights": "int8", "activations": "float32", "snr": 40.0, "alone": alone}
    return {
        **facts,
        "nbytes": {"before": 400, "after": 100},
        "steps": ["bias corrected"],
        "reason": "it makes the outputs too noisy",
    }


def facts_of(layers: List[Dict[str, Any]]) -> Dict[str, Any]:
    """What it says of a pair of these layers."""
    weights = {"before": 400, "after": 100}
    return {
        "pair": "small",
        "weights_nbytes": weights,
        "files_nbytes": {"before": 5100, "after": 2300},
        "unzipped_nbytes": None,
        "output_snr": 26.0,
        "sure_snr": 25.1,
        "metrics": None,
        "layers": layers,
        "notes": [],
    }


def test_of_layers_that_lie_close_the_worst_is_named() -> None:
    near = {"good": 60.0, "third": 30.2, "worst": 30.0, "second": 30.1}
    plot = render(facts_of([layer_facts(*one) for one in near.items()])).split("<svg")[1].split("</svg>")[0]
    assert [name for name in near if f">{name}</text>" in plot] == ["worst"]


def test_the_page_says_what_the_command_says() -> None:
    """Bytes of files, what is expected of other data, how many layers are wider, and whole notes."""
    facts = facts_of([layer_facts("conv", 30.0)])
    facts["notes"] = [note := " ".join(["layers stay float"] * 12)]
    page = render(facts)
    for said in ("2.3 kB", "of files, 5.1 kB before", "probably 25.1 or more on other data", "1 of 1", note):
        assert said in page
    assert "on the data given" in render({**facts, "sure_snr": None})


def test_the_page_shows_what_each_layer_does_to_the_outputs(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    """Also where no layer has to stay float; without data, only how coarsely weights are rounded is known."""
    words = ["quantize", digits, "-o", tmp_path / "small", "--html", tmp_path / "page.html", "--json"]
    data = ["--data", DEMO / "held_back.npz", "--samples", 4]
    for mode in (["--weights", "int4"], ["--activations", "int8", "--snr", "none"]):
        status, out, _ = armnet(*words, *mode, *data)
        assert status == 0
        assert all(row["alone"] for row in json.loads(out)["layers"])
        assert "Low points do the most harm" in (tmp_path / "page.html").read_text()
    assert armnet(*words)[0] == 0
    assert "Low points are rounded most coarsely" in (tmp_path / "page.html").read_text()


LETTERS = "[...document.querySelectorAll('svg text')]"


@pytest.mark.skipif(program() is None, reason="there is no Chromium: apt-get install chromium")
def test_the_page_is_as_narrow_as_a_phone(tmp_path: Path) -> None:
    """Converted networks have names of hundreds of letters without a space."""
    name = "model/batch_normalization/FusedBatchNormV3;" * 4
    facts = facts_of([layer_facts(name, 30.0)])
    facts["notes"] = [f"Add({name}) -> {name} stays float: its operands are floats"]
    page = tmp_path / "page.html"
    page.write_bytes(render(facts).encode())
    with chromium(tmp_path) as browser:
        browser.resize(400, 900)
        browser.go(page.as_uri())
        assert browser.value("document.documentElement.scrollWidth") <= 400
        assert browser.value(f"Math.min(...{LETTERS}.map(one => parseFloat(getComputedStyle(one).fontSize)))") >= 11
        assert browser.value(f"Math.min(...{LETTERS}.map(one => one.getScreenCTM().a))") >= 0.9  # of their size
