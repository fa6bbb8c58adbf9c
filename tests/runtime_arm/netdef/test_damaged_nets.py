"""Damaged bytes give a net or a FormatError, and take no more memory than their size justifies."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Optional

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import FormatError
from runtime_arm.netdef import NetDef
from runtime_arm.netdef.messages import message_class
from tests.runtime_arm.netdef import protobuf_bytes as pb
from tests.runtime_arm.netdef.strategies import nets

FILES = [
    "models/caffe2/squeezenet_v1.1_reconstructed/squeezeNetPredict.pb",
    "models/caffe2/predict_only_mobilenet_v2_quant/model.pb",
    "models/caffe2/superres_from_onnx/predict_net.pb",
    "models/caffe2/superres_from_onnx/init_net.pb",
]


def read(data: bytes) -> Optional[NetDef]:
    """The net, or None if the bytes are refused correctly: in one line that starts with the source."""
    try:
        return NetDef.from_bytes(data, "damaged.pb")
    except FormatError as error:
        message = str(error)
    assert message.startswith("damaged.pb: ")
    assert len(message.splitlines()) == 1
    return None


def as_protobuf_reads(data: bytes) -> Optional[NetDef]:
    """The net of the same bytes after a pass through protobuf; None if protobuf refuses them."""
    message = message_class("NetDef")()
    try:
        message.ParseFromString(data)
    except Exception:  # protobuf's implementations raise different things
        return None
    return read(message.SerializePartialToString())


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_give_a_net_or_a_refusal(shared: Path, name: str) -> None:
    original = (shared / name).read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        data = bytearray(original)
        for position in rng.integers(0, min(len(data), 4000), rng.integers(1, 4)):
            data[position] ^= 1 << rng.integers(0, 8)
        refused += read(bytes(data)) is None
    assert 0 < refused < 300


@pytest.mark.parametrize("name", FILES)
def test_cut_files_give_a_net_or_a_refusal(shared: Path, name: str) -> None:
    original = (shared / name).read_bytes()
    whole = NetDef.from_bytes(original)
    refused = 0
    for cut in np.linspace(0, len(original) - 1, 300).astype(int):
        net = read(original[:cut])
        refused += net is None
        assert net is None or net != whole
    assert refused > 250


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bytes_give_a_net_or_a_refusal(data: bytes) -> None:
    read(data)


@pytest.mark.filterwarnings("ignore:Unexpected end-group tag")  # of protobuf
@given(nets, st.data())
@settings(max_examples=200)
def test_damaged_bytes_are_read_as_protobuf_reads_them(net: NetDef, data: st.DataObject) -> None:
    damaged = bytearray(net.to_bytes())
    if not damaged:
        return
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] = data.draw(st.integers(0, 255))
    found, expected = read(bytes(damaged)), as_protobuf_reads(bytes(damaged))
    assert found is None or expected is None or found == expected


@pytest.mark.parametrize(
    "data",
    [
        pb.tensor(pb.integer(1, 1 << 59), pb.content(13, b"abcd")),
        pb.tensor(*[pb.integer(1, 1 << 20)] * 2, pb.integer(2, 10), pb.packed(10, [1])),
        pb.varint(2 << 3 | 2) + pb.varint(1 << 40),
        pb.argument(pb.varint(5 << 3 | 2) + pb.varint(1 << 31)),
    ],
    ids=["dims", "wide dims", "operator length", "packed length"],
)
def test_false_sizes_take_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        assert read(data) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("value", [0, 1, 1 << 62])
def test_memory_is_proportional_to_the_bytes(value: int) -> None:
    data = pb.argument(pb.content(6, pb.varint(value) * 1_000_000))
    tracemalloc.start()
    try:
        net = NetDef.from_bytes(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(net.op[0].arg[0].ints) == 1_000_000
    assert peak < 8_000_000 + 64 * (1 << 20)
