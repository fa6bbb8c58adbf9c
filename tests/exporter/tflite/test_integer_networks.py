"""Integer networks contain no float operators."""

from __future__ import annotations

from pathlib import Path

from exporter import export
from runtime_arm.registry.schema import lookup


def test_model_json_records_the_quantisation_of_inputs_and_outputs(shared: Path) -> None:
    pair = export(shared / "models/tflite/hello_world/hello_world_int8.tflite")
    (x,), (y,) = pair.inputs, pair.outputs
    assert set(pair.meta["quantization"]) == {x.name, y.name}
    assert pair.meta["quantization"][x.name]["zero_point"] == -128
    assert 0 < pair.meta["quantization"][y.name]["scale"] < 1


def test_an_integer_network_has_no_float_operators_between_its_layers(shared: Path) -> None:
    """Only the first and last operators may touch floats."""
    pair = export(shared / "models/tflite/tf2_mobilenet_v2_1.0_224_ptq/tf2_mobilenet_v2_1.0_224_ptq.tflite")
    assert all("float32" not in lookup(op).dtypes for op in pair.predict_net.op)
    assert {op.type for op in pair.predict_net.op} == {
        "QuantizedAdd",
        "QuantizedConv",
        "QuantizedMean",
        "QuantizedSoftmax",
        "Requantize",
        "Reshape",
    }
