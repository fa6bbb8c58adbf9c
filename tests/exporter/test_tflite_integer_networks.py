"""Networks of integers have no float shadow."""

from __future__ import annotations

from pathlib import Path

from exporter import export
from runtime_arm.registry import lookup


def test_a_network_of_integers_has_no_float_between_its_layers(shared: Path) -> None:
    """No float shadow: what is no integer lies at the edges alone."""
    pair = export(shared / "models/tflite/tf2_mobilenet_v2_1.0_224_ptq/tf2_mobilenet_v2_1.0_224_ptq.tflite")
    assert all("float32" not in lookup(op).dtypes for op in pair.predict_net.op)
    assert {op.type for op in pair.predict_net.op} == {
        "QuantizedAdd", "QuantizedConv", "QuantizedMean", "QuantizedSoftmax", "Requantize", "Reshape"}
