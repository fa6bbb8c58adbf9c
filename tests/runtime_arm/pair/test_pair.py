"""Pairs on disk and in memory."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError, FormatError, NetError, PairError, ResourceError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.netdef.encoder import SMALL_ALIGNMENT
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair, read_net
from tests.support.paths import ROOT, module_at

INFO = TensorInfo("data", ("batch", 3, None, 8), "float32")


def make_pair(**changes: Any) -> Pair:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    init = NetDef("init", (OperatorDef.of("GivenTensorFill", [], ["w"], values=weights),))
    predict = NetDef.from_text('net "p": data, w -> prob, conv\nConv(data, w) -> conv  kernel=3\nSoftmax(conv) -> prob')
    pair = Pair(
        init,
        predict,
        (INFO,),
        (TensorInfo("conv"), TensorInfo("prob", dtype="float32")),
        {"labels": ["cat", "dog"], "preprocessing": {"mean": [1.5, 2]}, "source": {"name": "m.onnx"}},
    )
    return pair.replace(**changes)


def test_a_pair_survives_its_folder(tmp_path: Path) -> None:
    pair = make_pair()
    pair.save(tmp_path / "pair")
    assert sorted(os.listdir(tmp_path / "pair")) == ["init_net.pb", "model.json", "predict_net.pb"]
    assert os.listdir(tmp_path) == ["pair"]
    assert Pair.load(tmp_path / "pair") == pair
    assert pickle.loads(pickle.dumps(pair)) == pair


def test_a_pair_without_inputs_survives(tmp_path: Path) -> None:
    net = NetDef.from_text('net "p": w -> y\nRelu(w) -> y')
    pair = make_pair(predict_net=net, inputs=(), outputs=(TensorInfo("y"),), meta={})
    pair.save(tmp_path)
    assert Pair.load(tmp_path) == pair


def test_an_empty_init_net_survives(tmp_path: Path) -> None:
    net = NetDef.from_text('net "p": x -> y\nRelu(x) -> y')
    pair = Pair(NetDef(), net, (TensorInfo("x"),), (TensorInfo("y"),))
    pair.save(tmp_path)
    assert Pair.load(tmp_path) == pair


def test_saving_over_the_loaded_pair_replaces_it(tmp_path: Path) -> None:
    make_pair().save(tmp_path)
    (tmp_path / "tuning.json").write_text("{}")
    loaded = Pair.load(tmp_path)
    changed = loaded.replace(meta={"labels": ["x"]})
    changed.save(tmp_path)
    assert Pair.load(tmp_path) == changed
    assert loaded.init_net == make_pair().init_net
    assert len(os.listdir(tmp_path)) == 4


def test_weights_stay_in_the_file(tmp_path: Path) -> None:
    make_pair().save(tmp_path)
    array = Pair.load(tmp_path).init_net.op[0].get_tensor("values")
    assert array.__array_interface__["data"][0] % SMALL_ALIGNMENT == 0
    assert array.base is not None
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_the_metadata_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        make_pair().meta["labels"] = []  # type: ignore[index]


def test_two_files_alone_are_a_pair(tmp_path: Path) -> None:
    pair = make_pair()
    (tmp_path / "squeeze_init_net.pb").write_bytes(pair.init_net.to_bytes())
    (tmp_path / "squeeze_predict_net.pb").write_bytes(pair.predict_net.to_bytes())
    loaded = Pair.load(tmp_path)
    assert loaded == Pair.from_files(tmp_path / "squeeze_init_net.pb", tmp_path / "squeeze_predict_net.pb")
    assert (loaded.init_net, loaded.predict_net) == (pair.init_net, pair.predict_net)
    assert loaded.inputs == (TensorInfo("data"),)
    assert loaded.outputs == (TensorInfo("prob"), TensorInfo("conv"))
    (tmp_path / "other_init_net.pb").write_bytes(b"")
    with pytest.raises(PairError, match=r"holds several init_net\.pbs"):
        Pair.load(tmp_path)


FILL = "GivenTensorFill() -> {}  shape={}  values=[{}]\n"


@pytest.mark.parametrize(
    ("external_input", "init", "expected"),
    [
        ("data, w", FILL.format("w", [2], "1.0, 2.0"), [TensorInfo("data")]),
        ("w, data, more", FILL.format("w", [2], "1.0, 2.0"), [TensorInfo("data"), TensorInfo("more")]),
        ("data, w", FILL.format("data", [1, 1], "0.0") + FILL.format("w", [1], "0.0"), [TensorInfo("data")]),
        ("data, w", "ConstantFill() -> data  shape=[1]\n" + FILL.format("w", [1], "3.0"), [TensorInfo("data")]),
        (
            "a, b, w",
            "".join(FILL.format(name, [1, 1], value) for name, value in zip("abw", ["0.0", "0.0", "0.5"])),
            [TensorInfo("a"), TensorInfo("b")],
        ),
        ("a, w, b", FILL.format("a", [1, 1], "0.0") + FILL.format("w", [1], "1.0"), [TensorInfo("a"), TensorInfo("b")]),
        (
            "x, w",
            FILL.format("x", [1, 2], "1.0, 2.0") + FILL.format("w", [1, 1], "1.0"),
            [TensorInfo("x", (1, 2), "float32")],
        ),
        ("x", "ConstantFill() -> x  dtype=10  shape=[1, 2]", [TensorInfo("x", (1, 2), "int64")]),
        ("w, x", "GivenTensorFill() -> w  values=<float32 1x1: 1.0>", [TensorInfo("x")]),
        (
            "x, w",
            "GivenTensorFill() -> x  values=<uint8 1x2: 1 2>\n" + FILL.format("w", [1], "3.0"),
            [TensorInfo("x", (1, 2), "uint8")],
        ),
        ("x, w", "Fill() -> x, w", [TensorInfo("x")]),
    ],
)
def test_real_inputs_follow_from_the_nets(external_input: str, init: str, expected: list[TensorInfo]) -> None:
    predict = NetDef.from_text(f'net "p": {external_input} -> y\nSum({external_input}) -> y')
    assert list(Pair.from_nets(NetDef.from_text(init), predict).inputs) == expected


def test_the_example_that_fills_an_input_may_be_a_tensor() -> None:
    init = NetDef.from_text("GivenTensorFill() -> x  values=<float32 1x2: 1.0 2.0>")
    pair = Pair.from_nets(init, NetDef.from_text('net "p": x -> y\nRelu(x) -> y'))
    assert pair.inputs == (TensorInfo("x", (1, 2), "float32"),)


def test_a_net_without_external_inputs_has_no_inputs() -> None:
    pair = Pair.from_nets(NetDef("init"), NetDef.from_text('net "p": -> y\nFill() -> y'))
    assert pair.inputs == ()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            ("squeezenet_v1.1_reconstructed/squeeze_init_net.pb", "squeezenet_v1.1_reconstructed/squeezeNetPredict.pb"),
            TensorInfo("data"),
        ),
        (
            ("superres_from_onnx/init_net.pb", "superres_from_onnx/predict_net.pb"),
            TensorInfo("1", (1, 1, 224, 224), "float32"),
        ),
    ],
)
def test_inputs_of_real_pairs(shared: Path, files: tuple[str, str], expected: TensorInfo) -> None:
    pair = Pair.from_files(*(shared / "models" / "caffe2" / file for file in files))
    assert pair.inputs == (expected,)
    assert [info.name for info in pair.outputs] == list(pair.predict_net.external_output)


def test_inputs_of_the_mobile_exporters_pairs(shared: Path) -> None:
    for case in module_at(shared / "goldens" / "load_goldens.py").caffe2_nets():
        pair = Pair.from_nets(NetDef.from_bytes(case["init_net"]), NetDef.from_bytes(case["predict_net"]))
        assert pair.inputs == (TensorInfo("data"),)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"inputs": (TensorInfo("other"),)}, "input 'other' is not an external input of predict_net"),
        ({"inputs": (INFO, INFO)}, "input 'data' is not an external input of predict_net, or is given twice"),
        ({"inputs": ()}, "predict_net takes 'data', which is neither an input nor filled by init_net"),
        ({"outputs": (TensorInfo("data"),)}, "output 'data' is not an external output of predict_net"),
        ({"predict_net": NetDef.from_text('net "p": data, w\nAdd(data, w) -> y'), "outputs": ()}, "no external output"),
        ({"init_net": NetDef("init")}, "predict_net takes 'w', which is neither an input nor filled by init_net"),
    ],
)
def test_a_pair_that_does_not_fit_together_is_neither_loaded_nor_saved(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    pair = make_pair(**changes)
    for attempt in (pair.check, lambda: pair.save(tmp_path / "pair")):
        with pytest.raises(PairError) as caught:
            attempt()
        assert problem in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_nets_that_cannot_run_are_refused() -> None:
    with pytest.raises(NetError, match="reads 'x'"):
        make_pair(init_net=NetDef.from_text("Relu(x) -> w")).check()


@pytest.mark.parametrize("name", ["init_net.pb", "predict_net.pb"])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: data + b"\0"])
def test_damaged_files_are_named(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    make_pair().save(tmp_path)
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(PairError, match=rf"{name}: the file is not the one that model\.json was written for"):
        Pair.load(tmp_path)


@pytest.mark.parametrize("name", ["init_net.pb", "predict_net.pb"])
def test_missing_files_are_named(tmp_path: Path, name: str) -> None:
    make_pair().save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(PairError, match=f"{name}: no such file"):
        Pair.load(tmp_path)
    (tmp_path / "model.json").unlink()
    with pytest.raises(PairError, match=f"holds no {name}"):
        Pair.load(tmp_path)


def test_places_without_a_pair_are_named(tmp_path: Path) -> None:
    with pytest.raises(PairError, match="nothing: no such folder"):
        Pair.load(tmp_path / "nothing")
    with pytest.raises(PairError, match=r"holds no init_net\.pb"):
        Pair.load(tmp_path)
    (tmp_path / "empty.pb").write_bytes(b"")
    with pytest.raises(PairError, match=r"empty\.pb: the file is empty"):
        read_net(tmp_path / "empty.pb")
    with pytest.raises(PairError, match=r"nothing\.pb: no such file"):
        read_net(tmp_path / "nothing.pb")
    (tmp_path / "text.pb").write_text("this is no net")
    with pytest.raises(FormatError, match=r"text\.pb: "):
        read_net(tmp_path / "text.pb")


def test_nets_in_text_format_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "net.pbtxt").write_text('name: "n"')
    assert read_net(tmp_path / "net.pbtxt") == NetDef("n")


GOOD = {"name": "data", "shape": [1, None, "h"], "dtype": "float32"}
BAD_MODELS: dict[str, Any] = {
    "not JSON": "{",
    "deep": "[" * 100_000,
    "a list": "[]",
    "no schema": {"schema": None},
    "a newer schema": {"schema": 2},
    "no hashes": {"sha256": None},
    "hashes of another type": {"sha256": {"init_net.pb": 1, "predict_net.pb": 2}},
    "inputs of another type": {"inputs": {}},
    "an input of another type": {"inputs": ["data"]},
    "an input without a name": {"inputs": [{"shape": [1]}]},
    "an empty name": {"inputs": [{**GOOD, "name": ""}]},
    "a name of another type": {"outputs": [{**GOOD, "name": 3}]},
    "a shape of another type": {"inputs": [{**GOOD, "shape": 3}]},
    "a negative size": {"inputs": [{**GOOD, "shape": [-1]}]},
    "a fraction": {"inputs": [{**GOOD, "shape": [1.5]}]},
    "a flag as size": {"inputs": [{**GOOD, "shape": [True]}]},
    "a huge shape": {"inputs": [{**GOOD, "shape": [1 << 30, 1 << 30]}]},
    "a long shape": {"inputs": [{**GOOD, "shape": [1] * 33}]},
    "an unknown dtype": {"inputs": [{**GOOD, "dtype": "float99"}]},
    "a dtype without a place": {"inputs": [{**GOOD, "dtype": "complex64"}]},
    "an alias of a dtype": {"inputs": [{**GOOD, "dtype": "f4"}]},
    "two dtypes": {"inputs": [{**GOOD, "dtype": "floa   3,t32"}]},
    "a dtype of another type": {"inputs": [{**GOOD, "dtype": ["float32"]}]},
    "labels of another type": {"labels": {"0": "cat"}},
    "a label of another type": {"labels": ["cat", 3]},
    "preprocessing of another type": {"preprocessing": [1]},
    "a source of another type": {"source": "m.onnx"},
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_wrong_metadata_is_refused(tmp_path: Path, case: str) -> None:
    make_pair().save(tmp_path)
    changes = BAD_MODELS[case]
    model = tmp_path / "model.json"
    text = changes if isinstance(changes, str) else json.dumps({**json.loads(model.read_text()), **changes})
    model.write_text(text)
    with pytest.raises(PairError) as caught:
        Pair.load(tmp_path)
    assert str(caught.value).startswith(f"{model}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_huge_metadata_is_refused_unread(tmp_path: Path) -> None:
    make_pair().save(tmp_path)
    with open(tmp_path / "model.json", "r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(PairError, match="bytes are too many"):
        Pair.load(tmp_path)


def test_metadata_of_later_versions_is_kept(tmp_path: Path) -> None:
    pair = make_pair(meta={"later": {"a": [1]}})
    pair.save(tmp_path)
    assert Pair.load(tmp_path).meta == {"later": {"a": [1]}}


@pytest.mark.parametrize("meta", [{"labels": "cat"}, {"x": {1, 2}}, {"preprocessing": {"mean": float("nan")}}])
def test_metadata_that_could_not_be_loaded_is_not_saved(tmp_path: Path, meta: dict[str, Any]) -> None:
    with pytest.raises(PairError):
        make_pair(meta=meta).save(tmp_path / "pair")
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "pair"):
        with pytest.raises(ResourceError) as caught:
            make_pair().save(place)
        assert str(caught.value).startswith(f"{place}: ")


def test_every_cut_of_a_pairs_files_is_refused(tmp_path: Path) -> None:
    make_pair().save(tmp_path)
    for name in os.listdir(tmp_path):
        whole = (tmp_path / name).read_bytes()
        for cut in range(0, len(whole), max(1, len(whole) // 20)):
            (tmp_path / name).write_bytes(whole[:cut])
            with pytest.raises(ArmnetError):
                Pair.load(tmp_path)
        (tmp_path / name).write_bytes(whole)
    assert Pair.load(tmp_path) == make_pair()


def test_loading_a_pair_imports_no_protobuf(tmp_path: Path) -> None:
    make_pair().save(tmp_path)
    code = (
        f"import sys; from runtime_arm.pair import Pair; Pair.load({str(tmp_path)!r}); "
        "assert not [m for m in sys.modules if m.startswith('google.protobuf')]"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_tensor_infos_as_text() -> None:
    assert (INFO.is_static, INFO.shape_text()) == (False, "(batch, 3, ?, 8)")
    assert (TensorInfo("x").is_static, TensorInfo("x").shape_text()) == (False, "?")
    static = TensorInfo("x", (2, 3), "int8")
    assert (static.is_static, static.example().shape, static.example().dtype) == (True, (2, 3), np.int8)
    with pytest.raises(ResourceError, match=r"input 'x' of shape \(1000000, 1000000, 4\) needs"):
        TensorInfo("x", (10**6, 10**6, None), "float32").example([10**6, 10**6, 4])
