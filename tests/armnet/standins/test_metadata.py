"""The metadata of TFLite models, as tflite_support reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.interpreter import python


def test_the_metadata_and_the_labels_of_a_classifier(shared: Path) -> None:
    model = shared / "models/tflite/mobilenet_v1_0.25_224_quant/mobilenet_v1_0.25_224_quant.tflite"
    program = f"""
import armnet.standins
armnet.standins.install("tflite_support", force=True)
from tflite_support import metadata
import tflite_support.metadata as same
displayer = same.MetadataDisplayer.with_model_file({str(model)!r})
print(displayer.get_packed_associated_file_list())
print(len(displayer.get_associated_file_buffer("labels.txt").splitlines()))
print(displayer.get_metadata_buffer()[4:8])
print(displayer.get_metadata_json())
"""
    files, labels, magic, text = python(program).split("\n", 3)
    assert (files, labels, magic) == ("['labels.txt']", "1001", "b'M001'")
    (graph,) = json.loads(text)["subgraph_metadata"]
    (image,), (scores,) = graph["input_tensor_metadata"], graph["output_tensor_metadata"]
    assert image["content"] == {
        "content_properties_type": "ImageProperties",
        "content_properties": {"color_space": "RGB"},
    }
    assert image["stats"] == {"max": [255.0], "min": [0.0]}
    assert image["process_units"][0]["options_type"] == "NormalizationOptions"
    assert scores["associated_files"][0]["type"] in ("TENSOR_AXIS_LABELS", "TENSOR_VALUE_LABELS")


def test_a_model_without_metadata_is_refused(shared: Path) -> None:
    from armnet.standins.tflite_support.metadata import MetadataDisplayer

    model = shared / "models/tflite/hello_world/hello_world_float.tflite"
    with pytest.raises(ValueError, match="metadata"):
        MetadataDisplayer.with_model_file(model)
    with pytest.raises(ValueError, match="no TFLite model"):
        MetadataDisplayer.with_model_buffer(b"something else")
    with pytest.raises(OSError, match="nowhere"):
        MetadataDisplayer.with_model_file("nowhere.tflite")
