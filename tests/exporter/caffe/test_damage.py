"""Damaged and hostile Caffe files give a one-line error and use no more memory than the file justifies."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Sequence

import numpy as np
import pytest

from exporter.caffe.prototxt import message_class
from exporter.caffe.weights import read_weights
from runtime_arm.errors import ArmnetError, FormatError
from tests.exporter.caffe.models import caffemodel, net, pair_of

INNER = 'layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 5 } }'
TEXT = net(INNER, dims=[1, 4])
MODEL = caffemodel({"f": [np.arange(20.0).reshape(5, 4), np.arange(5.0)]})


def refused_or_exported(folder: Path, text: str, model: bytes) -> bool:
    """Whether the files were exported; a refusal must be one line."""
    refusal = ""
    try:
        pair_of(folder, text, model)
    except ArmnetError as error:
        refusal = str(error)
    assert not refusal or ("\n" not in refusal and "net." in refusal)
    return not refusal


def test_a_truncated_caffemodel_is_refused(tmp_path: Path) -> None:
    assert refused_or_exported(tmp_path, TEXT, MODEL)
    assert not any(refused_or_exported(tmp_path, TEXT, MODEL[:size]) for size in range(len(MODEL)))


def test_flipped_bits_never_escape(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        damaged = bytearray(MODEL)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] ^= 1 << random.integers(8)
        outcomes.append(refused_or_exported(tmp_path, TEXT, bytes(damaged)))
    assert {True, False} == set(outcomes)


def test_damaged_text_never_escapes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        characters = list(TEXT)
        for _ in range(random.integers(1, 4)):
            characters[random.integers(len(characters))] = chr(random.integers(32, 127))
        refused_or_exported(tmp_path, "".join(characters), MODEL)


@pytest.mark.parametrize(
    "wrong",
    [
        'num_output: "five"',
        "num_output: -1",
        "num_output: 5.5",
        "numoutput: 5",
        "num_output: 99999999999",
        "bias_term: maybe",
    ],
)
def test_values_of_wrong_types_are_refused_with_their_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(FormatError, match=r"net\.prototxt: not a prototxt: 2:") as caught:
        pair_of(tmp_path, TEXT.replace("num_output: 5", wrong), MODEL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [r"a\nb", r"\033[2J", "x" * 9999])
def test_names_and_types_fit_into_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArmnetError, match="armnet has no such layer type") as caught:
        pair_of(tmp_path, f'layer {{ name: "{name}" type: "{name}" top: "x" }}')
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < len(str(tmp_path)) + 700


def test_absurd_dimensions_are_refused(tmp_path: Path) -> None:
    file = message_class("WeightFile").FromString(MODEL)
    file.layer[0].blobs[0].shape.dim[0] = 2**60
    with pytest.raises(ArmnetError, match=r"layer 'f' .*blob 0: .*1152921504606846976"):
        pair_of(tmp_path, TEXT, file.SerializeToString())
    with pytest.raises(ArmnetError, match="bytes"):
        pair_of(
            tmp_path,
            'layer { name: "d" type: "DummyData" top: "y" dummy_data_param { shape { dim: 99999999 dim: 99999999 } } }',
        )
    with pytest.raises(ArmnetError, match="layer 'x'"):
        pair_of(tmp_path, net(INNER, dims=[1, -4]), MODEL)


def field(number: int, content: bytes) -> bytes:
    """A field with a length, of a number below 16 or of 100."""
    tag = bytes([number << 3 | 2]) if number < 16 else bytes([0xA2, 0x06])
    assert len(content) < 128
    return tag + bytes([len(content)]) + content


VALUES = np.arange(4, dtype="<f4")
DIMS = field(7, field(1, b"\x02\x02"))


@pytest.mark.parametrize(
    "blob",
    [
        DIMS + field(5, VALUES.tobytes()),
        DIMS + field(5, VALUES[:1].tobytes()) + field(5, VALUES[1:].tobytes()),
        DIMS + b"".join(b"\x2d" + value.tobytes() for value in VALUES),
        DIMS + field(8, VALUES.astype("<f8").tobytes()),
        DIMS + b"".join(b"\x41" + value.tobytes() for value in VALUES.astype("<f8")),
        field(7, b"\x08\x02\x08\x02") + field(5, VALUES.tobytes()) + field(6, VALUES.tobytes()),
    ],
    ids=["packed", "in two parts", "not packed", "double", "double, not packed", "dimensions not packed, gradients"],
)
def test_numbers_are_read_in_every_form(tmp_path: Path, blob: bytes) -> None:
    (tmp_path / "net.caffemodel").write_bytes(field(100, field(1, b"f") + field(7, blob)))
    (found,) = read_weights(tmp_path / "net.caffemodel")["f"]
    np.testing.assert_array_equal(found.array(), VALUES.reshape(2, 2))


@pytest.mark.parametrize(
    ("blobs", "problem"),
    [
        ([np.zeros((5, 4))], "needs 2 blobs, the caffemodel has 1"),
        ([np.zeros((5, 4)), np.zeros(5), np.zeros(1)], "needs 2 blobs, the caffemodel has 3"),
        ([np.zeros((4, 4)), np.zeros(5)], r"blob 0 has the shape \[4, 4\]"),
        ([np.zeros((5, 4)), np.zeros(4)], r"blob 1 has the shape \[4\]"),
        ([np.zeros((5, 3)), np.zeros(5)], r"layer 'f'.*5.*3|blob 0 has the shape \[5, 3\]"),
    ],
    ids=["too few", "too many", "outputs", "bias", "inputs"],
)
def test_blobs_that_do_not_fit_are_named(tmp_path: Path, blobs: Sequence[np.ndarray], problem: str) -> None:
    with pytest.raises(ArmnetError, match=problem) as caught:
        pair_of(tmp_path, TEXT, caffemodel({"f": blobs}))
    assert "layer 'f' (InnerProduct)" in str(caught.value)
    assert "net.prototxt" in str(caught.value)


def test_a_flood_of_layers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.caffe.weights.MOST_MESSAGES", 100)
    (tmp_path / "net.caffemodel").write_bytes(field(100, b"") * 101)
    with pytest.raises(FormatError, match=r"net\.caffemodel: .*more than 100"):
        read_weights(tmp_path / "net.caffemodel")


def test_importing_takes_less_memory_than_the_file(tmp_path: Path) -> None:
    model = caffemodel({"f": [np.ones((500, 1000)), np.ones(500)]})
    text = net(INNER.replace("num_output: 5", "num_output: 500"), dims=[1, 1000])
    pair_of(tmp_path, text, model)
    tracemalloc.start()
    pair_of(tmp_path, text, (tmp_path / "net.caffemodel").read_bytes())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5 * len(model)  # the test itself holds the file once
