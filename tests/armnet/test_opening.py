"""Which files make up a model; commands take them as pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List

import numpy as np
import pytest

import armnet
from armnet.model_files import completed, models_in, split
from runtime_arm.app.evidence import facts_of
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO


@pytest.mark.parametrize(
    ("paths", "models"),
    [
        (["a.onnx"], [["a.onnx"]]),
        (["a.onnx", "pair"], [["a.onnx"], ["pair"]]),
        (["a.prototxt", "b.caffemodel"], [["a.prototxt", "b.caffemodel"]]),
        (["b.caffemodel", "a.prototxt", "pair"], [["b.caffemodel", "a.prototxt"], ["pair"]]),
        (["init_net.pb", "predict_net.pb", "pair"], [["init_net.pb", "predict_net.pb"], ["pair"]]),
        (
            ["1.prototxt", "2.prototxt", "2.caffemodel", "1.caffemodel"],
            [["1.prototxt", "1.caffemodel"], ["2.prototxt", "2.caffemodel"]],
        ),
    ],
)
def test_files_are_sorted_into_models(paths: List[str], models: List[List[str]]) -> None:
    assert models_in(paths) == models


def test_a_folder_of_caffe_stages_stands_for_their_files(tmp_path: Path) -> None:
    for name in ("det1.prototxt", "det1.caffemodel", "det2.prototxt", "det2.caffemodel"):
        (tmp_path / name).touch()
    assert [sorted(files) for files in models_in([tmp_path])] == [
        [tmp_path / f"det{stage}.caffemodel", tmp_path / f"det{stage}.prototxt"] for stage in (1, 2)
    ]
    (tmp_path / "other.onnx").touch()
    assert models_in([tmp_path]) == [[tmp_path]]


def test_the_files_of_a_model_go_before_its_inputs() -> None:
    assert split(["net.prototxt", "net.caffemodel", "cat.jpg"]) == (["net.prototxt", "net.caffemodel"], ["cat.jpg"])
    assert split(["net.onnx", "x.pb"]) == (["net.onnx"], ["x.pb"])


def test_what_belongs_to_a_file_is_found_beside_it(tmp_path: Path) -> None:
    net, weights = tmp_path / "deploy.prototxt", tmp_path / "trained.caffemodel"
    net.touch()
    assert completed([net]) == [net]
    weights.touch()
    for given in (net, weights, tmp_path):
        assert sorted(completed([given])) == [net, weights]
    (tmp_path / "deploy.caffemodel").touch()  # of two, the one of the same name
    assert completed([net]) == [net, tmp_path / "deploy.caffemodel"]
    (tmp_path / "other.prototxt").touch()
    assert completed([tmp_path / "other.prototxt"]) == [tmp_path / "other.prototxt"]
    with pytest.raises(armnet.ArmnetError, match=r"several models, deploy\.prototxt, other\.prototxt"):
        completed([tmp_path])


@pytest.mark.parametrize("command", ["inspect", "profile", "bench", "describe", "doctor"])
def test_commands_take_source_files_as_pairs(armnet: Armnet, command: str) -> None:
    pytest.importorskip("onnx", reason="exporting needs onnx")
    words = {"bench": ["--runs", 1], "profile": ["--rounds", 1]}.get(command, [])
    status, out, _ = armnet(command, DEMO / "digits.onnx", *words, "--json")
    assert status == 0
    assert "Conv" in out or command not in ("inspect", "profile")


def test_commands_that_write_take_source_files_as_pairs(armnet: Armnet, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="exporting needs onnx")
    for command in ("optimize", "quantize", "pack"):
        target = tmp_path / (command + (".pyz" if command == "pack" else ""))
        assert armnet(command, DEMO / "digits.onnx", "-o", target, "--json")[0] == 0
        assert armnet("run", target, DEMO / "pictures" / "digit_3.png")[0] == 0
    refused(armnet("inspect", tmp_path / "nowhere.onnx"), "nowhere.onnx")
    refused(armnet("inspect", tmp_path / "nowhere"), "nowhere: no such folder")
    refused(armnet("describe", DEMO / "digits.onnx", "--task", "classes"), "only a pair can be changed")


def test_a_picture_of_open_size_has_that_of_the_preprocessing(armnet: Armnet, tmp_path: Path) -> None:
    net = NetDef.from_text('net "": data, w -> y\n Conv(data, w) -> y  kernel=3')
    weights = NetDef("init", (fill("w", np.ones((1, 3, 3, 3), np.float32)),))
    info = TensorInfo("data", ("n", 3, "h", "w"), "float32")
    Pair(weights, net, (info,), meta={"preprocessing": {"resize": [8, 6]}}).save(tmp_path / "pair")
    assert json.loads(armnet("inspect", tmp_path / "pair", "--json")[1])["operators"][0]["shape"] == [1, 1, 6, 4]
    given = armnet("inspect", tmp_path / "pair", "--json", "--shape", "data=1,3,5,5")
    assert json.loads(given[1])["operators"][0]["shape"] == [1, 1, 3, 3]
    for command in (["profile", "--rounds", 1], ["bench", "--runs", 1], ["doctor"]):
        assert armnet(command[0], tmp_path / "pair", *command[1:])[0] == 0


def test_what_reshapes_give_besides_is_no_output_that_means_something(tmp_path: Path) -> None:
    net = NetDef.from_text('net "": x -> y, old\n Relu(x) -> a\n Reshape(a) -> y, old  shape=[1, 6]')
    pair = Pair(NetDef("init"), net, (TensorInfo("x", (1, 2, 3), "float32"),))
    assert [output.name for output in facts_of(pair).outputs] == ["y"]
