"""``armnet describe``: what a pair takes and what its outputs mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime_arm import Pair
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO


@pytest.fixture
def pair(armnet: Armnet, tmp_path: Path) -> Path:
    assert armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "pair")[0] == 0
    return tmp_path / "pair"


def test_what_a_net_shows_is_stored_at_export_and_told(armnet: Armnet, pair: Path) -> None:
    status, out, _ = armnet("describe", pair, "--json")
    facts = json.loads(out)
    assert status == 0
    assert (facts["result"], facts["decoder"], facts["stored"]) == ("classes", "classes", ["result"])
    assert facts["parameters"]["classes"] == 10
    assert "classes" in armnet("describe", pair)[1]


def test_labels_preprocessing_and_parameters_are_stored(armnet: Armnet, pair: Path) -> None:
    words = ["--labels", DEMO / "labels.txt", "--preprocessing", "0..1", "--set", "threshold=0.5", "outputs.more=x"]
    assert armnet("describe", pair, *words)[0] == 0
    meta = Pair.load(pair).meta
    assert meta["preprocessing"] == {"scale": 1 / 255}
    assert len(meta["labels"]) == 10
    assert meta["result"]["threshold"] == 0.5
    assert meta["result"]["outputs"]["more"] == "x"
    picture = DEMO / "pictures" / "digit_7.png"
    status, out, err = armnet("run", pair, picture)
    assert status == 0
    assert out.splitlines()[1].split()[1] == "7"
    assert "no preprocessing" not in err
    assert "8x8 GRAY" in err


def test_an_export_over_a_pair_keeps_what_was_stored_and_says_so(armnet: Armnet, pair: Path) -> None:
    armnet("describe", pair, "--labels", DEMO / "labels.txt", "--preprocessing", "0..1")
    status, _, err = armnet("export", DEMO / "digits.onnx", "-o", pair)
    assert status == 0
    assert "labels, preprocessing of the pair that was there kept" in err
    assert len(Pair.load(pair).meta["labels"]) == 10


def test_a_preset_at_export_is_stored(armnet: Armnet, tmp_path: Path) -> None:
    assert armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "p", "--preprocessing", "-1..1")[0] == 0
    assert Pair.load(tmp_path / "p").meta["preprocessing"] == {"mean": 127.5, "std": 127.5}
    (tmp_path / "rule.json").write_text('{"scale": 0.5}')
    words = ["--preprocessing", tmp_path / "rule.json", "--task", "tensors"]
    assert armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "q", *words)[0] == 0
    assert Pair.load(tmp_path / "q").meta["preprocessing"] == {"scale": 0.5}
    assert Pair.load(tmp_path / "q").meta["result"]["decoder"] == "tensors"


def test_mistakes_are_one_line_and_change_nothing(armnet: Armnet, pair: Path, tmp_path: Path) -> None:
    before = (pair / "model.json").read_bytes()
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    refused(armnet("describe", pair, "--task", "juggling"), "no task 'juggling'", "classes")
    refused(armnet("describe", pair, "--task", "boxes"), "name the decoder", "yolov8")
    refused(armnet("describe", pair, "--set", "threshold"), "KEY=VALUE")
    refused(armnet("describe", pair, "--preprocessing", "sepia"), "sepia", "imagenet")
    refused(armnet("describe", pair, "--labels", tmp_path / "labels.txt"), "2 labels, the net has 10 classes")
    refused(armnet("describe", DEMO / "digits.onnx", "--task", "classes"), "only a pair")
    assert (pair / "model.json").read_bytes() == before


def test_wrong_labels_are_refused_at_export_and_run(armnet: Armnet, pair: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    refused(
        armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "p", "--labels", tmp_path / "labels.txt"), "2 labels"
    )
    picture = DEMO / "pictures" / "digit_7.png"
    refused(armnet("run", pair, picture, "--labels", tmp_path / "labels.txt"), "2 labels, the net has 10 classes")


def test_classes_that_the_decoder_names_are_not_said_to_lack_labels(armnet: Armnet, tmp_path: Path) -> None:
    net = NetDef.from_text('net "": x -> y\n Sigmoid(x) -> y')
    Pair(NetDef("init"), net, (TensorInfo("x", (1, 1, 8, 8), "float32"),)).save(tmp_path / "net")
    seven = DEMO / "pictures" / "digit_7.png"
    status, out, err = armnet("run", tmp_path / "net", seven, "--task", "mask", "--preprocessing", "0..1")
    assert status == 0
    assert "foreground" in out
    assert "--labels" not in err
