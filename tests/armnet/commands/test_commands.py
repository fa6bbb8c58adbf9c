"""The commands, as a user types them."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import numpy as np
import onnx
import pytest

from armnet.commands import COMMANDS
from runtime_arm import files
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.exporter.caffe import models as caffe
from tests.exporter.onnx.models import one_node
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO


def test_the_overview_lists_the_commands(armnet: Armnet) -> None:
    for words in ((), ("--help",)):
        status, out, _ = armnet(*words)
        assert status == 0
        assert all(command in out for command in COMMANDS)


def test_ten_pictures_are_read(armnet: Armnet, digits: Path) -> None:
    pictures = sorted((DEMO / "pictures").glob("*.png"))
    status, out, _ = armnet("run", digits, "--json", "--top", 1, "--input", *pictures)
    assert status == 0
    runs = json.loads(out)["runs"]
    assert [run["top"][0]["label"] for run in runs] == [picture.stem.split("_")[1] for picture in pictures]


def test_arrays_go_in_and_come_out_by_name(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    held_back = np.load(DEMO / "held_back.npz")
    np.savez(tmp_path / "in.npz", image=held_back["images"])
    np.save(tmp_path / "in.npy", held_back["images"])
    for given in ("in.npz", "in.npy", f"image={tmp_path / 'in.npy'}"):
        word = given if "=" in given else tmp_path / given
        assert armnet("run", digits, "--input", word, "--output", tmp_path / "out.npz", "--threads", 1)[0] == 0
        answers = np.load(tmp_path / "out.npz")["probabilities"].argmax(axis=1)
        assert np.mean(answers == held_back["labels"]) >= 0.97


def test_several_pictures_are_stacked_in_the_output(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    pictures = sorted((DEMO / "pictures").glob("*.png"))[:3]
    assert (
        armnet("run", digits, "--input", *pictures, "--output", tmp_path / "out.npz", "--keep", "probabilities")[0] == 0
    )
    assert np.load(tmp_path / "out.npz")["probabilities"].shape == (3, 1, 10)


def test_compare_finds_no_difference_in_an_exported_pair(armnet: Armnet, digits: Path) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    status, out, _ = armnet("compare", DEMO / "digits.onnx", digits, "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["agree"]
    assert facts["blobs"] > 10
    status, out, _ = armnet("compare", DEMO / "digits.onnx", digits, "--input", DEMO / "pictures" / "digit_7.png")
    assert status == 0
    assert "agree" in out


def test_names_with_line_breaks_are_refused_in_one_line(armnet: Armnet, tmp_path: Path) -> None:
    onnx.save(one_node("Un\nheard", [np.zeros(2, np.float32)]), tmp_path / "m.onnx")
    refused(armnet("export", tmp_path / "m.onnx", "-o", tmp_path / "pair"), r"node 'un\nheard' (Un\nheard)")


def test_compare_asks_for_open_sizes(armnet: Armnet, tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    onnx.save(
        one_node("MaxPool", [np.zeros((1, 1, 9, 9), np.float32)], shapes=[["n", 1, "h", "w"]], kernel_shape=[3, 3]),
        source,
    )
    assert armnet("export", source, "-o", tmp_path / "pair")[0] == 0
    refused(
        armnet("compare", source, tmp_path / "pair"),
        "open sizes of input 'a' (n, 1, h, w) were taken as 1; give --shape a=N,N,...",
    )
    assert armnet("compare", source, tmp_path / "pair", "--shape", "a=1,1,9,9")[0] == 0


def test_sizes_beyond_memory_are_refused(armnet: Armnet, digits: Path) -> None:
    refused(
        armnet("inspect", digits, "--shape", "image=99999999999,1,99999999,8"),
        "input 'image' of shape (99999999999, 1, 99999999, 8) needs",
    )


def test_compare_names_the_first_blob_that_diverges(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs onnxruntime")
    from runtime_arm import Pair

    pair = Pair.load(digits)
    at, conv = next((i, op) for i, op in enumerate(pair.predict_net.op) if op.type == "Conv")
    wrong = conv.with_args(pads=[0, 0, 2, 2])
    broken = pair.replace(
        predict_net=pair.predict_net.replace(op=(*pair.predict_net.op[:at], wrong, *pair.predict_net.op[at + 1 :]))
    )
    broken.save(tmp_path / "broken")
    status, out, _ = armnet("compare", DEMO / "digits.onnx", tmp_path / "broken", "--json")
    assert status == 1
    assert json.loads(out)["first"]["blob"] == conv.output[0]
    assert json.loads(out)["first"]["cause"]


def test_inspect_lists_operators_and_totals(armnet: Armnet, digits: Path) -> None:
    status, out, _ = armnet("inspect", digits, "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["multiply_adds"] == sum(row["multiply_adds"] for row in facts["operators"]) > 1e5
    assert facts["arena_nbytes"] >= facts["liveness_peak_nbytes"] > 0
    doubled = json.loads(armnet("inspect", digits, "--json", "--shape", "image=2,1,8,8")[1])
    assert doubled["multiply_adds"] == 2 * facts["multiply_adds"]
    assert "Conv(" in armnet("inspect", digits, "--net")[1]
    assert "multiply-adds" in armnet("inspect", digits)[1]


def test_support_answers_before_conversion(armnet: Armnet, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="support reads ONNX files")
    status, out, _ = armnet("support", DEMO / "digits.onnx")
    assert status == 0
    assert "every operator" in out
    node = onnx.helper.make_node("Frobnicate", ["x"], ["y"], domain="nowhere")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1])], [value("y", 1, [1])])
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "odd.onnx"))
    status, out, _ = armnet("support", tmp_path / "odd.onnx", "--json")
    assert status == 1
    assert not json.loads(out)["supported"]
    refused(armnet("export", tmp_path / "odd.onnx", "-o", tmp_path / "odd"), "odd.onnx", "Frobnicate")
    assert not (tmp_path / "odd").exists()


def test_pack_makes_a_file_that_runs(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "digits.pyz"
    assert armnet("pack", digits, "-o", bundle, "--sample", DEMO / "pictures" / "digit_3.png")[0] == 0
    done = subprocess.run(
        [sys.executable, str(bundle), str(DEMO / "pictures" / "digit_5.png"), "--top", "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "5"
    assert subprocess.run([sys.executable, str(bundle), "--self-test"], check=False, cwd=tmp_path).returncode == 0


def test_unsuitable_inputs_are_refused(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rank.npy", np.zeros((8, 8), np.float32))
    np.save(tmp_path / "dtype.npy", np.zeros((1, 1, 8, 8)))
    np.save(tmp_path / "channels.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.savez(tmp_path / "names.npz", picture=np.zeros((1, 1, 8, 8), np.float32))
    (tmp_path / "noise.npy").write_bytes(b"\x93NUMPY" + bytes(50))
    (tmp_path / "noise.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    refused(armnet("run", digits, "--input", tmp_path / "rank.npy"), "image", "4 dimensions")
    refused(armnet("run", digits, "--input", tmp_path / "dtype.npy"), "float32", "float64")
    refused(armnet("run", digits, "--input", tmp_path / "channels.npy"), "Conv", "declared (batch, 1, 8, 8)")
    refused(armnet("run", digits, "--input", tmp_path / "names.npz"), "picture", "image")
    refused(armnet("run", digits, "--input", f"other={tmp_path / 'rank.npy'}"), "'other'", "image")
    refused(armnet("run", digits, "--input", tmp_path / "noise.npy"), "noise.npy")
    refused(armnet("run", digits, "--input", tmp_path / "noise.png"), "noise.png")
    refused(armnet("run", digits, "--input", tmp_path / "nowhere.npy"), "nowhere.npy")
    refused(armnet("run", digits, "--input", DEMO / "pictures" / "digit_1.png", "--mean", 1, 2, 3), "mean")
    refused(armnet("run", digits, "--input", tmp_path / "rank.npy", "--threads", 0), "threads")
    refused(armnet("run", tmp_path / "nowhere", "--input", tmp_path / "rank.npy"), "nowhere")


def test_bad_models_are_refused_and_nothing_is_written(armnet: Armnet, tmp_path: Path) -> None:
    good = (DEMO / "digits.onnx").read_bytes()
    for name, content in {"empty": b"", "truncated": good[: len(good) // 2], "noise": bytes(range(256)) * 10}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        refused(armnet("export", path, "-o", tmp_path / "pair"), path.name)
        refused(armnet("support", path), path.name)
    refused(armnet("export", tmp_path / "nowhere.onnx", "-o", tmp_path / "pair"), "nowhere.onnx")
    refused(armnet("export", tmp_path / "model.xyz", "-o", tmp_path / "pair"), "model.xyz")
    refused(armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "pair", "--preprocessing", "{"), "JSON")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.onnx", "noise.onnx", "truncated.onnx"]


def test_a_pair_is_written_into_a_folder_of_its_own(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "predict_net.pb").write_bytes(b"Caffe2's")
    for words in (
        ("export", DEMO / "digits.onnx"),
        ("export", digits, "--to", "caffe2"),
        ("optimize", digits),
        ("quantize", digits),
        ("train", digits, "--data", DEMO / "held_back.npz"),
        ("teach", digits, "--data", DEMO),
    ):
        refused(
            armnet(*words, "-o", tmp_path), "holds predict_net.pb, but not a pair of armnet's", str(tmp_path / "pair")
        )
        for place in (tmp_path / "notes.txt", tmp_path / "notes.txt" / "pair"):
            refused(armnet(*words, "-o", place), f"{tmp_path / 'notes.txt'}: is a file, not a folder")
    refused(armnet("export", DEMO / "digits.onnx", "-o", tmp_path / ("long" * 200)), "File name too long")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "predict_net.pb"]


def test_a_pair_replaces_the_pair_that_was_there_but_no_net_of_another(
    armnet: Armnet, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / ".gitignore").touch()
    for _ in range(2):
        assert armnet("export", DEMO / "digits.onnx", "-o", tmp_path)[0] == 0
    assert armnet("optimize", tmp_path, "-o", tmp_path)[0] == 0
    (tmp_path / "model.json").unlink()
    refused(armnet("optimize", tmp_path, "-o", tmp_path), "init_net.pb and predict_net.pb", "not a pair of armnet's")


def test_a_folder_is_no_file_to_write(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    refused(armnet("pack", digits, "-o", tmp_path), "is a folder; name a file")
    refused(armnet("export", digits, "--to", "onnx", "-o", tmp_path), "is a folder; name a file")


def test_a_name_of_another_formats_file_is_no_pair_to_write(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    for name, writes in (
        ("net.onnx", "armnet export MODEL --to onnx -o "),
        ("net.TFLITE", "armnet export MODEL --to tflite -o "),
        ("net.pyz", "armnet pack PAIR -o "),
    ):
        target = tmp_path / name
        for words in (("export", DEMO / "digits.onnx"), ("optimize", digits), ("quantize", digits)):
            refused(armnet(*words, "-o", target), "a pair is a folder or a .zip", f"{writes}{target}")
    for kind, name in (("tflite", "net.onnx"), ("onnx", "net.tflite"), ("caffe2", "net.pyz")):
        refused(
            armnet("export", digits, "--to", kind, "-o", tmp_path / name), f"--to {kind} does not write such a file"
        )
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_left_out_is_not_called_required(armnet: Armnet) -> None:
    for command, required in (("run", "PAIR"), ("standin", "ACTION")):
        refused(armnet(command), f"the following arguments are required: {required};")


def test_support_takes_the_folder_of_a_model_as_export_does(armnet: Armnet, tmp_path: Path) -> None:
    shutil.copy(DEMO / "digits.onnx", tmp_path)
    assert armnet("support", tmp_path) == armnet("support", DEMO / "digits.onnx")
    (tmp_path / "other.tflite").touch()
    refused(armnet("support", tmp_path), "holds several models, digits.onnx, other.tflite")


def test_the_command_that_pack_prints_starts_the_bundle(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    target = tmp_path / "my app.pyz"
    _, out, _ = armnet("pack", digits, "-o", target)
    words = shlex.split(out.partition("run it with: ")[2])
    assert words == ["python3", str(target), "FILE"]


def test_a_misspelled_command_is_told_with_the_one_that_is_meant(armnet: Armnet) -> None:
    _, _, told = armnet("exprot", "model.onnx")
    assert told == "armnet: there is no command 'exprot'; did you mean 'export'? armnet --help tells more\n"
    refused(armnet("frobnicate"), "there are export, models", "armnet --help")
    assert "did you mean '--version'?" in armnet("version")[2]


def test_help_is_a_word_too(armnet: Armnet) -> None:
    assert armnet("help") == armnet("--help") == armnet()
    assert armnet("help", "run") == armnet("run", "--help")
    refused(armnet("help", "rnu"), "did you mean 'run'?")


def test_an_output_that_cannot_be_written_is_refused(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused(armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "file"), "file")
    refused(armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "file" / "pair"), "file")
    picture = DEMO / "pictures" / "digit_1.png"
    refused(
        armnet("run", digits, "--input", picture, "--output", tmp_path / "nowhere" / "out.npz"), "there is no folder"
    )
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_refused(armnet: Armnet, digits: Path) -> None:
    refused(
        armnet("run", digits, "--input", DEMO / "pictures" / "digit_1.png", "--output", "/dev/full"),
        "/dev/full",
        "space",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_standard_output_is_refused(digits: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "armnet", "inspect", str(digits)],
            cwd=DEMO.parent,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "armnet: standard output: No space left on device\n"


def test_output_that_nobody_reads_is_no_success(digits: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["evaluate", str(digits), str(DEMO / "held_back.npz"), "--must", "top1=1"]
    done = subprocess.run(
        [sys.executable, "-m", "armnet", *words],
        cwd=DEMO.parent,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr


def test_a_damaged_pair_is_refused(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    import shutil

    for name in ("init_net.pb", "predict_net.pb", "model.json"):
        pair = tmp_path / f"damaged_{name}"
        shutil.copytree(digits, pair)
        data = bytearray((pair / name).read_bytes())
        data[len(data) // 2] ^= 0xFF
        (pair / name).write_bytes(data)
        refused(armnet("inspect", pair), name)


def test_open_sizes_are_asked_for(armnet: Armnet, tmp_path: Path) -> None:
    net = NetDef.from_text('net "": data, w -> y\n Conv(data, w) -> y  kernel=3')
    weights = NetDef("init", (fill("w", np.ones((1, 1, 3, 3), np.float32)),))
    Pair(weights, net, (TensorInfo("data", ("n", 1, "h", "w"), "float32"),)).save(tmp_path / "open")
    refused(armnet("inspect", tmp_path / "open"), "Conv(data, w) -> y", "--shape data=N,N,...")
    for command in ("inspect", "profile", "bench"):
        refused(armnet(command, tmp_path / "open", "--shape", "date=1,1,8,8"), "no input 'date'; the net takes data")
        refused(armnet(command, tmp_path / "open", "--shape", "data=1,1,8,-8"), "--shape data=1,1,8,-8")
        status, _, err = armnet(command, tmp_path / "open", "--shape", "data=1,1,2,2")
        assert status == 2
        assert "the kernel spans" in err
        assert "--shape" not in err
    assert armnet("inspect", tmp_path / "open", "--shape", "data=1,1,8,8")[0] == 0


@pytest.mark.parametrize("command", [["inspect"], ["profile"], ["bench", "--runs", "1", "--threads", "1"]])
def test_ignored_tunings_are_reported_and_open_sizes_reported_or_refused(
    armnet: Armnet, tmp_path: Path, command: List[str]
) -> None:
    net = NetDef.from_text('net "": data -> y\n Relu(data) -> y')
    Pair(NetDef("init"), net, (TensorInfo("data", ("n", 1, "h", 8), "float32"),)).save(tmp_path / "open")
    (tmp_path / "open/tuning.json").write_text("{")
    status, _, err = armnet(command[0], tmp_path / "open", *command[1:])
    if command == ["inspect"]:
        assert (
            "open sizes of input 'data' (n, 1, h, 8) are taken as 1; to change that, give --shape data=N,N,..." in err
        )
    else:
        assert (status, len(err.splitlines())) == (2, 1)
        assert "input 'data' (n, 1, h, 8) leaves sizes open, and times depend on them: give --shape data=N,N,..." in err
    status, _, err = armnet(command[0], tmp_path / "open", *command[1:], "--shape", "data=1,1,2,8")
    assert status == 0
    assert "tuning.json is ignored: it is damaged" in err
    assert "open sizes" not in err


def test_a_negative_top_is_refused(armnet: Armnet, digits: Path) -> None:
    picture = next((DEMO / "pictures").glob("*.png"))
    refused(armnet("run", digits, "--input", picture, "--top", -1), "--top must be 0 or more, got -1")


def test_of_a_models_files_one_is_enough(armnet: Armnet, tmp_path: Path) -> None:
    layer = """layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 2 } }"""
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    caffe.pair_of(tmp_path, caffe.net(layer, dims=(1, 3)), {"y": [weights, np.zeros(2)]})
    files = ["net.prototxt", "net.caffemodel"]
    for number, given in enumerate([files, files[:1], files[1:]]):
        status, _, told = armnet("export", *(tmp_path / name for name in given), "-o", tmp_path / str(number))
        assert status == 0
        found = files if len(given) == 1 else given
        assert all((f"with {tmp_path / name}" in told) == (name in found and name not in given) for name in files)
    first, *others = (Pair.load(tmp_path / str(number)) for number in range(3))
    assert all(other.digest == first.digest for other in others)
    (tmp_path / "alone").mkdir()
    for name in files:
        (tmp_path / name).rename(tmp_path / "alone" / name)
    assert armnet("export", tmp_path / "alone", "--to", "onnx", "-o", tmp_path / "net.onnx")[0] == 0
    assert Pair.load(tmp_path / "0").outputs[0].name == onnx.load(tmp_path / "net.onnx").graph.output[0].name


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ('{"resize": [8, -8]}', "resize"),
        ('{"channels": "RBG"}', "channels"),
        ('{"rezise": 8}', "rezise"),
        ('{"std": [0.0]}', "std"),
        ('{"scale": "loud"}', "scale"),
    ],
)
def test_preprocessing_is_checked_at_export(armnet: Armnet, tmp_path: Path, rule: str, complaint: str) -> None:
    refused(armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "digits", "--preprocessing", rule), complaint)
    assert not (tmp_path / "digits").exists()


def test_a_full_disk_is_reported_with_the_path_that_the_user_gave(
    armnet: Armnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, chunks: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    outcome = armnet("export", DEMO / "digits.onnx", "-o", tmp_path / "digits")
    refused(outcome, f"{tmp_path / 'digits' / 'init_net.pb'}: No space left on device")
    assert list(tmp_path.iterdir()) == []
