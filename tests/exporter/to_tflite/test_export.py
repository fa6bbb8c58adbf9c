"""TFLite files of pairs: layouts, sizes, names, metadata, refusals, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armnet.__main__ import main
from device_tests.suite.tolerance import assert_network_close
from exporter.to_tflite import layout
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.netdef import NetDef
from runtime_arm.netdef.dtypes import UINT8
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

import armnet
from exporter import export
from exporter.to_tflite.export import save_tflite, to_tflite, translated
from tests.exporter.to_tflite.written import run_written, types_of

X = TensorInfo("x", ("batch", 3, 8, 8), "float32")


def pair_of(text: str, weights: Dict[str, Any], inputs: Sequence[TensorInfo] = (X,), **meta: Any) -> Pair:
    """The pair of a net in text form."""
    net = NetDef.from_text(text)
    fills = tuple(fill(name, np.asarray(value)) for name, value in weights.items())
    net = net.replace(external_input=(*(info.name for info in inputs), *weights))
    pair = Pair(NetDef("init", fills, external_output=tuple(weights)), net, tuple(inputs))
    return pair.replace(meta=meta).check()


def random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def small_net(**meta: Any) -> Pair:
    text = 'net "small": x -> y\nConv(x, w, b) -> c  kernel=3  pad=1\nRelu(c) -> c\nSoftmax(c) -> y'
    return pair_of(text, {"w": random(4, 3, 3, 3), "b": np.zeros(4, np.float32)}, **meta)


def test_pictures_have_their_channels_last_and_an_open_batch_is_one() -> None:
    model = translated(pair_of('net "n": x -> y\nConv(x, w) -> y  kernel=3', {"w": random(4, 3, 3, 3)}), {})
    tensors = model.graphs[0].tensors
    assert tensors[model.inputs["x"]].shape == (1, 8, 8, 3)
    assert tensors[model.outputs["y"]].shape == (1, 6, 6, 4)
    assert model.turned == {"x", "y"}


@pytest.mark.parametrize("type", ["Cast", "onnx.Cast", "tflite.Cast"])
def test_a_cast_of_floats_keeps_its_rule(type: str) -> None:
    """TFLite's saturates; the others keep the low bits."""
    text = f'net "n": x -> y\n{type}(x) -> y  to={UINT8}'
    pair = pair_of(text, {}, [TensorInfo("x", (4,), "float32")])
    x = np.array([300.5, -1.5, 7.9, 255], np.float32)
    wanted = armnet.Predictor(pair).run({"x": x})["y"]
    assert wanted.tolist() == ([255, 0, 7, 255] if type == "tflite.Cast" else [44, 255, 7, 255])
    np.testing.assert_array_equal(run_written(pair, {"x": x})[1]["y"], wanted)


def test_an_activation_is_part_of_the_operation_before_it() -> None:
    text = 'net "n": x -> y\nConv(x, w) -> c  kernel=3\nClip(c) -> y  min=0.0  max=6.0'
    (operation,) = translated(pair_of(text, {"w": random(4, 3, 3, 3)}), {}).graphs[0].operations
    assert (operation.type, operation.options["FusedActivationFunction"]) == ("CONV_2D", 3)


def test_a_fully_connected_layer_reads_a_picture_as_it_lies() -> None:
    text = 'net "n": x -> y\nConv(x, w) -> c  kernel=3\nFlatten(c) -> f\nFC(f, v, b) -> y'
    weights = {"w": random(4, 3, 3, 3), "v": random(5, 4 * 36), "b": random(5)}
    pair = pair_of(text, weights)
    model, found = run_written(pair, {"x": random(1, 3, 8, 8)})
    assert types_of(model) == ["CONV_2D", "RESHAPE", "FULLY_CONNECTED"]
    with armnet.Predictor(pair, threads=1) as predictor:
        assert_network_close(found["y"], predictor.run({"x": random(1, 3, 8, 8)})["y"])


def test_a_channel_shuffle_in_three_operators_transposes_once() -> None:
    text = """
        net "n": x -> y
        Conv(x, w) -> c  kernel=1
        Reshape(c) -> r, old  shape=[1, 2, 4, 8, 8]
        Transpose(r) -> t  axes=[0, 2, 1, 3, 4]
        Reshape(t) -> s, older  shape=[1, 8, 8, 8]
        Conv(s, v) -> y  kernel=1
    """
    pair = pair_of(text, {"w": random(8, 3, 1, 1), "v": random(2, 8, 1, 1)})
    model, found = run_written(pair, {"x": random(1, 3, 8, 8)})
    assert types_of(model) == ["CONV_2D", "RESHAPE", "TRANSPOSE", "RESHAPE", "CONV_2D"]
    with armnet.Predictor(pair, threads=1) as predictor:
        assert_network_close(found["y"], predictor.run({"x": random(1, 3, 8, 8)})["y"])


@st.composite
def reshapes(draw: st.DrawFn) -> Tuple[List[int], List[int], Tuple[int, ...]]:
    """Two shapes of as many elements, and an order of the first one's dimensions."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=6))

    def cut() -> List[int]:
        bounds = sorted(draw(st.sets(st.integers(1, len(factors)), max_size=len(factors))) | {len(factors)})
        return [int(np.prod(factors[start:stop])) for start, stop in zip([0, *bounds], bounds)]

    old, new = cut(), cut()
    return old, new, tuple(draw(st.permutations(range(len(old)))))


@given(reshapes())
def test_a_reshape_in_the_order_of_the_tensor_is_one_of_the_blob(drawn: Any) -> None:
    old, new, order = drawn
    found = layout.reshaped(order, old, new)
    if found is None:
        assert order != layout.plain(len(old)), "a tensor in the blob's own order can always be reshaped"
        return
    blob = np.arange(np.prod(old)).reshape(old)
    tensor = blob.transpose(order).reshape(layout.held(new, found))
    np.testing.assert_array_equal(tensor, blob.reshape(new).transpose(found))


def test_labels_and_preprocessing_come_back(tmp_path: Path) -> None:
    rule = {"channels": "RGB", "scale": 0.5, "mean": [1.0, 2.0, 3.0], "std": 2.0}
    save_tflite(small_net(preprocessing=rule, labels=["a", "b", "c", "d"]), tmp_path / "m.tflite")
    meta = export(str(tmp_path / "m.tflite")).meta
    assert meta["labels"] == ["a", "b", "c", "d"]
    assert meta["preprocessing"]["channels"] == "RGB"
    assert meta["preprocessing"]["mean"] == [2.0, 4.0, 6.0]
    assert meta["preprocessing"]["std"] == [4.0]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (pair_of('net "n": x -> y\nRelu(x) -> y', {}, [TensorInfo("x", (1, None, 3), "float32")]), "--shape x=1,N,3"),
        (pair_of('net "n": x -> y\nRelu(x) -> y', {}, [TensorInfo("x")]), r"--shape x=N,N,\.\.\."),
        (pair_of('net "n": x -> y\nErf(x) -> y', {}), r"Erf\(x\) -> y: TFLite has no operators"),
        (
            pair_of('net "n": x -> y\nConv(x, x) -> y  kernel=8', {}, [TensorInfo("x", (1, 3, 8, 8))]),
            "must be constant",
        ),
    ],
)
def test_what_tflite_cannot_say_is_refused_and_nothing_is_written(pair: Pair, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArmnetError, match=message):
        save_tflite(pair, tmp_path / "m.tflite")
    assert not list(tmp_path.iterdir())


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(ExportError, match="no input 'z'; the net takes x"):
        to_tflite(small_net(), shapes={"z": (1,)})


def test_there_and_back_again_gives_the_same_file(tmp_path: Path) -> None:
    first = to_tflite(small_net())
    (tmp_path / "first.tflite").write_bytes(first)
    again = export(str(tmp_path / "first.tflite"))
    assert len(to_tflite(again)) == pytest.approx(len(first), abs=400)
    assert types_of(translated(again, {})) == types_of(translated(small_net(), {}))


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_net().save(tmp_path / "pair")
    target = tmp_path / "m.tflite"
    assert main(["export", str(tmp_path / "pair"), "--to", "tflite", "-o", str(target)]) == 0
    assert target.read_bytes()[4:8] == b"TFL3"
    assert main(["export", str(target), "-o", str(tmp_path / "back")]) == 0
    assert main(["export", str(tmp_path / "pair"), "--to", "tflite", "-o", str(target), "--shape", "y=1"]) == 2
    assert "no input 'y'" in capsys.readouterr().err
