"""Caffe's own files: data layers of every source, tests, snapshots, and going on from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from armnet.__main__ import main
from exporter.caffe.blob import Blob
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ArmnetError
from tests.training.teach.test_teach import drawn
from training.caffe import Net, Solver
from training.caffe.course import Course
from training.caffe.data.records import datum_record
from training.caffe.data.transform import Transform
from training.caffe.files import parsed, weights_of

NET = """
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.01 mean_value: 128 }
  data_param { source: "train.npz" batch_size: 6 backend: LMDB } }
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.01 mean_value: 128 }
  data_param { source: "train.npz" batch_size: 10 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 6 kernel_size: 3
  weight_filler { type: "msra" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: MAX global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 2
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "fc" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """
net: "net.prototxt" base_lr: 0.05 lr_policy: "step" stepsize: 15 gamma: 0.5 momentum: 0.9 weight_decay: 0.001
max_iter: 30 display: 10 test_iter: 2 test_interval: 30 test_initialization: false snapshot: 20 snapshot_prefix: "%s/s"
random_seed: 4
"""


def pictures(count: int = 20) -> Any:
    """Bars along one of two directions, (N, 1, 9, 9) uint8, and which."""
    random = np.random.RandomState(2)
    labels = np.arange(count) % 2
    values = random.randint(90, 110, (count, 1, 9, 9))
    for picture, label, at in zip(values, labels, random.randint(1, 8, count)):
        picture[0][(at, slice(None)) if label else (slice(None), at)] += 100
    return values.astype(np.uint8), labels


@pytest.fixture
def place(tmp_path: Path) -> Path:
    values, labels = pictures()
    np.savez(tmp_path / "train.npz", data=values, label=labels)
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER % tmp_path)
    return tmp_path


def weights(net: Net) -> List[Any]:
    return [blob.data.copy() for blobs in net.params.values() for blob in blobs]


def same(a: List[Any], b: List[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))


def test_it_is_the_solver_fed_with_batch_after_batch(place: Path) -> None:
    said: List[str] = []
    course = Course(place / "solver.prototxt", say=said.append)
    course.run()
    values, labels = pictures()
    x = (values.astype(np.float32) - 128) * np.float32(0.01)
    inputs = (
        'layer { name: "d" type: "Input" top: "data" top: "label" input_param { shape { dim: 6 dim: 1 dim: 9 dim: 9 }'
    )
    text = inputs + " shape { dim: 6 } } }" + NET[NET.index('layer { name: "conv"') :]
    solver = Solver(SOLVER, text)
    for step in range(30):
        rows = np.arange(step * 6, step * 6 + 6) % 20
        solver.step({"data": x[rows], "label": labels[rows]})
    assert same(weights(course.solver.net), weights(solver.net))
    assert [line.split(":")[0] for line in said] == [
        "iteration 0",
        "iteration 10",
        "iteration 20",
        "iteration 20",
        "iteration 30",
        "iteration 30",
    ]
    assert "iteration 30: test: accuracy" in said[-1]
    assert course.test()[0]["accuracy"] >= 0.9


def test_killed_it_goes_on_from_the_newest_snapshot(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solver = str(place / "solver.prototxt")
    assert main(["train", "--solver", solver]) == 0
    expected = (place / "s_iter_30.caffemodel").read_bytes()
    for name in ("s_iter_30.caffemodel", "s_iter_30.solverstate"):
        (place / name).unlink()
    capsys.readouterr()
    assert main(["train", "--solver", solver, "--snapshot", "latest"]) == 0
    assert "s_iter_20.solverstate, iteration 20" in capsys.readouterr().out
    assert (place / "s_iter_30.caffemodel").read_bytes() == expected
    assert list(weights_of(expected)) == ["conv", "fc"]


def test_snapshots_in_hdf5_go_on_to_the_same_weights(place: Path, capsys: Any) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs the package h5py")
    text = (SOLVER % place) + "snapshot_format: HDF5 snapshot_diff: true\n"
    (place / "solver.prototxt").write_text(text)
    solver = str(place / "solver.prototxt")
    assert main(["train", "--solver", solver]) == 0
    expected = weights_of(place / "s_iter_30.caffemodel.h5")
    for name in ("s_iter_30.caffemodel.h5", "s_iter_30.solverstate.h5"):
        (place / name).unlink()
    capsys.readouterr()
    assert main(["train", "--solver", solver, "--snapshot", "latest"]) == 0
    assert "s_iter_20.solverstate.h5, iteration 20" in capsys.readouterr().out
    found = weights_of(place / "s_iter_30.caffemodel.h5")
    assert list(found) == list(expected) == ["conv", "fc"]
    for name in found:
        for one, other in zip(found[name], expected[name]):
            assert np.array_equal(one.data, other.data)
    with h5py.File(place / "s_iter_30.solverstate.h5", "r") as file:
        assert sorted(file) == ["current_step", "history", "iter", "learned_net"]
        assert (file["iter"][()].tolist(), len(file["history"])) == ([30], 4)
    with h5py.File(place / "s_iter_30.caffemodel.h5", "r") as file:
        assert sorted(file) == ["data", "diff"]


def test_an_lmdb_gives_what_the_arrays_give(place: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="an LMDB needs the package lmdb")
    values, labels = pictures()
    with lmdb.open(str(place / "train_lmdb"), map_size=1 << 24) as database, database.begin(write=True) as transaction:
        for number, (picture, label) in enumerate(zip(values, labels)):
            datum = message_class("Datum")(channels=1, height=9, width=9, data=picture.tobytes(), label=int(label))
            transaction.put(f"{number:08}".encode(), datum.SerializeToString())
    first, second = (
        Course(place / "solver.prototxt"),
        Course(place / "solver.prototxt", data={"": str(place / "train_lmdb")}),
    )
    for course in (first, second):
        course.proto.max_iter = 5
        course.run()
    assert same(weights(first.solver.net), weights(second.solver.net))


def test_hdf5_and_input_layers_give_their_tops(place: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs the package h5py")
    values, labels = pictures()
    with h5py.File(place / "a.h5", "w") as file:
        file["data"], file["label"] = values.astype(np.float32) / 255, labels
    (place / "list.txt").write_text("a.h5\n")
    np.savez(place / "same.npz", data=values.astype(np.float32) / 255, label=labels)
    rest = NET[NET.index('layer { name: "conv"') : NET.index('layer { name: "accuracy"')]
    shape = "shape { dim: 4 dim: 1 dim: 9 dim: 9 } shape { dim: 4 }"
    heads = [
        'layer { name: "d" type: "HDF5Data" top: "data" top: "label" '
        'hdf5_data_param { source: "list.txt" batch_size: 4 } }',
        f'layer {{ name: "d" type: "Input" top: "data" top: "label" input_param {{ {shape} }} }}',
    ]
    text = (
        (SOLVER % place)
        .replace("test_iter: 2", "")
        .replace("test_interval: 30", "")
        .replace("max_iter: 30", "max_iter: 6")
    )
    (place / "solver.prototxt").write_text(text)
    found = []
    for head, data in zip(heads, ({}, {"d": str(place / "same.npz")})):
        (place / "net.prototxt").write_text(head + rest)
        course = Course(place / "solver.prototxt", data=data)
        course.run()
        found.append(weights(course.solver.net))
    assert same(*found)


def test_folders_and_lists_of_pictures_are_records(place: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    folder = drawn(place / "data", "across", "down", count=8)
    crop = "transform_param { crop_size: 24 mirror: true mean_value: 60 mean_value: 50 mean_value: 40 }"
    text = NET.replace("transform_param { scale: 0.01 mean_value: 128 }", crop)
    (place / "net.prototxt").write_text(text)
    course = Course(place / "solver.prototxt", data={"d": str(folder)})
    assert course.solver.net.blobs["data"].shape == (6, 3, 24, 24)
    one, again = (course.feeds[0].batches(3)["data"] for _ in range(2))
    np.testing.assert_array_equal(one, again)
    labels = np.concatenate([course.feeds[0].batches(at)["label"] for at in range(8)])
    assert np.bincount(labels.astype(int)).tolist() == [24, 24]
    lines = "".join(f"across/{number}.png 0\ndown/{number}.png 1\n" for number in range(8))
    (place / "list.txt").write_text(lines)
    listed = (
        f'image_data_param {{ source: "list.txt" root_folder: "{folder}/" batch_size: 5 new_height: 8 new_width: 10 }}'
    )
    start, rest = text.index("  data_param"), text.index('layer { name: "conv"')
    head = text[:start].replace('"Data"', '"ImageData"').replace(crop, "").replace("include { phase: TRAIN }", "")
    (place / "net.prototxt").write_text(head + listed + " }\n" + text[rest:])
    course = Course(place / "solver.prototxt")
    assert course.solver.net.blobs["data"].shape == (5, 3, 8, 10)
    assert course.feeds[0].batches(0)["label"].tolist() == [0, 1, 0, 1, 0]


def test_a_transformation_is_caffes(tmp_path: Path) -> None:
    values = np.arange(2 * 6 * 7, dtype=np.uint8).reshape(2, 6, 7)
    blob = Blob((1, 2, 6, 7))
    blob.data[...] = 10
    (tmp_path / "mean.binaryproto").write_bytes(blob.to_proto().SerializeToString())
    text = 'name: "d" transform_param { scale: 0.5 crop_size: 4 mirror: true mean_file: "mean.binaryproto" }'
    proto = parsed(text, "LayerParameter", "layer")
    tested = Transform(proto, False, tmp_path)(values, np.random.RandomState(0))
    np.testing.assert_array_equal(tested, (values[:, 1:5, 1:5].astype(np.float32) - 10) / 2)
    seen = {Transform(proto, True, tmp_path)(values, np.random.RandomState(seed)).tobytes() for seed in range(60)}
    every = (values.astype(np.float32) - 10) / 2
    parts = [every[:, y : y + 4, x : x + 4] for y in range(3) for x in range(4)]
    assert seen <= {np.ascontiguousarray(part[:, :, ::step]).tobytes() for part in parts for step in (1, -1)}
    assert len(seen) > 12


def test_a_damaged_datum_is_named() -> None:
    whole = message_class("Datum")(channels=1, height=2, width=2, data=b"\1\2\3\4", label=7)
    record = datum_record(whole.SerializeToString(), "d")
    assert (record.values.tolist(), record.label) == ([[[1, 2], [3, 4]]], 7)
    for content in (b"\xff\xff", message_class("Datum")(channels=1, height=2, width=3, data=b"a").SerializeToString()):
        with pytest.raises(ArmnetError, match="d: "):
            datum_record(content, "d")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"train.npz"', '"none.npz"', "there is no 'none.npz'"),
        ("batch_size: 6", "batch_size: 0", "batch_size must be at least 1"),
        ('type: "Data" top', 'type: "WindowData" top', "no such source"),
        ("mean_value: 128", "mean_value: 1 mean_value: 2 mean_value: 3", "the mean .* does not fit"),
        ("mean_value: 128", "crop_size: 20", "smaller than the crop 20x20"),
        ("mean_value: 128", "resize_param { prob: 1 height: 3 width: 3 }", "of a fork of Caffe"),
    ],
)
def test_nets_that_cannot_be_fed_are_refused(place: Path, old: str, new: str, reason: str) -> None:
    (place / "net.prototxt").write_text(NET.replace(old, new))
    with pytest.raises(ArmnetError, match=reason):
        Course(place / "solver.prototxt")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--data", "other=x.npz"], "there is no data layer 'other'"),
        (["--data", "d=x.npz"], "there is no 'x.npz'"),
        (["--weights", "none.caffemodel"], "there is no 'none.caffemodel'"),
        (["-o", "out"], "a solver.prototxt names its net"),
    ],
)
def test_mistakes_are_one_line(place: Path, capsys: pytest.CaptureFixture[str], words: List[str], reason: str) -> None:
    assert main(["train", "--solver", str(place / "solver.prototxt"), *words]) == 2
    assert reason in capsys.readouterr().err
