"""Every recorded TFLite network of integers, or of integer weights, against LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from runtime_arm.registry import lookup
from tests.support.exact import assert_same
from tests.support.tflite_references import NETWORKS, outputs_of


@pytest.mark.parametrize("name", NETWORKS)
def test_integers_are_equal_and_floats_as_good_as(shared: Path, name: str) -> None:
    """Floats come of exponentials behind the last integers."""
    for output in outputs_of(shared / "models", name):
        if output.result.dtype.kind == "f":
            assert_close(output.result, output.reference, terms=4, what=output.name)
        else:
            assert_same(output.result, output.reference)


def test_every_recording_is_held(shared: Path) -> None:
    recorded = {path.stem[len("tflite_") :] for path in (shared / "models/references_tflite_builtin_ref").iterdir()}
    assert recorded == set(NETWORKS)


def test_a_network_of_integers_has_no_float_between_its_layers(shared: Path) -> None:
    """No float shadow: what is no integer lies at the edges alone."""
    pair = export(shared / "models/tflite/tf2_mobilenet_v2_1.0_224_ptq/tf2_mobilenet_v2_1.0_224_ptq.tflite")
    assert all("float32" not in lookup(op).dtypes for op in pair.predict_net.op)
    assert {op.type for op in pair.predict_net.op} == {
        "QuantizedAdd", "QuantizedConv", "QuantizedMean", "QuantizedSoftmax", "Requantize", "Reshape"}
