"""Complex tensors between an RFFT2D and real numbers, held against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

from armnet.comparison import compare
from device_tests.suite.tolerance import assert_close, assert_each_close
from exporter import export
from exporter.compare.original_run import run_original
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.support.tflite_models import Model, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
SHAPE, LENGTHS = (2, 6, 16), (4, 16)  # the spectrum is (2, 4, 9)


def floats(*shape: int) -> Any:
    return np.random.default_rng(8).standard_normal(shape).astype(np.float32)


def with_spectrum(lengths: Sequence[int] = LENGTHS, signature: Any = None) -> Any:
    """A model that has made a spectrum of its input, and the spectrum."""
    model = Model()
    x, spectrum = model.input("x", SHAPE, signature=signature), model.tensor("s", (), "complex64")
    model.operator("RFFT2D", [x, model.constant("lengths", np.array(lengths, np.int32))], [spectrum], "Rfft2dOptions")
    return model, spectrum


def assert_agrees(folder: Path, model: Any, y: int, feeds: Any) -> None:
    data = model.to_bytes([y])
    (expected,), (plain,) = reference(data, feeds), ours(folder, data, feeds)
    with Predictor(optimize(export(folder / "model.tflite"))) as predictor:
        (optimised,) = predictor.run(feeds).values()
    for result in (plain, optimised):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        assert_close(result, expected, terms=int(np.prod(LENGTHS)))


@pytest.mark.parametrize("lengths", [(1, 16), (4, 8), (2, 32)])
@pytest.mark.parametrize("part", ["COMPLEX_ABS", "REAL", "IMAG"])
def test_parts(tmp_path: Path, part: str, lengths: Any) -> None:
    model, spectrum = with_spectrum(lengths)
    y = model.tensor("y")
    model.operator(part, [spectrum], [y])
    assert_agrees(tmp_path, model, y, {"x": floats(*SHAPE)})


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize("batch", [None, 2, 3])
@pytest.mark.parametrize(
    ("type", "operands", "options", "fields"),
    [
        ("RESHAPE", [i32(-1, 9)], "ReshapeOptions", {}),
        ("SQUEEZE", [], "SqueezeOptions", {"SqueezeDims": [1]}),
        ("EXPAND_DIMS", [i32(1)], "ExpandDimsOptions", {}),
        ("TRANSPOSE", [i32(1, 0, 2)], "TransposeOptions", {}),
        ("SLICE", [i32(0, 1, 2), i32(1, 2, -1)], "SliceOptions", {}),
        ("STRIDED_SLICE", [i32(0, 1, 0), i32(2, 4, 9), i32(1, 2, 2)], "StridedSliceOptions", {}),
        ("TILE", [i32(1, 2, 1)], "TileOptions", {}),
    ],
)
def test_elements_are_moved(
    tmp_path: Path, type: str, operands: Sequence[Any], options: str, fields: Any, batch: Any
) -> None:
    """With a batch that is fixed, and with two values of one that is open."""
    lengths = (1, 16) if type == "SQUEEZE" else LENGTHS
    model, spectrum = with_spectrum(lengths, None if batch is None else (-1, *SHAPE[1:]))
    moved, y = model.tensor("moved", dtype="complex64"), model.tensor("y")
    inputs = [spectrum, *(model.constant(f"c{index}", value) for index, value in enumerate(operands))]
    model.operator(type, inputs, [moved], options, **fields)
    model.operator("COMPLEX_ABS", [moved], [y])
    assert_agrees(tmp_path, model, y, {"x": floats(batch or 2, *SHAPE[1:])})


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_spectrum_is_reshaped_to_a_computed_shape(tmp_path: Path, batch: int) -> None:
    """As Keras does: the batch is cut from the shape and packed with the other sizes."""
    model, spectrum = with_spectrum(signature=(-1, *SHAPE[1:]))
    shape, count, wanted = (model.tensor(name, (), "int32") for name in ("shape", "count", "wanted"))
    moved, y = model.tensor("moved", (), "complex64"), model.tensor("y")
    model.operator("SHAPE", [spectrum], [shape], "ShapeOptions", OutType=2)
    bounds = [model.constant(f"c{i}", i32(i)) for i in (0, 1, 1)]
    model.operator("STRIDED_SLICE", [shape, *bounds], [count], "StridedSliceOptions", ShrinkAxisMask=1)
    model.operator("PACK", [count, model.constant("n", np.array(36, np.int32))], [wanted], "PackOptions", ValuesCount=2)
    model.operator("RESHAPE", [spectrum, wanted], [moved])
    model.operator("COMPLEX_ABS", [moved], [y])
    assert_agrees(tmp_path, model, y, {"x": floats(batch, *SHAPE[1:])})


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_casts_to_real_numbers(tmp_path: Path, dtype: str) -> None:
    model, spectrum = with_spectrum()
    y = model.tensor("y", dtype=dtype)
    model.operator("CAST", [spectrum], [y], "CastOptions")
    data, feeds = model.to_bytes([y]), {"x": np.floor(3 * floats(*SHAPE)) * (np.arange(2) > 0)[:, None, None]}
    feeds["x"] = feeds["x"].astype(np.float32)
    (expected,), (result,) = reference(data, feeds), ours(tmp_path, data, feeds)
    assert result.dtype == expected.dtype
    close = np.abs(result.astype(np.float64) - expected) <= (1 if dtype == "int32" else 0.1)  # sums near an integer
    assert close.all()
    assert not expected[0].any() or dtype == "int32"


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_casts_from_real_numbers(tmp_path: Path, dtype: str) -> None:
    model = Model()
    x, made, y = model.input("x", (3, 4), dtype), model.tensor("made", dtype="complex64"), model.tensor("y")
    model.operator("CAST", [x], [made], "CastOptions")
    model.operator("COMPLEX_ABS", [made], [y])
    assert_agrees(tmp_path, model, y, {"x": (9 * floats(3, 4)).astype(dtype)})


@pytest.mark.parametrize("part", ["REAL", "IMAG"])
def test_products(tmp_path: Path, part: str) -> None:
    """With a constant that has fewer dimensions."""
    model, spectrum = with_spectrum()
    factor = (floats(4, 9) + 1j * floats(4, 9)[::-1]).astype(np.complex64)
    made, y = model.tensor("made", dtype="complex64"), model.tensor("y")
    constant = model.constant("factor", factor)
    model.operator("MUL", [spectrum, constant], [made], "MulOptions")
    model.operator(part, [made], [y])
    x = floats(*SHAPE)
    parts = np.fft.rfft2(x[:, :4].astype(np.float64)) * factor  # LiteRT multiplies complex numbers of one shape only
    (result,) = ours(tmp_path, model.to_bytes([y]), {"x": x})
    wanted = (parts.real if part == "REAL" else parts.imag).astype(np.float32)
    assert_close(result, wanted, terms=parts.size)


def test_a_spectrum_is_compared_as_pairs_of_floats(tmp_path: Path) -> None:
    model, spectrum = with_spectrum()
    y = model.tensor("y")
    model.operator("COMPLEX_ABS", [spectrum], [y])
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([y]))
    blobs = {seen.name: seen.value for seen in run_original([tmp_path / "model.tflite"], {"x": floats(*SHAPE)}).blobs}
    assert_each_close(blobs["y"], np.hypot(blobs["s"][..., 0], blobs["s"][..., 1]))
    found = compare([tmp_path / "model.tflite"], export(tmp_path / "model.tflite"), {"x": floats(*SHAPE)})
    assert [blob.blob for blob in found.blobs] == ["s", "y"]
    assert found.first is None


def test_other_operators_on_complex_numbers_are_refused(tmp_path: Path) -> None:
    model, spectrum = with_spectrum()
    y = model.tensor("y", dtype="complex64")
    model.operator("NEG", [spectrum], [y])
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match="armnet has NEG for real numbers, not for complex ones"):
        export(tmp_path / "model.tflite")
    model.operators.pop()
    (tmp_path / "model.tflite").write_bytes(model.to_bytes([spectrum]))
    with pytest.raises(ExportError, match="output 's' has the type COMPLEX64"):
        export(tmp_path / "model.tflite")
