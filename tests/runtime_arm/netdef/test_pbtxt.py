"""Nets in protobuf's text format."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runtime_arm.errors import FormatError, MissingDependency
from runtime_arm.netdef import NetDef, messages
from runtime_arm.netdef.pbtxt import parse_pbtxt

EXAMPLE = """
name: "n"
op { input: "x" output: "y" type: "Conv" arg { name: "kernel" i: 3 } arg { name: "pads" ints: 1 ints: -1 }
     arg { name: "scale" f: 0.5 } device_option { device_type: 1 cuda_gpu_id: 2 } engine: "DEPTHWISE_3x3,NNPACK" }
external_input: "x"
external_output: "y"
"""


def test_a_net_in_text_format_is_read() -> None:
    expected = NetDef.from_text(
        'net "n": x -> y\n'
        "Conv(x) -> y  engine=DEPTHWISE_3x3,NNPACK  device=(device_type=1, device_id=2)  "
        "kernel=3  pads=[1, -1]  scale=0.5"
    )
    assert parse_pbtxt(EXAMPLE) == expected


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("densenet121_predict_net", 668),
        ("inception_v1_predict_net", 142),
        ("mask_rcnn_2go_fp32_model", 112),
        ("mask_rcnn_2go_int8_model", 100),
        ("resnet50_predict_net", 175),
    ],
)
def test_the_model_zoos_files_are_programs(shared: Path, name: str, operators: int) -> None:
    file = shared / "models" / "caffe2" / "predict_only_models" / f"{name}.pbtxt"
    net = parse_pbtxt(file.read_text(), str(file)).check()
    assert len(net.op) == operators
    assert NetDef.from_bytes(net.to_bytes()) == net


def test_without_protobuf_the_text_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (messages.class_from, messages._pool):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingDependency, match="pip install protobuf"):
        parse_pbtxt(EXAMPLE)


@pytest.mark.parametrize("text", ["op {", "op { inptu: 'x' }", "op: 3", "name: '\\xff'", "op { op_version: 1e99 }"])
def test_mistakes_are_named_in_one_line(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_pbtxt(text, "bad.pbtxt")
    assert str(caught.value).startswith("bad.pbtxt: not a net in text format: 1:")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("wrong", ["type: Conv", "\x1b[2J", 'name: "' + "z" * 5000, "name: " + "z" * 5000])
def test_a_net_in_one_line_is_not_quoted_as_a_whole(wrong: str) -> None:
    with pytest.raises(FormatError, match="not a net in text format: 1:") as caught:
        parse_pbtxt(" ".join(['op { type: "Relu" }'] * 300 + ["op {", wrong]), "bad.pbtxt")
    assert str(caught.value).isprintable()
    assert 45 < len(str(caught.value)) < 350
