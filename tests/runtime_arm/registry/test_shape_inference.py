"""Which operators shape inference evaluates."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from optimize.quantization.packing.formats import FORMATS
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.registry import shape_inference
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


def test_a_few_numbers_cannot_claim_any_amount_of_memory() -> None:
    op = OperatorDef.of("Expand", ["x", "shape"], ["y"], domain="onnx")
    inputs = [TensorSpec.known(np.ones(1, np.float32)), TensorSpec.known(np.array([1 << 13, 1 << 13], np.int64))]
    tracemalloc.start()
    (spec,) = infer_operator(op, inputs)[1]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (spec.shape, spec.value) == ((1 << 13, 1 << 13), None)
    assert peak < 1 << 20


def test_a_blob_joined_with_itself_many_times_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_inference, "_LARGEST_EVALUATED", 0)
    x, y = np.arange(6, dtype=np.float32), np.arange(6, 12, dtype=np.float32)
    for second, is_known in (("x", False), ("y", True)):
        op = OperatorDef.of("Concat", ["x", second], ["z", "lengths"], axis=0)
        specs = infer_operator(op, [TensorSpec.known(x), TensorSpec.known(y if is_known else x)])[1]
        assert (specs[0].value is not None) == is_known


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("value", [np.arange(9, dtype=np.float32), np.arange(9), np.ones(9, bool)])
def test_weights_of_any_size_are_known(monkeypatch: pytest.MonkeyPatch, value: np.ndarray, unpacked: bool) -> None:
    monkeypatch.setattr(shape_inference, "_LARGEST_EVALUATED", 0)
    (spec,) = infer_operator(fill("w", value, unpacked), [])[1]
    np.testing.assert_array_equal(spec.value, value)


def test_an_output_as_large_as_its_inputs_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_inference, "_LARGEST_EVALUATED", 0)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (spec,) = infer_operator(OperatorDef.of("Transpose", ["x"], ["y"]), [TensorSpec.known(x)])[1]
    np.testing.assert_array_equal(spec.value, x.T)


@pytest.mark.parametrize("name", FORMATS)
def test_a_packed_weight_of_any_size_is_unpacked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    packed = FORMATS[name](np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), 0)
    assert packed is not None
    monkeypatch.setattr(shape_inference, "_LARGEST_EVALUATED", 0)
    op = packed.unpack(tuple(packed.stored), "w")
    (spec,) = infer_operator(op, [TensorSpec.known(stored) for stored in packed.stored.values()])[1]
    assert spec.value is not None
