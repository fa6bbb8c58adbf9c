"""Networks in QDQ form, quantised by onnxruntime: their integers, their bytes and their results beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

from armnet.weights import weights_nbytes
from exporter import export
from optimize import Report, optimize, pipeline
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule
from runtime_arm.errors import OptimizationError
from runtime_arm.execution.predictor import Predictor
from tests.optimize.nets import pair_of
from tests.optimize.passes.integers.qdq import qdq

RANDOM = np.random.default_rng(3)
IMAGES = [RANDOM.standard_normal((1, 3, 20, 20)).astype(np.float32) for _ in range(4)]


def weight(name: str, *shape: int) -> Any:
    from onnx import numpy_helper

    scale = np.prod(shape[1:]) ** 0.5 if len(shape) > 1 else 2
    return numpy_helper.from_array((RANDOM.standard_normal(shape) / scale).astype(np.float32), name)


def residual_net() -> Any:
    """Convolutions, one of them by groups, a sum, pools, a resize, joined blobs, functions, a product, a softmax."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2", "b2"], ["c"], pads=[1] * 4, group=8),
        node("HardSwish", ["c"], ["d"]),
        node("Conv", ["d", "w3", "b3"], ["e"]),
        node("Add", ["b", "e"], ["f"]),
        node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["g", "", "twice"], ["h"], mode="nearest"),
        node("Concat", ["f", "h"], ["i"], axis=1),
        node("Sigmoid", ["i"], ["j"]),
        node("Mul", ["i", "j"], ["k"]),
        node("AveragePool", ["k"], ["l"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["l"], ["m"]),
        node("Flatten", ["m"], ["n"]),
        node("Gemm", ["n", "w4", "b4"], ["o"], transB=1),
        node("Softmax", ["o"], ["y"], axis=1),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 1, 3, 3), weight("w3", 8, 8, 1, 1), weight("w4", 10, 16)]
    weights += [weight(f"b{i}", 10 if i == 4 else 8) for i in range(1, 5)]
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "twice"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 20, 20])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])
    graph = helper.make_graph(nodes, "residual", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def enlarging_net() -> Any:
    """As a DeepLab or a U-Net: pictures become small and large again, by both kinds of layers that do this."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("GlobalAveragePool", ["b"], ["c"]),
        node("Resize", ["c", "", "", "size"], ["d"], mode="linear"),
        node("Concat", ["b", "d"], ["e"], axis=1),
        node("ConvTranspose", ["e", "w2", "b2"], ["f"], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
        node("Relu", ["f"], ["g"]),
        node("ConvTranspose", ["g", "w3"], ["h"], strides=[2, 2]),
        node("Resize", ["h", "", "twice"], ["y"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 16, 6, 3, 3), weight("b2", 6)]
    weights += [weight("w3", 6, 5, 2, 2), numpy_helper.from_array(np.array([1, 8, 10, 10]), "size")]
    weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "twice"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 20, 20])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 80, 80])
    graph = helper.make_graph(nodes, "enlarging", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed to write models with")
    pytest.importorskip("onnxruntime.quantization", reason="onnxruntime is not installed to quantise with")
    path = tmp_path_factory.mktemp("qdq")
    onnx.save(residual_net(), str(path / "residual.onnx"))
    onnx.save(enlarging_net(), str(path / "enlarging.onnx"))
    return path


def quantised(folder: Path, net: str, activations: str, weights: str, per_channel: bool) -> Path:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left: Iterator[Dict[str, Any]] = iter([{"x": image} for image in IMAGES])

        def get_next(self) -> Any:
            return next(self._left, None)

    path = folder / f"{net}{activations}{weights}{per_channel}.onnx"
    kinds = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    quantize_static(
        folder / f"{net}.onnx",
        path,
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=kinds[activations],
        weight_type=kinds[weights],
        per_channel=per_channel,
    )
    return path


def by_onnxruntime(path: Path, optimised: bool, feeds: Dict[str, Any]) -> Any:
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


@pytest.mark.parametrize(("activations", "weights", "per_channel"), [("u8", "s8", True), ("s8", "s8", False)])
def test_a_quantised_network(folder: Path, activations: str, weights: str, per_channel: bool) -> None:
    path = quantised(folder, "residual", activations, weights, per_channel)
    plain, report = export(path), Report()
    fast = optimize(plain, report=report)
    made = [op.full_type for op in fast.predict_net.op]
    assert made.count("onnx.QLinearConv") == 3, made
    assert made.count("onnx.DequantizeLinear") == 1, "all of it computes on integers"
    assert any(note.startswith("15 operators compute on integers: of ") for note in report.notes), report.notes
    assert weights_nbytes(fast) <= weights_nbytes(plain) + 256 * made.count("armnet.LookUp")
    assert optimize(fast).predict_net == fast.predict_net
    feeds = {"x": np.concatenate(IMAGES)}
    with Predictor(fast) as predictor:
        actual = predictor.run(feeds)["y"]
    step = 1 / 256
    for optimised in (False, True):
        far = np.abs(actual - by_onnxruntime(path, optimised, feeds))
        assert far.max() <= 2.02 * step, "the classes are a step or two of the softmax away, of 256"
        assert np.count_nonzero(far > 0.1 * step) <= 0.4 * far.size


@pytest.mark.parametrize(("activations", "weights", "per_channel"), [("u8", "s8", True), ("s8", "s8", False)])
def test_pictures_become_larger_on_integers(folder: Path, activations: str, weights: str, per_channel: bool) -> None:
    path, report = quantised(folder, "enlarging", activations, weights, per_channel), Report()
    plain = export(path)
    fast = optimize(plain, report=report)
    made = [op.full_type for op in fast.predict_net.op]
    assert made.count("tflite.QuantizedConvTranspose") == made.count("tflite.QuantizedResizeBilinear") == 2, made
    assert made.count("onnx.DequantizeLinear") == 1, "all of it computes on integers"
    assert any(note.startswith("7 operators compute on integers: of ") for note in report.notes), report.notes
    feeds = {"x": IMAGES[0]}
    with Predictor(fast) as predictor:
        actual = predictor.run(feeds)["y"]
    wanted = by_onnxruntime(path, False, feeds)
    step = np.diff(np.unique(wanted)).min()
    far = np.abs(actual - wanted)
    assert far.max() <= 3.01 * step, "a step in each of the layers that make it"
    assert np.count_nonzero(far > 0.1 * step) <= 0.2 * far.size


def test_a_wrong_operator_on_integers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(program: Program, start: int) -> Iterator[Match]:
        places: List[int] = [i for i, op in enumerate(program.net.op) if op.type == "Sigmoid"]
        return (Match((place, place + 1), ("y",)) for place in places if place >= start)

    def wrong(program: Program, match: Match) -> Rewrite:
        op = program.operators(match)[1]
        return Rewrite(
            (op.replace(type="LookUp", domain="armnet", input=("x_", "t")),), weights={"t": np.zeros(256, np.uint8)}
        )

    monkeypatch.setattr(pipeline, "INTEGERS", (Pass("broken", (Rule(find, wrong),)),))
    text, weights, shapes = qdq("Sigmoid(X) -> y", shapes={"x": (4, 5)})
    del weights["t"]
    pair = pair_of(
        text.replace(" t,", " v,").replace("(y, t", "(y, v").replace("_, t", "_, v"),
        {**weights, "v": np.float32(0.05)},
        shapes,
    )
    with pytest.raises(
        OptimizationError, match=r"^armnet.LookUp\(x_, t\) -> y_ is \d+ steps away from what floats give"
    ):
        optimize(pair)


def test_nets_without_such_integers_are_left_alone() -> None:
    report = Report()
    optimize(pair_of('net "": x -> y\n Relu(x) -> y', shapes={"x": (2, 3)}), report=report)
    assert not any("integers" in note for note in report.notes)
