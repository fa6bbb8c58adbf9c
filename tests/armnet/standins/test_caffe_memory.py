"""Blobs of the stand-in for pycaffe that have one memory, as the real Caffe 1.0 gives it to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")

import armnet.standins.caffe as caffe

SHARING = {
    "Reshape": "reshape_param { shape { dim: 0 dim: -1 } }",
    "Flatten": "",
    "Concat": "",
    "Slice": "",
}
TEXT = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }
layer { name: "doubled" type: "Power" bottom: "data" top: "doubled" power_param { scale: 2 } }
layer { name: "other" type: "KIND" bottom: "doubled" top: "other" PARAM }
IN_PLACE
layer { name: "tripled" type: "Power" bottom: "doubled" top: "tripled" power_param { scale: 3 } }
layer { name: "added" type: "Power" bottom: "other" top: "added" power_param { shift: 1 } }
"""
RELU = 'layer { name: "relu" type: "ReLU" bottom: "other" top: "other" }'
VALUES = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 2, 2)


def made(folder: Path, kind: str, in_place: str = "") -> Any:
    path = folder / "net.prototxt"
    path.write_text(TEXT.replace("KIND", kind).replace("PARAM", SHARING[kind]).replace("IN_PLACE", in_place))
    net = caffe.Net(str(path), caffe.TEST)
    net.blobs["data"].data[...] = VALUES
    return net


@pytest.mark.parametrize("kind", SHARING)
def test_a_layer_in_place_changes_what_its_bottom_was_made_of(tmp_path: Path, kind: str) -> None:
    net = made(tmp_path, kind, RELU)
    for _ in range(2):
        net.forward()
        positive = np.maximum(2 * VALUES, 0)
        assert np.array_equal(net.blobs["doubled"].data, positive)
        assert np.array_equal(net.blobs["other"].data.reshape(-1), positive.reshape(-1))
        assert np.array_equal(net.blobs["tripled"].data, 3 * positive)
        assert np.array_equal(net.blobs["added"].data.reshape(-1), positive.reshape(-1) + 1)


@pytest.mark.parametrize("kind", SHARING)
def test_what_a_program_writes_into_one_the_other_holds(tmp_path: Path, kind: str) -> None:
    net = made(tmp_path, kind)
    net.forward()
    assert net._passes._network is not None
    net.blobs["other"].data[...] = 7
    assert np.array_equal(net.blobs["doubled"].data, np.full_like(VALUES, 7))
    assert np.array_equal(net.forward(start="tripled")["tripled"], np.full_like(VALUES, 21))


@pytest.mark.parametrize("kind", SHARING)
def test_an_array_that_a_program_holds_stays_that_of_both(tmp_path: Path, kind: str) -> None:
    net = made(tmp_path, kind)
    net.forward()
    held = net.blobs["other"].data
    net.blobs["data"].data[...] = VALUES + 1
    net.forward()
    assert np.array_equal(held.reshape(-1), 2 * (VALUES + 1).reshape(-1))
    held[...] = 5
    assert np.array_equal(net.blobs["doubled"].data, np.full_like(VALUES, 5))


@pytest.mark.parametrize("kind", SHARING)
def test_both_have_the_new_shape_after_a_reshape(tmp_path: Path, kind: str) -> None:
    net = made(tmp_path, kind)
    for rows in (1, 4):
        net.blobs["data"].reshape(rows, 3, 2, 2)
        net.blobs["data"].data[...] = rows
        net.forward()
        assert np.array_equal(net.blobs["other"].data.reshape(-1), np.full(12 * rows, 2 * rows))
        assert net.blobs["other"].data.shape[0] == rows


@pytest.mark.parametrize("kind", SHARING)
def test_an_output_and_what_it_was_made_of(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text("\n".join(TEXT.strip().splitlines()[:3]).replace("KIND", kind).replace("PARAM", SHARING[kind]))
    net = caffe.Net(str(path), caffe.TEST)
    net.blobs["data"].data[...] = VALUES
    assert np.array_equal(net.forward()["other"].reshape(-1), 2 * VALUES.reshape(-1))
    assert np.array_equal(net.blobs["doubled"].data, 2 * VALUES)


@pytest.mark.parametrize("kind", ["Reshape", "Flatten"])
def test_a_layer_that_reshapes_in_place_is_refused_as_in_caffe(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "net.prototxt"
    line = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }'
    path.write_text(f'{line}\nlayer {{ name: "r" type: "{kind}" bottom: "data" top: "data" {SHARING[kind]} }}')
    with pytest.raises(RuntimeError, match="in place"):
        caffe.Net(str(path), caffe.TEST)
