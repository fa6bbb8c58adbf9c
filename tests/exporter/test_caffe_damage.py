"""Damaged and hostile Caffe files: one line of our own, and no memory that the file does not earn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exporter.prototxt import message_class
from runtime_arm.errors import ArmnetError, FormatError
from tests.exporter.caffe_models import caffemodel, net, pair_of

INNER = 'layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 5 } }'
TEXT = net(INNER, dims=[1, 4])
MODEL = caffemodel({"f": [np.arange(20.0).reshape(5, 4), np.arange(5.0)]})


def refused_or_exported(folder: Path, text: str, model: bytes) -> bool:
    """Whether a pair came of it; what is refused is refused in one line."""
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


@pytest.mark.parametrize("wrong", ['num_output: "five"', "num_output: -1", "num_output: 5.5", "numoutput: 5",
                                   "num_output: 99999999999", "bias_term: maybe"])
def test_text_of_wrong_types_is_refused_by_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(FormatError, match=r"net\.prototxt: is no prototxt: 2:") as caught:
        pair_of(tmp_path, TEXT.replace("num_output: 5", wrong), MODEL)
    assert "\n" not in str(caught.value)


def test_absurd_dimensions_are_not_believed(tmp_path: Path) -> None:
    file = message_class("WeightFile").FromString(MODEL)
    file.layer[0].blobs[0].shape.dim[0] = 2**60
    with pytest.raises(ArmnetError, match=r"layer 'f' .*blob 0: .*1152921504606846976"):
        pair_of(tmp_path, TEXT, file.SerializeToString())
    with pytest.raises(ArmnetError, match="bytes"):
        pair_of(tmp_path, 'layer { name: "d" type: "DummyData" top: "y" dummy_data_param { shape { dim: 99999999 '
                          "dim: 99999999 } } }")
    with pytest.raises(ArmnetError, match="layer 'x'"):
        pair_of(tmp_path, net(INNER, dims=[1, -4]), MODEL)
