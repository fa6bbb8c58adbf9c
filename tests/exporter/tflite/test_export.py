"""TFLite files beyond their operators: names, signatures, open shapes, sparse and float16 weights, custom operators."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.support import Support, support
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from runtime_arm.pair.pair import Pair
from tests.support.tflite_models import Model, Sparsity, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
TERMS = 1024  # of the longest sum here
_rng = np.random.default_rng(4)


def floats(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


def exported(folder: Path, data: bytes, **options: Any) -> Pair:
    (folder / "model.tflite").write_bytes(data)
    return export(folder / "model.tflite", **options)


def assert_agrees(folder: Path, data: bytes, feeds: Dict[str, Any]) -> None:
    for result, wanted in zip(ours(folder, data, feeds), reference(data, feeds)):
        assert_close(result, wanted, terms=TERMS)


def test_names_and_order_of_inputs_and_outputs_are_kept(tmp_path: Path) -> None:
    model = Model()
    a, b = model.input("a", (2,)), model.input("b", (2,))
    total, difference = model.tensor("sum", (2,)), model.tensor("difference", (2,))
    model.operator("SUB", [a, b], [difference], "SubOptions")
    model.operator("ADD", [a, b], [total], "AddOptions")
    pair = exported(tmp_path, model.to_bytes([total, difference]))
    assert [info.name for info in pair.inputs] == ["a", "b"]
    assert {(info.shape, info.dtype) for info in pair.inputs} == {((2,), "float32")}
    assert [info.name for info in pair.outputs] == ["sum", "difference"]


def test_of_joined_names_the_first_is_a_blobs(tmp_path: Path) -> None:
    """TensorFlow's converter joins the names of all that it fused. Inputs and outputs keep their whole names."""
    model = Model()
    x, y = model.input("x;in", (2,)), model.tensor("y;Identity", (2,))
    first, second = model.tensor("conv/Relu;bn/Add;conv/Bias", (2,)), model.tensor("conv/Relu;other", (2,))
    for source, target in ((x, first), (first, second), (second, y)):
        model.operator("ADD", [source, x], [target], "AddOptions")
    pair = exported(tmp_path, model.to_bytes([y]))
    assert [info.name for info in (*pair.inputs, *pair.outputs)] == ["x;in", "y;Identity"]
    assert [op.output for op in pair.predict_net.op] == [("conv/Relu",), ("conv/Relu_1",), ("y;Identity",)]


def test_equal_names_are_made_unique(tmp_path: Path) -> None:
    model = Model()
    inputs, y = [model.input("x", (2,)), model.input("x", (2,))], model.tensor("x", (2,))
    model.operator("ADD", inputs, [y], "AddOptions")
    data = model.to_bytes([y])
    pair = exported(tmp_path, data)
    assert [info.name for info in (*pair.inputs, *pair.outputs)] == ["x", "x_1", "x_2"]
    with Predictor(pair) as predictor:
        np.testing.assert_array_equal(predictor.run([np.ones(2, np.float32)] * 2)["x_2"], [2, 2])


def test_an_input_may_be_an_output_and_an_output_two(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("x", (2,)), model.tensor("y", (2,))
    model.operator("NEG", [x], [y])
    pair = exported(tmp_path, model.to_bytes([x, y, y]))
    with Predictor(pair) as predictor:
        results = predictor.run([np.array([1, 2], np.float32)])
    assert {name: value.tolist() for name, value in results.items()} == {"x_1": [1, 2], "y": [-1, -2], "y_1": [-1, -2]}


def test_signatures_name_inputs_and_outputs_and_choose_the_graph(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("serving_x:0", (2,)), model.tensor("Identity", (2,))
    model.operator("NEG", [x], [y])
    other = model.graph("other")
    z = other.input("z", (3,))
    other.outputs = [other.tensor("w", (3,))]
    other.operator("ABS", [z], other.outputs)
    model.signatures = [("serving_default", {"x": x}, {"y": y}, 0), ("second", {"in": z}, {"out": other.outputs[0]}, 1)]
    data = model.to_bytes([y])
    first = exported(tmp_path, data).meta["signatures"]
    assert first == {"serving_default": {"inputs": {"x": "serving_x:0"}, "outputs": {"y": "Identity"}}}
    second = exported(tmp_path, data, signature="second")
    assert [info.name for info in second.inputs] == ["z"]
    with pytest.raises(ExportError, match="no signature 'third'; the model has second, serving_default"):
        exported(tmp_path, data, signature="third")


@pytest.mark.parametrize("batch", [1, 3])
def test_dimensions_that_the_signature_leaves_open_stay_open(tmp_path: Path, batch: int) -> None:
    model = Model()
    x = model.input("x", (1, 8, 8, 3), signature=(-1, -1, 8, 3))
    y, z = model.tensor("y", (1, 4, 4, 4), signature=(-1, -1, 4, 4)), model.tensor("z", (1, 4), signature=(-1, 4))
    model.operator(
        "CONV_2D",
        [x, model.constant("w", floats(4, 3, 3, 3)), model.constant("b", floats(4))],
        [y],
        "Conv2DOptions",
        Padding=0,
        StrideW=2,
        StrideH=2,
        FusedActivationFunction=1,
    )
    model.operator("MEAN", [y, model.constant("axes", np.array([1, 2], np.int32))], [z], "ReducerOptions")
    data = model.to_bytes([z])
    assert exported(tmp_path, data).inputs[0].shape == (None, None, 8, 3)
    assert_agrees(tmp_path, data, {"x": floats(batch, 8 + 2 * batch, 8, 3)})


@pytest.mark.parametrize(
    ("dense", "sparsity", "stored"),
    [
        ([[0, 2, 0], [0, 0, 0], [1, 0, 3]], Sparsity((0, 1), (), (3, ([0, 1, 1, 3], [1, 0, 2]))), [2, 1, 3]),
        ([[0, 2, 0], [0, 0, 0], [1, 0, 3]], Sparsity((1, 0), (), (3, ([0, 1, 2, 3], [2, 0, 2]))), [1, 2, 3]),
        (
            [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 0], [0, 0, 0, 6]],
            Sparsity((0, 1, 2, 3), (0, 1), (2, ([0, 1, 2], [0, 1]), 2, 2)),
            [1, 2, 3, 4, 5, 0, 0, 6],
        ),
        (
            [[0, 0, 0, 7], [0, 0, 8, 9], [1, 2, 0, 0], [0, 3, 0, 0]],
            Sparsity((0, 1, 2), (1,), (4, ([0, 1, 2, 3, 4], [1, 1, 0, 0]), 2)),
            [0, 7, 8, 9, 1, 2, 0, 3],
        ),
        ([[0, 0, 0, 0], [0, 0, 0, 0]], Sparsity((0, 1, 2), (1,), (2, ([0, 0, 0], []), 2)), []),
        ([[0, 0, 0, 0, 0, 0]], Sparsity((0, 1, 2), (1,), (1, ([0, 0], []), 4)), []),
    ],
)
def test_sparse_weights_are_expanded(
    tmp_path: Path, dense: List[List[int]], sparsity: Sparsity, stored: List[int]
) -> None:
    weights, model = np.array(dense, np.float32), Model()
    x, y = model.input("x", (2, weights.shape[1])), model.tensor("y", (2, len(weights)))
    w = model.tensor("w", weights.shape, content=np.array(stored, np.float32).tobytes(), sparsity=sparsity)
    model.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    values = floats(2, weights.shape[1])
    (result,) = ours(tmp_path, model.to_bytes([y]), {"x": values})
    assert_close(result, values @ weights.T, terms=weights.shape[1])


def half_precision() -> bytes:
    model = Model()
    x, y, w = model.input("x", (2, 5)), model.tensor("y", (2, 4)), model.tensor("w", (4, 5))
    model.operator("DEQUANTIZE", [model.constant("half", floats(4, 5).astype(np.float16))], [w], version=3)
    model.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    return model.to_bytes([y])


def test_float16_weights_are_folded(tmp_path: Path) -> None:
    data = half_precision()
    assert_agrees(tmp_path, data, {"x": floats(2, 5)})
    assert [op.type for op in exported(tmp_path, data).predict_net.op] == ["FC"]


def test_pictures_are_transposed_once_at_the_input_and_once_at_the_output(tmp_path: Path) -> None:
    model = Model()
    x = model.input("x", (1, 8, 8, 3))
    y, a, z = (model.tensor(name, (1, 8, 8, 3)) for name in "yaz")
    weights = [model.constant("w", floats(3, 3, 3, 3)), model.constant("b", floats(3))]
    same = {"Padding": 0, "StrideW": 1, "StrideH": 1}
    model.operator("CONV_2D", [x, *weights], [y], "Conv2DOptions", **same)
    model.operator("ADD", [y, model.constant("channels", floats(3))], [a], "AddOptions", FusedActivationFunction=1)
    model.operator("CONV_2D", [a, *weights], [z], "Conv2DOptions", **same)
    data = model.to_bytes([z])
    assert_agrees(tmp_path, data, {"x": floats(1, 8, 8, 3)})
    types = [op.type for op in exported(tmp_path, data).predict_net.op]
    assert types == ["NHWC2NCHW", "Conv", "Add", "Relu", "Conv", "NCHW2NHWC"]


@pytest.mark.parametrize("padding", [1, 2])
def test_mediapipes_transposed_convolution(tmp_path: Path, padding: int) -> None:
    """TRANSPOSE_CONV without a shape input: twice the size with SAME padding (1), else the full size."""
    sizes = (1, 8, 10, 5) if padding == 1 else (1, 9, 11, 5)
    weights, bias, pixels = floats(5, 3, 3, 4), floats(5), floats(1, 4, 5, 4)
    results = []
    for custom in (False, True):
        model = Model()
        x, y = model.input("x", pixels.shape), model.tensor("y", sizes)
        w, b = model.constant("w", weights), model.constant("b", bias)
        if custom:
            model.operator(
                "CUSTOM",
                [x, w, b],
                [y],
                custom="Convolution2DTransposeBias",
                custom_options=struct.pack("<3i", padding, 2, 2),
            )
        else:
            model.operator(
                "TRANSPOSE_CONV",
                [model.constant("shape", np.array(sizes, np.int32)), w, x, b],
                [y],
                "TransposeConvOptions",
                Padding=padding - 1,
                StrideW=2,
                StrideH=2,
            )
        results += ours(tmp_path, model.to_bytes([y]), {"x": pixels})
    np.testing.assert_array_equal(results[0], results[1])


def post_processing(regular: bool) -> bytes:
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Map():
        for name, number in (
            ("max_detections", 7),
            ("max_classes_per_detection", 2),
            ("num_classes", 3),
            ("detections_per_class", 4),
        ):
            builder.Key(name)
            builder.Int(number)
        for name, value in (
            ("nms_score_threshold", 0.3),
            ("nms_iou_threshold", 0.5),
            ("y_scale", 10.0),
            ("x_scale", 10.0),
            ("h_scale", 5.0),
            ("w_scale", 5.0),
        ):
            builder.Key(name)
            builder.Float(value)
        builder.Key("use_regular_nms")
        builder.Bool(regular)
    model, rng = Model(), np.random.default_rng(8)
    anchors = np.concatenate([rng.random((40, 2)), rng.uniform(0.1, 0.4, (40, 2))], axis=1)
    inputs = [model.input("boxes", (1, 40, 4)), model.input("scores", (1, 40, 4)), model.constant("anchors", anchors)]
    outputs = [model.tensor(name) for name in ("found", "classes", "values", "count")]
    model.operator(
        "CUSTOM", inputs, outputs, custom="TFLite_Detection_PostProcess", custom_options=bytes(builder.Finish())
    )
    return model.to_bytes(outputs)


@pytest.mark.parametrize("regular", [False, True])
def test_ssd_post_processing(tmp_path: Path, regular: bool) -> None:
    data = post_processing(regular)
    """Of boxes with equal scores the first is the better one."""
    scores = _rng.random((1, 40, 4)).astype(np.float32)
    scores[0, ::3] = scores[0, 0]
    feeds = {"boxes": floats(1, 40, 4), "scores": scores}
    results, expected = ours(tmp_path, data, feeds), reference(data, feeds)
    count = int(expected[3][0])
    assert int(results[3][0]) == count
    for result, wanted in zip(results[:3], expected[:3]):
        assert result.shape == wanted.shape
        np.testing.assert_array_equal(result[:, :count], wanted[:, :count])


def test_support_lists_what_is_missing(tmp_path: Path) -> None:
    model = Model()
    x, y, z = model.input("x", (2,)), model.tensor("y", (2,)), model.tensor("z", (2,))
    model.operator("CUSTOM", [x], [y], custom="FancyOp")
    model.operator("NEG", [y], [z])
    path = tmp_path / "model.tflite"
    path.write_bytes(model.to_bytes([z]))
    missing, present = support(path)
    assert missing[:2] == ("CUSTOM 'FancyOp'", 1)
    assert "no such operator" in missing.problem
    assert present == Support("NEG", 1, "")


def test_metadata_gives_labels_and_layout(shared: Path, tmp_path: Path) -> None:
    path = shared / "models/tflite/mobilenet_v1_0.25_224_quant/mobilenet_v1_0.25_224_quant.tflite"
    meta = export(path).meta
    assert meta["preprocessing"] == {"layout": "NHWC", "channels": "RGB"}
    assert (len(meta["labels"]), meta["labels"][0]) == (1001, "background")
    damaged = bytearray(path.read_bytes())
    damaged[-4:] = b"\xff\xff\xff\xff"  # the length of the archive's comment
    assert "labels" not in exported(tmp_path, bytes(damaged)).meta


def normalised(mean: Any, std: Any) -> bytes:
    """Metadata on how the pixels of the first input are normalised: a FlatBuffer of the schema M001."""
    import flatbuffers

    builder = flatbuffers.Builder(256)

    def table(*fields: Any) -> int:
        builder.StartObject(len(fields))
        for slot, field in enumerate(fields):
            if isinstance(field, tuple):
                builder.PrependUint8Slot(slot, field[0], 0)
            elif field is not None:
                builder.PrependUOffsetTRelativeSlot(slot, field, 0)
        return int(builder.EndObject())

    def vector(item: int) -> int:
        builder.StartVector(4, 1, 4)
        builder.PrependUOffsetTRelative(item)
        return int(builder.EndVector())

    numbers = [builder.CreateNumpyVector(np.asarray(values, np.float32)) for values in (mean, std)]
    tensor = table(None, None, None, None, vector(table((1,), table(*numbers))))
    builder.Finish(table(None, None, None, vector(table(None, None, vector(tensor)))), file_identifier=b"M001")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("dtype", "std", "told"),
    [("float32", [127.5], {"mean": [127.5], "std": [127.5]}), ("uint8", [127.5], {}), ("float32", [0.0], {})],
)
def test_metadata_gives_mean_and_deviation(tmp_path: Path, dtype: str, std: Any, told: Any) -> None:
    model = Model()
    x, y = model.input("x", (1, 4, 4, 3), dtype), model.tensor("y", (1, 48), dtype)
    model.operator("RESHAPE", [x, model.constant("shape", np.array([1, 48], np.int32))], [y])
    model.metadata["TFLITE_METADATA"] = normalised([127.5], std)
    assert exported(tmp_path, model.to_bytes([y])).meta["preprocessing"] == {"layout": "NHWC", **told}


@pytest.mark.parametrize("batch", [1, 4])
def test_shapes_that_are_computed_from_an_open_batch(tmp_path: Path, batch: int) -> None:
    """Keras's form of Reshape((2, 2, 3)) with an open batch, followed by a convolution."""
    model = Model()
    x = model.input("x", (1, 12), signature=(-1, 12))
    shape, count, wanted = (model.tensor(name, (), "int32") for name in ("shape", "count", "wanted"))  # as old files
    y, z = model.tensor("y", (1, 2, 2, 3), signature=(-1, 2, 2, 3)), model.tensor("z", (1, 2, 2, 4))
    model.operator("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
    bounds = [model.constant(f"c{i}", np.array([i], np.int32)) for i in (0, 1, 1)]
    model.operator("STRIDED_SLICE", [shape, *bounds], [count], "StridedSliceOptions", ShrinkAxisMask=1)
    sizes = [model.constant(f"s{i}", np.array(n, np.int32)) for i, n in enumerate((2, 2, 3))]
    model.operator("PACK", [count, *sizes], [wanted], "PackOptions", ValuesCount=4)
    model.operator("RESHAPE", [x, wanted], [y])
    filters, bias = model.constant("w", floats(4, 1, 1, 3)), model.constant("b", floats(4))
    model.operator("CONV_2D", [y, filters, bias], [z], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1)
    assert_agrees(tmp_path, model.to_bytes([z]), {"x": floats(batch, 12)})
