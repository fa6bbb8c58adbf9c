"""Pairs as ONNX models: names, shapes, weights, files, refusals. For the results see test_recorded.py."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from armnet.__main__ import main
from device_tests.suite.tolerance import assert_close, assert_network_close
from optimize import optimize, quantize
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.random_nets import RandomNet, random_nets

onnx = pytest.importorskip("onnx", reason="onnx is not installed to write models with")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to run models with")

from device_tests.host.networks import known as networks  # noqa: E402
from exporter import export  # noqa: E402
from exporter.to_onnx.export import save_onnx, to_onnx  # noqa: E402

X = TensorInfo("x", ("batch", 3, 8, 8), "float32")


def pair_of(text: str, weights: Dict[str, Any], inputs: Sequence[TensorInfo] = (X,)) -> Pair:
    """The pair of a net in text form."""
    net = NetDef.from_text(text)
    fills = tuple(fill(name, np.asarray(value)) for name, value in weights.items())
    net = net.replace(external_input=(*(info.name for info in inputs), *weights))
    return Pair(NetDef("init", fills, external_output=tuple(weights)), net, tuple(inputs)).check()


def small_net() -> Pair:
    rng = np.random.default_rng(5)
    return pair_of(
        'net "small": x -> y\nConv(x, w, b) -> c  kernel=3  pad=1\nRelu(c) -> c\nSoftmax(c) -> y',
        {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "b": np.zeros(4, np.float32)},
    )


def run(model: Any, feeds: Dict[str, Any]) -> List[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def test_inputs_and_outputs_keep_names_and_open_dimensions() -> None:
    model = to_onnx(small_net())
    onnx.checker.check_model(model, full_check=True)
    (x,), (y,) = model.graph.input, model.graph.output
    dims = [[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in (x, y)]
    assert (x.name, y.name) == ("x", "y")
    assert dims[0] == ["batch", 3, 8, 8]
    assert dims[1][1:] == [4, 8, 8]
    assert y.type.tensor_type.shape.dim[0].dim_value == 0


def test_weights_are_initializers_and_each_blob_is_written_once() -> None:
    graph = to_onnx(small_net()).graph
    assert {tensor.name for tensor in graph.initializer} >= {"w", "b"}
    written = [name for node in graph.node for name in node.output]
    assert len(written) == len(set(written))


@pytest.mark.parametrize("batch", [1, 3])
def test_the_model_takes_any_batch(batch: int) -> None:
    pair = small_net()
    x = np.random.default_rng(0).standard_normal((batch, 3, 8, 8)).astype(np.float32)
    with Predictor(pair, threads=1) as predictor:
        assert_close(run(to_onnx(pair), {"x": x})[0], predictor.run([x])["y"], terms=256)


@pytest.mark.parametrize("scales", ["float32", "float16"])
def test_packed_weights_stay_packed_and_onnxruntime_unpacks_them(scales: str) -> None:
    """With scales of float16, too, of which onnxruntime makes no floats in float32."""
    weights = {"w": np.random.default_rng(0).standard_normal((16, 3, 5, 5)).astype(np.float32)}
    pair = quantize(pair_of('net "n": x, w -> y\n Conv(x, w) -> y  kernel=5', weights))
    if scales == "float16":
        pair = with_half_scales(pair)
    model, x = to_onnx(pair), np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    with Predictor(pair, threads=1) as predictor:
        assert_close(run(model, {"x": x})[0], predictor.run({"x": x})["y"], terms=75)
    assert len(model.SerializeToString()) < 3 * weights["w"].size


@pytest.mark.parametrize(("factor", "nbytes"), [(1, 3), (1e6, 5)])
def test_weights_of_four_bits_are_halves_if_none_is_too_large_for_these(factor: float, nbytes: int) -> None:
    weights = {"w": (np.random.default_rng(0).standard_normal((16, 3, 5, 5)) * factor).astype(np.float32)}
    pair = quantize(pair_of('net "n": x, w -> y\n Conv(x, w) -> y  kernel=5', weights), None, "int4")
    model, x = to_onnx(pair), np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    with Predictor(pair, threads=1) as predictor:
        assert_close(run(model, {"x": x})[0] / factor, predictor.run({"x": x})["y"] / factor, terms=75)
    assert len(model.SerializeToString()) < nbytes * weights["w"].size


def with_half_scales(pair: Pair) -> Pair:
    """The pair whose scales are float16 in the net, too."""
    values = {op.output[0]: op.get_tensor("values") for op in pair.init_net.op}
    fills = [fill(name, value.astype(np.float16) if value.ndim == 1 else value) for name, value in values.items()]
    ops = [op.with_args(output_dtype=1) if op.type == "DequantizeLinear" else op for op in pair.predict_net.op]
    assert any(op.has("output_dtype") for op in ops)
    return pair.replace(
        init_net=pair.init_net.replace(op=tuple(fills)), predict_net=pair.predict_net.replace(op=tuple(ops))
    )


def test_saved_and_built_in_memory_are_the_same_model(tmp_path: Path) -> None:
    pair = small_net()
    assert save_onnx(pair, tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    assert onnx.load(tmp_path / "m.onnx") == to_onnx(pair)
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_weights_too_large_for_one_file_go_to_a_second(tmp_path: Path) -> None:
    weights = np.arange(3 * 8 * 8 * 500, dtype=np.float32).reshape(500, 192) / 1e5
    pair = pair_of('net "n": x -> y\nFC(x, w, b) -> y', {"w": weights, "b": np.zeros(500, np.float32)})
    files = save_onnx(pair, tmp_path / "m.onnx", largest=1000)
    assert files == [tmp_path / "m.onnx", tmp_path / "m.onnx.data"]
    assert files[0].stat().st_size < 4000
    onnx.checker.check_model(str(files[0]))
    x = np.ones((2, 3, 8, 8), np.float32)
    assert_close(run(files[0], {"x": x})[0], x.reshape(2, -1) @ weights.T, terms=192)


def test_saving_copies_no_weights(tmp_path: Path) -> None:
    weights = np.ones((4096, 192), np.float32)
    pair = pair_of('net "n": x -> y\nFC(x, w, b) -> y', {"w": weights, "b": np.zeros(4096, np.float32)})
    save_onnx(pair, tmp_path / "warm.onnx")
    tracemalloc.start()
    save_onnx(pair, tmp_path / "m.onnx")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * weights.nbytes


def test_the_opset_is_raised_for_a_newer_operator() -> None:
    pair = pair_of('net "n": x -> y\nonnx.Swish(x) -> y  alpha=1.5', {})
    if onnx.defs.onnx_opset_version() < 24:
        with pytest.raises(ArmnetError, match="Swish"):
            to_onnx(pair)
        return
    assert to_onnx(pair).opset_import[0].version == 24
    assert to_onnx(small_net()).opset_import[0].version == 21


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_opset_is_raised_for_a_newer_data_type(dtype: str) -> None:
    pair = pair_of('net "n": x -> y\nonnx.Celu(x) -> y', {}, [TensorInfo("x", (2, 3), dtype)])
    if dtype == "float16" and onnx.defs.onnx_opset_version() < 28:
        with pytest.raises(ArmnetError, match="Celu with no attributes for what 'x' hold"):
            to_onnx(pair)
        return
    assert to_onnx(pair).opset_import[0].version == (28 if dtype == "float16" else 21)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('net "n": x -> y\nHeatmapMaxKeypoint(x, x) -> y', r"HeatmapMaxKeypoint\(x, x\) -> y"),
        ('net "n": x -> y\nIm2Col(x) -> y  kernel=2', r"Im2Col\(x\) -> y"),
        ('net "n": x -> y\nGaussianFill(x) -> y', r"GaussianFill\(x\) -> y"),
        ('net "n": x -> y\nDropout(x) -> y, m', r"Dropout\(x\) -> y, m"),
        ('net "n": x -> y\nPadImage(x) -> y  pads=[8, 0, 0, 0]  mode="reflect"', "reflect further than ONNX allows"),
        ('net "n": x -> y\nPadImage(x) -> y  pads=[4, 0, -4, 0]  mode="reflect"', "reflect further than ONNX allows"),
        ('net "n": x -> x\nRelu(x) -> x', "'x' is an input that the net overwrites"),
    ],
)
def test_operators_without_an_equivalent_are_refused_by_name(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ArmnetError, match=named):
        save_onnx(pair_of(text, {}), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_shape_of_an_input_without_one_must_be_given() -> None:
    pair = pair_of('net "n": x -> y\nRelu(x) -> y', {}, [TensorInfo("x")])
    with pytest.raises(ExportError, match=r"'x'.*--shape x="):
        to_onnx(pair)
    with pytest.raises(ExportError, match="no input 'z'; the net takes x"):
        to_onnx(pair, shapes={"x": (1, 3), "z": (1, 3)})
    onnx.checker.check_model(to_onnx(pair, shapes={"x": (1, 3)}), full_check=True)


def test_an_overwritten_blob_is_read_with_its_old_value() -> None:
    pair = pair_of('net "n": x -> y\nRelu(x) -> x\nAdd(x, x) -> x\nCopy(x) -> y', {})
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    assert_close(run(to_onnx(pair), {"x": x})[0], 2 * np.maximum(x, 0), terms=2)


def test_branches_of_caffe2_set_blobs_by_name() -> None:
    then = NetDef.from_text('net "n": x -> \nRelu(x) -> y')
    ops = (OperatorDef.of("Negative", ["x"], ["y"]), OperatorDef.of("If", ["c", "x"], ["y"], then_net=then))
    inputs = (TensorInfo("c", (1,), "bool"), TensorInfo("x", (4,), "float32"))
    pair = Pair(NetDef(), NetDef("n", ops, ("c", "x"), ("y",)), inputs).check()
    x = np.array([-1, 2, -3, 4], np.float32)
    model = to_onnx(pair)
    onnx.checker.check_model(model)
    for condition, expected in ((True, np.maximum(x, 0)), (False, -x)):
        np.testing.assert_array_equal(run(model, {"c": np.array([condition]), "x": x})[0], expected)


@settings(max_examples=60)
@given(random_nets())
def test_random_nets_compute_the_same_plain_and_optimised(drawn: RandomNet) -> None:
    plain = drawn.pair()
    for pair in (plain, optimize(plain)):
        with Predictor(pair, threads=1) as predictor:
            ours = predictor.run(drawn.feed())
        model = to_onnx(pair)
        onnx.checker.check_model(model, full_check=True)
        for name, result in zip(ours, run(model, drawn.feed())):
            assert_close(result, ours[name], terms=4096, what=name)


@pytest.mark.parametrize(("name", "shifted"), [("resnet18", 1), ("mobilenet_v2", 17), ("googlenet", 36)])
def test_networks_with_shifted_blobs_compute_the_same(name: str, shifted: int) -> None:
    source = networks.build(name, image_size=64)
    pair = optimize(export(source))
    assert sum(bool(op.output[0].endswith("_shifted")) for op in pair.predict_net.op if "Conv" in op.type) == shifted
    model, feeds = to_onnx(pair), {"data": np.random.default_rng(3).standard_normal((1, 3, 64, 64)).astype(np.float32)}
    onnx.checker.check_model(model, full_check=True)
    assert_network_close(run(model, feeds)[0], run(source, feeds)[0])


def test_the_command_writes_a_model_of_a_pair(tmp_path: Path) -> None:
    small_net().save(tmp_path / "pair")
    assert main(["export", str(tmp_path / "pair"), "--to", "onnx", "-o", str(tmp_path / "m.onnx")]) == 0
    onnx.checker.check_model(str(tmp_path / "m.onnx"))


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    pair_of('net "n": x -> y\nIm2Col(x) -> y  kernel=2', {}).save(tmp_path / "pair")
    command = [sys.executable, "-m", "armnet", "export", str(tmp_path / "pair"), "--to", "onnx", "-o", "m.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Im2Col(x) -> y" in done.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_an_operator_error_names_the_operator() -> None:
    pair = pair_of('net "n": x -> y\nTopK(x) -> y, i  k=9', {})
    with pytest.raises(OperatorError, match=r"TopK\(x\) -> y, i: k is 9"):
        to_onnx(pair)


@pytest.mark.parametrize(("clip", "largest"), [(0, np.inf), (1, 65504)])
def test_float16_values_are_clipped_as_in_caffe2(clip: int, largest: float) -> None:
    pair = pair_of(f'net "n": x -> y\nFloatToHalf(x) -> y  clip={clip}', {}, [TensorInfo("x", (4,), "float32")])
    y = run(to_onnx(pair), {"x": np.array([1e6, -1e6, 65504, 0.1], np.float32)})[0]
    np.testing.assert_array_equal(y, np.array([largest, -largest, 65504, 0.1], np.float16))


@pytest.mark.parametrize("start", [(0, 1, 2, 3), (0, 9, -4, 8)])
def test_a_block_is_written_where_it_fits(start: Sequence[int]) -> None:
    rng = np.random.default_rng(7)
    weights = {"u": rng.standard_normal((1, 2, 3, 4)).astype(np.float32), "s": np.array(start, np.int32)}
    pair = pair_of('net "block": x -> y\ntflite.DynamicUpdateSlice(x, u, s) -> y', weights)
    feeds = {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}
    with Predictor(pair, threads=1) as predictor:
        np.testing.assert_array_equal(run(to_onnx(pair), feeds)[0], predictor.run(feeds)["y"])


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_padding_between_transpositions(order: str) -> None:
    """onnxruntime moves these past a Pad; if that names axes, it refuses to run."""
    axes = {"NCHW": ([0, 3, 1, 2], [0, 2, 3, 1]), "NHWC": ([0, 2, 3, 1], [0, 3, 1, 2])}[order]
    padded = f'PadImage(a) -> b  pad_t=1 pad_l=2 pad_b=0 pad_r=1 mode="edge" order="{order}"'
    pair = pair_of(
        f'net "n": x -> y\nTranspose(x) -> a  axes={axes[0]}\n{padded}\nTranspose(b) -> y  axes={axes[1]}', {}
    )
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    with Predictor(pair) as predictor:
        np.testing.assert_array_equal(run(to_onnx(pair), {"x": x})[0], predictor.run({"x": x})["y"])
