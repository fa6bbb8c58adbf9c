"""Sizes and ranks that the file leaves open: scalars of old files, blocks of pictures of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError, ShapeError
from tests.support.tflite_models import Model, Quantization, interpreter, ours

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")


def assert_agrees(folder: Path, model: Any, y: int, x: Any) -> None:
    """The plain and the optimised pair equal LiteRT's reference kernels bit for bit."""
    data = model.to_bytes([y])
    (folder / "model.tflite").write_bytes(data)
    runner = interpreter(data)
    (given,), (made,) = runner.get_input_details(), runner.get_output_details()
    runner.resize_tensor_input(given["index"], x.shape)
    runner.allocate_tensors()
    runner.set_tensor(given["index"], x)
    runner.invoke()
    expected = np.array(runner.get_tensor(made["index"]))
    pair = export(folder / "model.tflite")
    for one in (pair, optimize(pair)):
        with Predictor(one) as predictor:
            (result,) = predictor.run({"x": x}).values()
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("type", ["FLOOR_DIV", "FLOOR_MOD", "ADD", "MAXIMUM", "CAST"])
def test_scalars_of_old_files(tmp_path: Path, type: str, batch: int) -> None:
    """A size is computed from the shape; in files without ``has_rank`` its rank is not told."""
    model = Model()
    x = model.input("x", (1, 12), signature=(-1, 12))
    shape, count, part, wanted = (model.tensor(name, (), "int32") for name in ("shape", "count", "part", "wanted"))
    y = model.tensor("y")
    model.operator("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
    bounds = [model.constant(f"c{i}", np.array([i], np.int32)) for i in (0, 1, 1)]
    model.operator("STRIDED_SLICE", [shape, *bounds], [count], "StridedSliceOptions", ShrinkAxisMask=1)
    operands = (
        [count] if type == "CAST" else [count, model.constant("n", np.array(7 if type == "FLOOR_MOD" else 1, np.int32))]
    )
    options = "".join(word.title() for word in type.split("_")) + "Options"
    model.operator(type, operands, [part], "MaximumMinimumOptions" if type == "MAXIMUM" else options)
    model.operator("PACK", [part, model.constant("six", np.array(6, np.int32))], [wanted], "PackOptions", ValuesCount=2)
    model.operator("FILL", [wanted, model.constant("value", np.array(2.5, np.float32))], [y], "FillOptions")
    assert_agrees(tmp_path, model, y, np.zeros((batch, 12), np.float32))


@pytest.mark.parametrize("batch", [1, 4])
def test_squeeze_of_whatever_is_1(tmp_path: Path, batch: int) -> None:
    model = Model()
    x, squeezed, y = model.input("x", (1, 3, 1), signature=(-1, 3, 1)), model.tensor("squeezed"), model.tensor("y")
    model.operator("SQUEEZE", [x], [squeezed], "SqueezeOptions", SqueezeDims=[])
    model.operator("ABS", [squeezed], [y])
    assert_agrees(tmp_path, model, y, np.arange(-3, 3 * batch - 3, dtype=np.float32).reshape(batch, 3, 1))


@pytest.mark.parametrize("batch", [3, 5])
@pytest.mark.parametrize(("sizes", "part"), [([2, -1, 1], 1), ([-1, 3], 0), ([-1], 0), ([3, -1], 0)])
def test_a_part_is_the_rest_of_an_open_size(tmp_path: Path, sizes: Any, part: int, batch: int) -> None:
    model = Model()
    x, y = model.input("x", (4, 3), signature=(-1, 3)), model.tensor("y")
    parts = [model.tensor(f"part{i}") for i in range(len(sizes))]
    operands = [x, model.constant("sizes", np.array(sizes, np.int32)), model.constant("axis", np.array(0, np.int32))]
    model.operator("SPLIT_V", operands, parts, "SplitVOptions", NumSplits=len(sizes))
    model.operator("ABS", [parts[part]], [y])
    assert_agrees(tmp_path, model, y, np.arange(3 * batch, dtype=np.float32).reshape(batch, 3))


def test_a_rest_that_would_be_negative_is_refused(tmp_path: Path) -> None:
    model = Model()
    x, parts = model.input("x", (4, 3), signature=(-1, 3)), [model.tensor("y"), model.tensor("z")]
    operands = [x, model.constant("sizes", np.array([3, -1], np.int32)), model.constant("axis", np.array(0, np.int32))]
    model.operator("SPLIT_V", operands, parts, "SplitVOptions", NumSplits=2)
    with pytest.raises(ShapeError, match=r"lengths \[3, -1\] must be 2 numbers that add up"):
        ours(tmp_path, model.to_bytes(parts), {"x": np.zeros((2, 3), np.float32)})


def dilated(dtype: str, computed: bool) -> Any:
    """What TensorFlow makes of a dilated convolution of a picture of any size: pixels dealt out to the batch, and back.

    computed: the padding is computed from the picture's size; else the sizes must divide evenly.
    """
    model, given = Model(), None if dtype == "float32" else Quantization([0.1], [7])
    x = model.input("x", (1, 4, 6, 2), dtype, signature=(-1, -1, -1, 2), quantization=given)
    block = model.constant("block", np.array([2, 3], np.int32))
    pads = model.constant("pads", np.array([[1, 1], [2, 1]], np.int32))
    if computed:
        shape, sizes, rest, edge = (model.tensor(name, (), "int32") for name in ("shape", "sizes", "rest", "edge"))
        model.operator("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
        bounds = [model.constant(name, np.array([n], np.int32)) for name, n in (("from", 1), ("to", 3), ("by", 1))]
        model.operator("STRIDED_SLICE", [shape, *bounds], [sizes], "StridedSliceOptions")
        negated = model.tensor("negated", (), "int32")
        model.operator("NEG", [sizes], [negated], "NegOptions")
        model.operator("FLOOR_MOD", [negated, block], [rest], "FloorModOptions")
        zero = model.constant("zero", np.zeros(2, np.int32))
        model.operator("PACK", [zero, rest], [edge], "PackOptions", ValuesCount=2, Axis=1)
        pads = edge
    deep = model.tensor("deep", (), dtype, quantization=given)
    y = model.tensor("y", (), dtype, quantization=given)
    model.operator("SPACE_TO_BATCH_ND", [x, block, pads], [deep], "SpaceToBatchNDOptions")
    turned = model.tensor("turned", (), dtype, quantization=given)
    model.operator("REVERSE_V2", [deep, model.constant("axis", np.array([1], np.int32))], [turned], "ReverseV2Options")
    model.operator("BATCH_TO_SPACE_ND", [turned, block, pads], [y], "BatchToSpaceNDOptions")
    return model, y


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("shape", "computed"),
    [
        ((1, 4, 6, 2), False),
        ((3, 8, 3, 2), False),
        ((3, 8, 3, 2), True),
        ((2, 5, 7, 2), True),
        ((1, 1, 1, 2), True),
    ],
)
def test_pictures_of_any_size_are_dealt_out_to_the_batch(
    tmp_path: Path, dtype: str, shape: Any, computed: bool
) -> None:
    values = np.random.default_rng(3).integers(-100, 100, shape).astype(dtype)
    assert_agrees(tmp_path, *dilated(dtype, computed), values)


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("type", ["CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_integer_layer_of_no_pictures(tmp_path: Path, type: str, stride: int) -> None:
    model, of_x = Model(), Quantization([0.1], [7])
    x = model.input("x", (1, 4, 5, 3), "int8", signature=(-1, -1, -1, 3), quantization=of_x)
    y = model.tensor("y", dtype="int8", quantization=of_x)
    options: Dict[str, int] = {"StrideH": stride, "StrideW": 2}
    if type.endswith("POOL_2D"):
        model.operator(type, [x], [y], "Pool2DOptions", FilterHeight=1, FilterWidth=3, **options)
    else:
        filters = np.ones((1, 2, 2, 3) if type[0] == "D" else (3, 2, 2, 3), np.int8)
        w = model.constant("w", filters, quantization=Quantization([0.01], [0]))
        model.operator(type, [x, w], [y], "DepthwiseConv2DOptions" if type[0] == "D" else "Conv2DOptions", **options)
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([y]))
    pair, sides = export(tmp_path / "model.tflite"), [-(-4 // stride), 3]
    for one in (pair, optimize(pair)):
        with Predictor(one) as predictor:
            for shape, made in (((0, 4, 5, 3), (0, *sides, 3)), ((1, 4, 0, 3), (1, sides[0], 0, 3))):
                if shape[0] == 0 or not type.endswith("POOL_2D"):  # a pool needs pixels
                    assert predictor.run({"x": np.zeros(shape, np.int8)})["y"].shape == made


def test_single_pixels_of_no_pictures(tmp_path: Path) -> None:
    """Whichever order the channels have, a batch may be empty."""
    model = Model()
    x = model.input("x", (1, 4, 5, 3), signature=(-1, 4, 5, 3))
    mean, y = model.tensor("mean", (1, 1, 1, 3), signature=(-1, 1, 1, 3)), model.tensor("y", (1, 3), signature=(-1, 3))
    more = model.tensor("more", (1, 1, 1, 6), signature=(-1, 1, 1, 6))
    window = {"FilterHeight": 4, "FilterWidth": 5, "StrideH": 1, "StrideW": 1, "Padding": 1}
    model.operator("AVERAGE_POOL_2D", [x], [mean], "Pool2DOptions", **window)
    model.operator("TILE", [mean, model.constant("times", np.array([1, 1, 1, 2], np.int32))], [more], "TileOptions")
    model.operator("RESHAPE", [mean], [y], "ReshapeOptions", NewShape=[-1, 3])
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([y, more]))
    with Predictor(export(tmp_path / "model.tflite")) as predictor:
        results = predictor.run({"x": np.zeros((0, 4, 5, 3), np.float32)})
    assert [value.shape for value in results.values()] == [(0, 3), (0, 1, 1, 6)]


@pytest.mark.parametrize("size", [6, 8, 9])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (1, 3), (1, 4), (2, 3), (3, 2)])
def test_same_padding_of_pictures_of_any_size(tmp_path: Path, kernel: int, stride: int, size: int) -> None:
    model = Model()
    x, y = model.input("x", (1, 5, 5, 2), signature=(1, -1, -1, 2)), model.tensor("y")
    window = {"FilterWidth": kernel, "FilterHeight": kernel, "StrideW": stride, "StrideH": stride}
    model.operator("MAX_POOL_2D", [x], [y], "Pool2DOptions", Padding=0, **window)
    pictures = np.random.default_rng(0).standard_normal((1, size, size + 1, 2))
    assert_agrees(tmp_path, model, y, pictures.astype(np.float32))


def test_same_padding_that_caffe2_does_not_have_is_refused(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("x", (1, 5, 5, 2), signature=(1, -1, -1, 2)), model.tensor("y")
    window = {"FilterWidth": 2, "FilterHeight": 2, "StrideW": 4, "StrideH": 4}
    model.operator("MAX_POOL_2D", [x], [y], "Pool2DOptions", Padding=0, **window)
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match="needs sizes that are known"):
        export(tmp_path / "model.tflite")
