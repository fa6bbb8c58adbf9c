"""Damaged and hostile .tflite files give a one-line error and use no more memory than the file justifies."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any, Sequence

import flatbuffers
import numpy as np
import pytest
import tflite

from armnet.__main__ import main
from exporter import export
from exporter.tflite.flatbuffer import FlatBuffer, open_flatbuffer
from runtime_arm.errors import ArmnetError, ExportError, FormatError
from tests.exporter.tflite.cases_layout import CASES
from tests.support.tflite_models import Model, Quantization, Sparsity


def network(**more: Any) -> bytes:
    """A convolution and a reshape; ``more``: options of the filters' tensor."""
    rng = np.random.default_rng(2)
    model = Model()
    x = model.input("x", (1, 4, 4, 2))
    filters = model.constant("filters", rng.standard_normal((3, 3, 3, 2)), **more)
    bias, y = model.constant("bias", np.zeros(3)), model.tensor("y", (1, 4, 4, 3))
    model.operator("CONV_2D", [x, filters, bias], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1)
    z = model.tensor("z", (1, 48))
    model.operator("RESHAPE", [y, model.constant("shape", np.array([1, -1], np.int32))], [z])
    return model.to_bytes([z])


def refused_or_exported(folder: Path, data: bytes) -> bool:
    """Whether the file was exported; a refusal must be one line that names the file."""
    path = folder / "net.tflite"
    path.write_bytes(data)
    refusal = ""
    try:
        export(path)
    except ArmnetError as error:
        refusal = str(error)
    assert not refusal or ("\n" not in refusal and "net.tflite" in refusal)
    return not refusal


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_picture_that_is_declared_as_something_else(tmp_path: Path, shape: Sequence[int]) -> None:
    rng = np.random.default_rng(2)
    model = Model()
    x = model.input("x", (1, 4, 4, 2))
    filters = model.constant("filters", rng.standard_normal((3, 3, 3, 2)))
    bias, y = model.constant("bias", np.zeros(3)), model.tensor("y", (1, 4, 4, 3))
    model.operator("CONV_2D", [x, filters, bias], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1)
    z = model.tensor("z", shape, has_rank=True)
    model.operator(
        "MEAN", [y, model.constant("axes", np.array([1, 2], np.int32))], [z], "ReducerOptions", KeepDims=True
    )
    refused_or_exported(tmp_path, model.to_bytes([z]))


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    data = network()
    assert refused_or_exported(tmp_path, data)
    assert not any(refused_or_exported(tmp_path, data[:size]) for size in range(0, len(data) - 1, 7))


def test_flipped_bits_never_escape(tmp_path: Path) -> None:
    random, data = np.random.default_rng(0), network()
    outcomes = []
    for _ in range(250):
        damaged = bytearray(data)
        damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
        outcomes.append(refused_or_exported(tmp_path, bytes(damaged)))
    assert {True, False} == set(outcomes)


@pytest.mark.parametrize("value", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_offsets_and_lengths_out_of_bounds_never_escape(tmp_path: Path, value: int) -> None:
    data = network()
    for at in range(0, len(data) - 3, 4):
        refused_or_exported(tmp_path, data[:at] + value.to_bytes(4, "little") + data[at + 4 :])


@pytest.mark.parametrize(
    "name",
    [
        "STRIDED_SLICE:plain",
        "SPLIT_V",
        "TRANSPOSE_CONV:same",
        "ONE_HOT",
        "BUCKETIZE",
        "MIRROR_PAD:symmetric",
        "SPACE_TO_BATCH_ND",
        "UNSORTED_SEGMENT_MAX",
    ],
)
def test_damaged_arguments_of_operators_never_escape(tmp_path: Path, name: str) -> None:
    random, (data, _) = np.random.default_rng(1), CASES[name]()
    for _ in range(60):
        at = int(random.integers(len(data) // 4)) * 4
        value = int(random.choice([0, 1, 2, 5, 0xFFFFFFFF, 0x7FFFFFFF, 1000]))
        refused_or_exported(tmp_path, data[:at] + value.to_bytes(4, "little") + data[at + 4 :])


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    for content in (b"short", b"\0" * 64):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"net\.tflite: no TFLite model: the identifier"):
            export(path)


@pytest.mark.parametrize(
    ("quantization", "problem"),
    [
        (Quantization([0.1, 0.2], [0, 0], 0), "2 scales along dimension 0"),
        (Quantization([0.1, 0.2, 0.3], [0, 0], 0), "3 scales and 2 zero points"),
        (Quantization([0.1, 0.2, 0.3], [0, 0, 0], 9), "3 scales along dimension 9"),
        (Quantization([np.nan]), "scales must be finite numbers, one is nan"),
        (Quantization([np.inf]), "scales must be finite numbers, one is inf"),
        (Quantization([0.1], [200]), "a zero point lies outside INT8"),
    ],
)
def test_impossible_quantisation_is_refused(tmp_path: Path, quantization: Quantization, problem: str) -> None:
    filters = {"dtype": "int8", "content": bytes(54), "quantization": quantization}
    path = tmp_path / "net.tflite"
    path.write_bytes(network(**filters))
    with pytest.raises(ExportError) as caught:
        export(path)
    message = str(caught.value)
    assert "net.tflite: CONV_2D (operator 0) -> 'y': " in message
    assert "tensor 'filters'" in message
    assert problem in message


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_activations_need_positive_scales(tmp_path: Path, scale: float) -> None:
    model = Model()
    x = model.input("x", (4,))
    y = model.tensor("y", (4,), "int8", quantization=Quantization([scale], [0]))
    model.operator("QUANTIZE", [x], [y])
    (tmp_path / "net.tflite").write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match=f"tensor 'y' does not fit: scales must be positive numbers, one is {scale}"):
        export(tmp_path / "net.tflite")


def test_a_buffer_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(network(content=bytes(7)))
    with pytest.raises(ExportError, match=r"tensor 'filters': FLOAT32 of shape \(3, 3, 3, 2\) takes 216 bytes.*has 7"):
        export(path)


@pytest.mark.parametrize(
    ("order", "blocks", "dimensions", "problem"),
    [
        ((0, 0), (), (4, 5), "do not make 2 dimensions"),
        ((0, 1), (), (4, 6), "has 6 elements instead of 5"),
        ((0, 1), (), (4, ([0, 1], [0])), "2 segments do not divide 1 indices among 4"),
        ((0, 1), (), (4, ([0, 1, 1, 1, 2], [0, 7])), "an index lies outside a sparse dimension of 5"),
        ((0, 1), (), (4, ([0, 2, 1, 1, 2], [0, 1])), "lies outside"),
        ((0, 1), (), (4, ([0, 1, 1, 1, 2], [0, -1])), "negative"),
        ((0, 1), (), (4, ([0, 1, 1, 1, 1], [0])), "have 1 values, its buffer 2"),
        ((0, 1, 2), (0,), (4, 5, 3), "blocks of 3 do not divide dimension 0"),
    ],
)
def test_contradictory_sparse_weights_are_refused(
    tmp_path: Path, order: Sequence[int], blocks: Sequence[int], dimensions: Sequence[Any], problem: str
) -> None:
    model = Model()
    x, y = model.input("x", (2, 5)), model.tensor("y", (2, 4))
    weights = model.tensor(
        "w", (4, 5), content=np.ones(2, np.float32).tobytes(), sparsity=Sparsity(order, blocks, dimensions)
    )
    model.operator("FULLY_CONNECTED", [x, weights, -1], [y], "FullyConnectedOptions")
    path = tmp_path / "net.tflite"
    path.write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match="tensor 'w'") as caught:
        export(path)
    assert problem in str(caught.value)


@pytest.mark.parametrize(("content", "dimensions"), [(8, (60000, 60000)), (0, (60000, ([0, 0], [])))])
def test_a_sparse_tensor_that_would_fill_the_memory_is_refused(
    tmp_path: Path, content: int, dimensions: Sequence[Any]
) -> None:
    model = Model()
    x, y = model.input("x", (1, 60000)), model.tensor("y")
    sparsity = Sparsity((0, 1), (), dimensions)
    weights = model.tensor("w", (60000, 60000), content=bytes(content), sparsity=sparsity)
    model.operator("FULLY_CONNECTED", [x, weights, -1], [y], "FullyConnectedOptions")
    path = tmp_path / "net.tflite"
    path.write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match=f"{content} bytes cannot be a sparse float32 tensor"):
        export(path)


def test_tables_that_share_parts_are_limited() -> None:
    """The total amount read is limited by the file's size, however often parts of it are referenced."""
    buffer = FlatBuffer(memoryview(bytes(1000)))
    buffer.spend(16 * 1000)
    with pytest.raises(FormatError, match="share parts"):
        buffer.spend(1)


def test_a_table_shared_thousands_of_times_is_refused(tmp_path: Path) -> None:
    """A vector of offsets that all point to one tensor, and several graphs that share it."""
    builder = flatbuffers.Builder(1024)

    def tables(ends: Sequence[int]) -> int:
        builder.StartVector(4, len(ends), 4)
        for end in reversed(ends):
            builder.PrependUOffsetTRelative(end)
        return int(builder.EndVector())

    tflite.TensorStart(builder)
    tensors = tables([tflite.TensorEnd(builder)] * 3000)
    graphs = []
    for _ in range(3):
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensors)
        graphs.append(tflite.SubGraphEnd(builder))
    tflite.BufferStart(builder)
    buffers, subgraphs = tables([tflite.BufferEnd(builder)]), tables(graphs)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddBuffers(builder, buffers)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    (tmp_path / "net.tflite").write_bytes(builder.Output())
    with pytest.raises(FormatError, match="share parts"):
        export(tmp_path / "net.tflite")


def test_a_vtable_outside_the_file_is_refused() -> None:
    data = bytearray(32)
    data[0:4], data[4:8], data[8:12] = (8).to_bytes(4, "little"), b"TFL3", (1 << 30).to_bytes(4, "little")
    with pytest.raises(FormatError, match="outside the file of 32 bytes"):
        open_flatbuffer(memoryview(bytes(data)), b"TFL3", "Model")


def test_the_command_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(network()[:200])
    assert main(["export", str(path), "-o", str(tmp_path / "pair")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "pair").exists()


def test_custom_operators_are_refused_by_name(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("x", (2,)), model.tensor("y", (2,))
    model.operator("CUSTOM", [x], [y], custom="FancyOp")
    path = tmp_path / "net.tflite"
    path.write_bytes(model.to_bytes([y]))
    with pytest.raises(ExportError, match=r"CUSTOM 'FancyOp' \(operator 0\) -> 'y': armnet has no such operator"):
        export(path)


@pytest.mark.parametrize("type", ["ONE_HOT", "FILL"])
def test_a_size_without_data_takes_no_memory(tmp_path: Path, type: str) -> None:
    model = Model()
    one, y = model.constant("one", np.float32(1)), model.tensor("y")
    if type == "ONE_HOT":
        x, depth = model.input("x", (2,), "int32"), model.constant("depth", np.int32(1 << 28))
        model.operator(type, [x, depth, one, one], [y], "OneHotOptions", Axis=-1)
    else:
        model.operator(type, [model.constant("shape", np.array([1 << 14, 1 << 14], np.int32)), one], [y])
    tracemalloc.start()
    refused_or_exported(tmp_path, model.to_bytes([y]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24
