"""Types that NumPy lacks: stored as codes, rounded where nodes write them, fed and fetched as wider numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from device_tests.suite.tolerance import assert_close, assert_each_close
from exporter import export
from exporter.onnx.export import from_onnx
from optimize import optimize
from runtime_arm import Pair, Predictor
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, operators, run, value

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed to make weights with")
RNG = np.random.default_rng(0)
TYPES = {
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.INT2: ml_dtypes.int2,
}
BITS = {TensorProto.BFLOAT16: 16, TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E5M2: 8, TensorProto.INT2: 2}


def weight(type: int, *shape: int) -> Any:
    return (RNG.standard_normal(shape) * 3).astype(np.float32).astype(TYPES[type])


def weight_bytes(pair: Pair) -> int:
    return sum(arg.t.nbytes for op in pair.init_net.op for arg in op.arg if arg.t is not None)


def product(w: Any, external: bool = False) -> onnx.ModelProto:
    """y = x W^T with W cast to float32."""
    tensor = numpy_helper.from_array(w, "w")
    if external:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        tensor.ClearField("raw_data")
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Gemm", ["x", "wide"], ["y"], transB=1),
    ]
    proto = model(nodes, [value("x", [2, w.shape[1]])], [value("y", None)], opset=25)
    proto.graph.initializer.append(tensor)
    proto.ir_version = 13
    return proto


@pytest.mark.parametrize("type", TYPES)
def test_weights_stay_packed(type: int, tmp_path: Path) -> None:
    w, x = weight(type, 300, 301), RNG.standard_normal((2, 301)).astype(np.float32)
    pair = export(product(w))
    assert weight_bytes(pair) < w.size * BITS.get(type, 4) // 8 + 2000
    expected = x.astype(np.float64) @ w.astype(np.float64).T
    pair.save(tmp_path / "pair")
    for net in (Pair.load(tmp_path / "pair"), optimize(pair)):
        assert weight_bytes(net) < w.size * BITS.get(type, 4) // 8 + 2000
        with Predictor(net) as predictor:
            assert_close(predictor.run([x])["y"], expected.astype(np.float32), terms=301)


@pytest.mark.parametrize("type", TYPES)
def test_external_weights(type: int, tmp_path: Path) -> None:
    w, x = weight(type, 7, 5), RNG.standard_normal((2, 5)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(numpy_helper.from_array(w, "w").raw_data)
    (tmp_path / "m.onnx").write_bytes(product(w, external=True).SerializeToString())
    with Predictor(from_onnx(tmp_path / "m.onnx")) as predictor:
        np.testing.assert_array_equal(predictor.run([x])["y"], run(product(w), x)[0])
    (tmp_path / "w.bin").write_bytes(b"1")
    with pytest.raises(ExportError, match="'w'"):
        from_onnx(tmp_path / "m.onnx")


def test_every_operator_rounds() -> None:
    """bfloat16 throughout: inputs, sums and products are rounded; what moves elements about is not."""
    names = ["x", "y"]
    nodes = [
        helper.make_node("Mul", names, ["product"]),
        helper.make_node("Transpose", ["product"], ["turned"], perm=[1, 0]),
        helper.make_node("Add", ["turned", "turned"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [3, 4]) for name in names]
    proto = model(nodes, inputs, [helper.make_tensor_value_info("z", TensorProto.BFLOAT16, None)])
    x, y = (RNG.standard_normal((3, 4)).astype(np.float32) for _ in names)
    narrow = [array.astype(ml_dtypes.bfloat16) for array in (x, y)]
    turned = (narrow[0] * narrow[1]).T
    np.testing.assert_array_equal(run(proto, x, y)[0], (turned + turned).astype(np.float32))
    assert sum("RoundNumbers" in line for line in operators(proto)) == 4
    with pytest.raises(ExportError, match="Caffe2"):
        export(proto, caffe2_compatible=True)


def test_integers_of_4_bits_are_fed_and_fetched_as_bytes() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    declared = [helper.make_tensor_value_info(name, TensorProto.INT4, [3]) for name in "xy"]
    pair = export(model([node], declared[:1], declared[1:], opset=25))
    assert pair.inputs[0].dtype == pair.outputs[0].dtype == "int8"
    with Predictor(pair) as predictor:
        np.testing.assert_array_equal(predictor.run([np.array([-8, 7, 3], np.int8)])["y"], [-8, 7, 3])


@pytest.mark.parametrize("type", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.FLOAT8E4M3FN])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_are_dequantised(type: int, axis: int) -> None:
    w = weight(type, 32, 64)
    scale = RNG.uniform(0.5, 1, (2, 64) if axis == 0 else (32, 4)).astype(np.float32)
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale"], ["y"], axis=axis, block_size=16)]
    proto = model(nodes, [], [value("y", None)], {"scale": scale}, opset=25)
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    proto.ir_version = 13
    assert_each_close(run(proto)[0], w.astype(np.float32) * np.repeat(scale, 16, axis))


@pytest.mark.parametrize("type", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("form", ["MatMul", "Gemm", "transposed Gemm"])
def test_products_by_blocks_stay_packed(type: int, zero: bool, form: str) -> None:
    depth, columns, along = 96, 20, 1 if form == "transposed Gemm" else 0
    w = weight(type, *((columns, depth) if along else (depth, columns)))
    blocks = (columns, 3) if along else (3, columns)
    weights: Any = {"scale": RNG.uniform(0.5, 1, blocks).astype(np.float32), "c": np.ones(columns, np.float32)}
    tensors = [numpy_helper.from_array(w, "w")]
    if zero:
        tensors.append(numpy_helper.from_array(weight(type, *blocks), "zero"))
    nodes = [
        helper.make_node(
            "DequantizeLinear", ["w", "scale", *(["zero"] if zero else [])], ["wide"], axis=along, block_size=32
        )
    ]
    if form == "MatMul":
        nodes.append(helper.make_node("MatMul", ["x", "wide"], ["y"]))
    else:
        nodes.append(helper.make_node("Gemm", ["x", "wide", "c"], ["y"], transB=along))
    proto = model(nodes, [value("x", [3, depth])], [value("y", None)], weights, opset=25)
    proto.graph.initializer.extend(tensors)
    points = numpy_helper.to_array(tensors[1]).astype(np.float32) if zero else np.zeros(blocks, np.float32)
    spread = [np.repeat(array, 32, along) for array in (weights["scale"], points)]
    wide = (w.astype(np.float32) - spread[1]) * spread[0]
    x = RNG.standard_normal((3, depth)).astype(np.float32)
    expected = x @ (wide.T if along else wide) + (0 if form == "MatMul" else 1)
    assert [line.split("(")[0] for line in operators(proto)] == ["com.microsoft.MatMulNBits"]
    assert_close(run(proto, x)[0], expected.astype(np.float32), terms=depth)


@pytest.mark.parametrize("type", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("zero", [False, True])
def test_rows_are_gathered_from_packed_weights(type: int, zero: bool) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to compare with")
    w, scale = weight(type, 9, 48), RNG.uniform(0.5, 1, (9, 3)).astype(np.float32)
    tensors = [numpy_helper.from_array(w, "w")]
    tensors += [numpy_helper.from_array(weight(type, 9, 3), "zero")] if zero else []
    names = ["w", "i", "scale", *(["zero"] if zero else [])]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", block_size=16)
    declared = [value("i", [2, 3], np.int64)], [value("y", None)]
    proto = model([node], *declared, {"scale": scale}, opset=21)
    proto.graph.initializer.extend(tensors)
    proto.ir_version = 10
    indices = np.array([[0, 8, 3], [-1, 4, 4]])
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(run(proto, indices)[0], session.run(None, {"i": indices})[0])
    pair = export(proto)
    assert not any(op.type == "UnpackNumbers" for op in pair.predict_net.op)
    assert weight_bytes(pair) < 9 * 48 // 2 + 4 * 27 + 30
