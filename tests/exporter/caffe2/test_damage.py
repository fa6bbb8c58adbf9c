"""Damaged and hostile Caffe2 pairs give a one-line error that names the file or the operator at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

import numpy as np
import pytest

from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill

WEIGHTS = {"w": np.ones((2, 3, 3, 3), np.float32), "b": np.ones(2, np.float32)}
PREDICT = NetDef(
    "n",
    (OperatorDef.of("Conv", ["x", "w", "b"], ["c"], kernel=3), OperatorDef.of("Relu", ["c"], ["y"])),
    ("x", "w", "b"),
    ("y",),
)
X = np.ones((1, 3, 5, 5), np.float32)


def init_net(weights: Dict[str, np.ndarray], unpacked: bool = True) -> NetDef:
    return NetDef(
        "i", tuple(fill(name, value, unpacked) for name, value in weights.items()), external_output=tuple(weights)
    )


def outcome(folder: Path, init: bytes, predict: bytes) -> bool:
    """Whether the pair was exported and run; a refusal must be an ArmnetError of one line."""
    paths = [folder / "init_net.pb", folder / "predict_net.pb"]
    for path, data in zip(paths, (init, predict)):
        path.write_bytes(data)
    refusal = ""
    try:
        with Predictor(export(*paths), threads=1) as predictor, np.errstate(all="ignore"):
            predictor.run([X])
    except ArmnetError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return not refusal


@pytest.mark.parametrize("unpacked", [True, False], ids=["as Caffe2 writes", "raw data"])
def test_truncated_files_are_refused_or_are_smaller_nets(tmp_path: Path, unpacked: bool) -> None:
    init, predict = init_net(WEIGHTS, unpacked).to_bytes(), PREDICT.to_bytes()
    assert outcome(tmp_path, init, predict)
    assert not any(outcome(tmp_path, init[:size], predict) for size in range(0, len(init) // 2, 11))
    for size in range(0, len(predict), 3):
        outcome(tmp_path, init, predict[:size])


def test_flipped_bits_never_escape(tmp_path: Path) -> None:
    init, predict = init_net(WEIGHTS, False).to_bytes(), PREDICT.to_bytes()
    random = np.random.default_rng(0)
    outcomes: List[bool] = []
    for _ in range(300):
        damaged = [bytearray(init), bytearray(predict)]
        for _ in range(random.integers(1, 4)):
            file = damaged[random.integers(2)]
            file[random.integers(len(file))] ^= 1 << random.integers(8)
        outcomes.append(outcome(tmp_path, bytes(damaged[0]), bytes(damaged[1])))
    assert set(outcomes) == {True, False}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({**WEIGHTS, "w": np.ones((2, 4, 3, 3), np.float32)}, "channels"),
        ({**WEIGHTS, "b": np.ones(3, np.float32)}, "bias"),
        ({**WEIGHTS, "w": np.ones((2, 27), np.float32)}, "dimensions"),
        ({**WEIGHTS, "w": np.ones((2, 3, 3, 3), np.int32)}, "floats"),
    ],
    ids=["channels", "bias", "rank", "data type"],
)
def test_blobs_that_do_not_fit_are_named_with_their_operator(
    tmp_path: Path, weights: Dict[str, np.ndarray], problem: str
) -> None:
    (tmp_path / "init_net.pb").write_bytes(init_net(weights).to_bytes())
    (tmp_path / "predict_net.pb").write_bytes(PREDICT.to_bytes())
    pair = export(tmp_path / "init_net.pb", tmp_path / "predict_net.pb")
    with pytest.raises(ArmnetError, match=rf"Conv\(x, w, b\) -> c: .*{problem}"), Predictor(pair, threads=1) as net:
        net.run([X])


def test_a_false_shape_takes_no_memory(tmp_path: Path) -> None:
    """A shape is trusted only if the file has that many values."""
    op = OperatorDef.of("GivenTensorFill", [], ["w"], shape=[1 << 30, 1 << 20], values=[1.0, 2.0])
    predict = NetDef("n", (OperatorDef.of("Add", ["x", "w"], ["y"]),), ("x", "w"), ("y",))
    (tmp_path / "init_net.pb").write_bytes(NetDef("i", (op,), external_output=("w",)).to_bytes())
    (tmp_path / "predict_net.pb").write_bytes(predict.to_bytes())
    with pytest.raises(ArmnetError, match=r"predict_net\.pb: GivenTensorFill\(\) -> w: ") as caught:
        export(tmp_path / "init_net.pb", tmp_path / "predict_net.pb")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("type", ["Unheard", "Q" * 20000])
def test_operators_that_the_runtime_lacks_are_refused_before_anything_runs(tmp_path: Path, type: str) -> None:
    inner = NetDef("then", (OperatorDef.of(type, ["y"], ["z"]),), external_output=("z",))
    ops = (*PREDICT.op, OperatorDef.of("If", ["c"], ["z"], then_net=inner))
    (tmp_path / "init_net.pb").write_bytes(init_net(WEIGHTS).to_bytes())
    (tmp_path / "predict_net.pb").write_bytes(PREDICT.replace(op=ops).to_bytes())
    with pytest.raises(ArmnetError, match=r"predict_net\.pb: .*unknown operator type") as caught:
        export(tmp_path / "init_net.pb", tmp_path / "predict_net.pb")
    assert len(str(caught.value)) < len(str(tmp_path)) + 400


def test_a_text_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "init_net.pb").write_bytes(init_net({"w": np.ones(3, np.float32)}).to_bytes())
    text = (
        'op { type: "Add" input: "x" input: "w" output: "y" } '
        'external_input: "x" external_input: "w" external_output: "y"'
    )
    (tmp_path / "predict_net.pbtxt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    pair = export(tmp_path / "init_net.pb", tmp_path / "predict_net.pbtxt")
    assert [op.type for op in pair.predict_net.op] == ["Add"]
