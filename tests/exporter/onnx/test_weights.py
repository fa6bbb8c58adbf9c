"""Tensors of ONNX files: every data type, external data, and contents that must not be trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from exporter.onnx.export import from_onnx
from exporter.onnx.protos import ModelProto
from exporter.onnx.reader import OnnxFile
from exporter.onnx.schema import TENSOR
from exporter.onnx.weights import DTYPES, Weights
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from runtime_arm.netdef.decoder import decode
from tests.exporter.onnx.models import model, value

BIG = np.arange(4096, dtype=np.float32).reshape(64, 64)


def read(tensor: TensorProto, folder: Any = None) -> Any:
    file = OnnxFile(ModelProto(), memoryview(b""), "m.onnx", folder and str(folder))
    return Weights(file).array(decode(TENSOR, tensor.SerializeToString()), "w")


@pytest.mark.parametrize("dtype", [dtype.name for dtype in DTYPES.values() if dtype.kind != "O"])
@pytest.mark.parametrize("raw", [False, True])
def test_every_data_type(dtype: str, raw: bool) -> None:
    array = np.array([[0, 1, 1], [0, 1, 0]] if dtype == "bool" else [[0, 1, 2], [100, 5, 6]], dtype)
    data = array.tobytes() if raw else array.reshape(-1)
    number = next(number for number, known in DTYPES.items() if known.name == dtype)
    result = read(onnx.helper.make_tensor("w", number, array.shape, data, raw=raw))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, array)


def test_strings_are_bytes() -> None:
    result = read(onnx.helper.make_tensor("w", TensorProto.STRING, [2, 1], ["ü".encode(), b""]))
    assert result.dtype == object
    assert result.tolist() == [["ü".encode()], [b""]]
    with pytest.raises(ExportError, match="w: strings must be in string_data"):
        read(TensorProto(data_type=TensorProto.STRING, dims=[1], raw_data=b"a"))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_small_and_empty_shapes(shape: Any) -> None:
    array = np.zeros(shape, np.int64)
    result = read(numpy_helper.from_array(array))
    assert result.shape == shape
    assert result.dtype == np.int64


REFUSED: Dict[str, Any] = {
    "needs? 6 elements": {"dims": [2, 3], "raw_data": bytes(20)},
    "not a multiple of 4": {"dims": [1], "raw_data": bytes(5)},
    "not possible": {"dims": [-1], "raw_data": b""},
    r"dims \[1152921504606846976, 4\] are not possible": {"dims": [1 << 60, 4], "raw_data": b""},
    "are not possible": {"dims": [0, 1 << 62], "raw_data": b""},
    r"dims \[0, 2147483648, 2147483648\] are not possible": {"dims": [0, 1 << 31, 1 << 31], "raw_data": b""},
    r"dims \[1099511627776, 0, 1099511627776\] are": {"dims": [1 << 40, 0, 1 << 40], "raw_data": b""},
    "need 1099511627776 elements": {"dims": [1 << 40], "raw_data": b""},
    "COMPLEX64 is not supported": {"dims": [1], "raw_data": b"ab", "data_type": TensorProto.COMPLEX64},
    "the data type 99 is not supported": {"dims": [1], "raw_data": b"ab", "data_type": 99},
    "does not fit into int8": {"dims": [1], "int32_data": [300], "data_type": TensorProto.INT8},
}


@pytest.mark.parametrize("problem", REFUSED)
def test_contradictory_tensors_are_refused(problem: str) -> None:
    fields = {"data_type": TensorProto.FLOAT, **REFUSED[problem]}
    with pytest.raises(ExportError, match=problem):
        read(TensorProto(**fields))


def external(location: str, **entries: Any) -> TensorProto:
    tensor = TensorProto(name="w", dims=BIG.shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def test_external_data_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 64 + BIG.tobytes())
    np.testing.assert_array_equal(read(external("weights.bin", offset=64, length=BIG.nbytes), tmp_path), BIG)


def test_a_model_with_external_data_exports_and_runs(tmp_path: Path) -> None:
    proto = model(
        [onnx.helper.make_node("Transpose", ["w"], ["t"]), onnx.helper.make_node("Add", ["x", "t"], ["y"])],
        [value("x", BIG.shape)],
        ["y"],
        {"w": BIG},
    )
    onnx.save(proto, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    with Predictor(from_onnx(tmp_path / "m.onnx")) as predictor:
        np.testing.assert_array_equal(predictor.run([BIG])["y"], BIG + BIG.T)


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("../weights.bin", "is outside the model's folder"),
        ("sub/../../weights.bin", "is outside the model's folder"),
        ("..\\weights.bin", "is outside the model's folder"),
        ("/etc/passwd", "is outside the model's folder"),
        ("link.bin", "is outside the model's folder"),
        ("none.bin", "no such file"),
        (".", "no such file"),
        ("nul\0byte", "external data"),
    ],
)
def test_external_data_outside_of_the_folder_is_refused(tmp_path: Path, location: str, problem: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(BIG.tobytes())
    os.symlink(tmp_path / "weights.bin", folder / "link.bin")
    with pytest.raises(ExportError, match=problem):
        read(external(location), folder)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"length": 10}, "need 16384 bytes, the data has 10"),
        ({"offset": 1}, "ends at byte 16385, weights.bin has 16384"),
        ({"offset": -4}, "the offset '-4'"),
        ({"offset": "9" * 30}, "the offset"),
        ({"length": "NaN"}, "the length 'NaN'"),
    ],
)
def test_external_data_of_another_length_is_refused(tmp_path: Path, entries: Any, problem: str) -> None:
    (tmp_path / "weights.bin").write_bytes(BIG.tobytes())
    with pytest.raises(ExportError, match=problem):
        read(external("weights.bin", **entries), tmp_path)


def test_external_data_of_a_model_in_memory_is_refused() -> None:
    with pytest.raises(ExportError, match="does not come from a folder"):
        read(external("weights.bin"))


def sparse(values: Any, indices: Any, dims: Any) -> onnx.SparseTensorProto:
    return onnx.helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), "w"),
        numpy_helper.from_array(np.array(indices, np.int64)),
        dims,
    )


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_initializers(indices: Any) -> None:
    proto = model([onnx.helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [2, 3])], ["y"])
    proto.graph.sparse_initializer.append(sparse([7, 8], indices, [2, 3]))
    with Predictor(from_onnx(proto)) as predictor:
        np.testing.assert_array_equal(predictor.run([np.ones((2, 3), np.float32)])["y"], [[1, 8, 1], [1, 1, 9]])


@pytest.mark.parametrize(
    ("indices", "problem"),
    [([1, 6], "outside dims"), ([-1, 2], "outside dims"), ([1], "2 values"), ([[0, 3], [0, 0]], "outside dims")],
)
def test_sparse_indices_are_checked(indices: Any, problem: str) -> None:
    with pytest.raises(ExportError, match=problem):
        Weights(OnnxFile(onnx.ModelProto(), memoryview(b""), "m", None)).sparse(sparse([7, 8], indices, [2, 3]), "w")
