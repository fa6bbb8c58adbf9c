"""QuantizeLinear and DequantizeLinear, whose constant scales must be positive and finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from exporter import export
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, value


def quantised(scale: Any, domain: str = "", type: str = "QuantizeLinear") -> Any:
    """A conversion of numbers whose shape nothing says."""
    weights = {"scale": np.asarray(scale), "zero": np.zeros(np.shape(scale), np.uint8)}
    node = helper.make_node(type, ["x", "scale", "zero"], ["y"], name="convert", domain=domain)
    return model([node], [value("x", None, np.float32 if type[0] == "Q" else np.uint8)], ["y"], weights, opset=19)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("scale", [0.0, -0.5, np.nan, np.inf])
def test_a_scale_that_means_nothing_is_refused_by_name(scale: float, type: str, domain: str) -> None:
    for scales in (np.float32(scale), np.array([0.5, scale], np.float32)):
        with pytest.raises(
            ExportError, match=rf"'convert' .*scale 'scale' must be .* it is {scale}\. Quantize"
        ) as info:
            export(quantised(scales, domain, type))
        assert ("-1e4 instead of -inf" in str(info.value)) == (not np.isfinite(scale))


@pytest.mark.parametrize("type", ["QuantizeLinear", "DequantizeLinear"])
def test_other_scales_are_taken(type: str) -> None:
    pair = export(quantised(np.float32(1e-30), type=type))
    assert [op.full_type for op in pair.predict_net.op] == [f"onnx.{type}"]


def test_a_scale_of_a_mask_without_end_is_refused() -> None:
    """As onnxruntime's quantiser writes it for a mask of -inf whose length is open."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["m"], value=numpy_helper.from_array(np.float32([-np.inf]))),
        helper.make_node("QuantizeLinear", ["m", "m_scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "m_scale", "zero"], ["mask"]),
        helper.make_node("Add", ["x", "mask"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "n"])
    weights = {"m_scale": np.float32(np.inf), "zero": np.uint8(0)}
    with pytest.raises(ExportError, match="scale 'm_scale' must be positive and finite, it is inf"):
        export(model(nodes, [x], ["y"], weights))
