"""Caffe's files: the committed schema, the conversion of dialects, phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.caffe.net import inference_layers, outputs_of
from exporter.caffe.prototxt import read_prototxt
from exporter.caffe.upgrade import upgraded
from runtime_arm.errors import ExportError, FormatError


def test_padding_layers_of_the_first_dialect_become_pads(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text("""input: "x" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
        layers { layer { name: "p" type: "padding" pad: 2 } bottom: "x" top: "p" }
        layers { layer { name: "c" type: "conv" num_output: 4 kernelsize: 3 biasterm: false } bottom: "p" top: "c" }""")
    _, convolution = upgraded(read_prototxt(path)).layer
    assert (convolution.type, list(convolution.bottom)) == ("Convolution", ["x"])
    param = convolution.convolution_param
    assert (list(param.pad), list(param.kernel_size), param.num_output, param.bias_term) == ([2], [3], 4, False)


def test_a_net_of_two_dialects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text('layers { name: "a" type: RELU } layer { name: "b" type: "ReLU" }')
    with pytest.raises(ExportError, match="belong to different dialects"):
        upgraded(read_prototxt(path))


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("exclude { phase: TEST }", False),
        ('include { stage: "deploy" }', True),
        ('include { not_stage: "deploy" }', False),
        ("include { min_level: 2 }", False),
        ("include { phase: TRAIN } include { max_level: 1 }", True),
    ],
)
def test_rules_decide_which_layers_run(tmp_path: Path, rule: str, kept: bool) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(f"""state {{ level: 1 stage: "deploy" }} layer {{ name: "x" type: "Input" top: "x" }}
        layer {{ name: "r" type: "ReLU" bottom: "x" top: "y" {rule} }}""")
    assert outputs_of(inference_layers(upgraded(read_prototxt(path)))) == (["y"] if kept else [])


NET = 'layer { name: "x" type: "Input" top: "x" } layer { name: "r" type: "ReLU" bottom: "x" top: "y" }'


@pytest.mark.parametrize(
    "start",
    [
        b"\xef\xbb\xbf",
        "# \u5377\u79ef\n".encode("gbk"),
        "# Gr\u00f6\u00dfe\r\n".encode("latin-1"),
    ],
    ids=["byte order mark", "Chinese", "German"],
)
def test_byte_order_marks_and_comments_in_any_encoding_are_accepted(tmp_path: Path, start: bytes) -> None:
    """Comments may have any encoding; Caffe skips them."""
    path = tmp_path / "net.prototxt"
    path.write_bytes(start + NET.encode())
    assert [layer.name for layer in read_prototxt(path).layer] == ["x", "r"]


@pytest.mark.parametrize("wrong", ["name: 5", "name: " + "z" * 5000, 'name: "' + "z" * 5000, "\x1b[2J" * 1000])
def test_a_net_in_one_line_is_not_quoted_as_a_whole(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(" ".join([NET] * 100 + [wrong]))
    with pytest.raises(FormatError, match=r"not a prototxt: 1:\d+ : ") as caught:
        read_prototxt(path)
    assert len(str(caught.value)) < len(str(path)) + 200
    assert str(caught.value).isprintable()
