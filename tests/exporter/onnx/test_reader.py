"""Opening ONNX files: weights are not copied, and files that are not models are refused."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from exporter.onnx.export import from_onnx
from exporter.onnx.reader import open_onnx, parse_onnx
from exporter.onnx.weights import Weights
from runtime_arm.errors import ArmnetError, FormatError, ResourceError
from tests.exporter.onnx.models import model, value
from tests.support.paths import DEMO

DIGITS = DEMO / "digits.onnx"
RNG = np.random.default_rng(0)
BIG = RNG.standard_normal((64, 64)).astype(np.float32)


def add_model(weights: np.ndarray) -> onnx.ModelProto:
    node = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    return model([node], [value("x", weights.shape, weights.dtype)], ["y"], {"w": weights})


def test_big_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(add_model(BIG), str(path))
    file = open_onnx(path)
    (tensor,) = file.model.graph.initializer
    weights = Weights(file).array(tensor, "w")
    np.testing.assert_array_equal(weights, BIG)
    assert np.shares_memory(weights.view(np.uint8), np.frombuffer(file.data, np.uint8))


def test_weights_reach_the_pair_without_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(add_model(BIG), str(path))
    (fill,) = from_onnx(path).init_net.op
    owner = fill.get_tensor("values")
    while isinstance(owner, np.ndarray):
        assert not owner.flags.owndata
        owner = owner.base
    assert isinstance(memoryview(owner).obj, mmap.mmap)


@pytest.mark.parametrize("typed", [False, True])
def test_weights_in_typed_fields(typed: bool) -> None:
    proto = add_model(BIG)
    tensor = proto.graph.initializer[0]
    if typed:
        tensor.ClearField("raw_data")
        tensor.float_data.extend(BIG.reshape(-1).tolist())
    file = open_onnx(proto)
    np.testing.assert_array_equal(Weights(file).array(file.model.graph.initializer[0], "w"), BIG)


def test_weights_with_explicit_locations() -> None:
    proto = add_model(BIG)
    proto.graph.initializer[0].data_location = onnx.TensorProto.DEFAULT  # as onnxruntime's quantiser writes it
    file = open_onnx(proto)
    np.testing.assert_array_equal(Weights(file).array(file.model.graph.initializer[0], "w"), BIG)


def test_weights_in_constants_and_subgraphs_are_read() -> None:
    constant = onnx.helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(BIG))
    branch = onnx.helper.make_graph([constant], "branch", [], [value("c", BIG.shape)])
    node = onnx.helper.make_node("If", ["p"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([node], [value("p", [], np.bool_)], ["y"])
    fills = from_onnx(proto).init_net.op
    assert [fill.get_tensor("values").shape for fill in fills] == [BIG.shape, BIG.shape]


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"hello, world", b"\x0a\xff\xff\xff\xff\xff", bytes(1000), b"\x08\x07"]
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"bad\.onnx"):
        from_onnx(path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ResourceError, match=r"none\.onnx: No such file"):
        from_onnx("none.onnx")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_models_are_refused(part: float) -> None:
    data = add_model(BIG).SerializeToString()
    with pytest.raises(ArmnetError):
        from_onnx_bytes(data[: int(len(data) * part)])


def test_endless_nesting_is_refused() -> None:
    data = b""
    for tag in (b"\x32", b"\x2a", b"\x0a") * 3000:  # graph in attribute in node in graph ...
        data = tag + _varint(len(data)) + data
    with pytest.raises(FormatError, match="deep"):
        parse_onnx(b"\x3a" + _varint(len(data)) + data, "deep", None)


def _varint(value: int) -> bytes:
    from runtime_arm.netdef.wire import encode_varint

    return encode_varint(value)


def from_onnx_bytes(data: bytes) -> None:
    """Run from_onnx on a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(data)
        from_onnx(path)


@pytest.mark.parametrize("seed", range(4))
def test_damage_to_a_real_model_is_refused_or_harmless(seed: int) -> None:
    """Flipped bits, missing bytes and truncation give an ArmnetError of one line, or no error."""
    original = DIGITS.read_bytes()
    random = np.random.default_rng(seed)
    for _ in range(40):
        data, at = bytearray(original), int(random.integers(len(original)))
        damage = random.integers(3)
        if damage == 0:
            data[at] ^= 1 << int(random.integers(8))
        else:
            del data[at : at + 3 if damage == 1 else None]
        try:
            from_onnx_bytes(bytes(data))
        except ArmnetError as error:
            refusal = str(error)
            assert "m.onnx" in refusal
            assert refusal.isprintable()


@pytest.mark.parametrize("changed", [b"A\nd", b"A\rd", b"A\x1bd"])
def test_line_breaks_in_the_name_of_an_operator_do_not_break_the_message(changed: bytes) -> None:
    with pytest.raises(ArmnetError, match="no such operator") as caught:
        from_onnx_bytes(add_model(BIG[:2]).SerializeToString().replace(b"Add", changed))
    assert str(caught.value).isprintable()


def test_names_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(FormatError, match=r"m\.onnx: no ONNX model: graph node\[0\] op_type: a string that is not"):
        parse_onnx(add_model(BIG[:2]).SerializeToString().replace(b"Add", b"A\xff\xfe"), "m.onnx", None)


SMALL = add_model(BIG[:2, :2]).SerializeToString()


@given(st.integers(0, len(SMALL) - 1), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_harmless(at: int, byte: int) -> None:
    with contextlib.suppress(ArmnetError):
        from_onnx_bytes(SMALL[:at] + bytes([byte]) + SMALL[at + 1 :])
