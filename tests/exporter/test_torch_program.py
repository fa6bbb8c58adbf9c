"""PyTorch modules and exported programs, where PyTorch is installed; and what is said where they cannot be exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from exporter import export
from exporter.torch_program import is_torch
from runtime_arm import Predictor
from runtime_arm.errors import ExportError, UsageError


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("onnxscript", reason="PyTorch's ONNX exporter needs onnxscript")
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def network(torch: Any) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8 * 6 * 6, 5))


def test_what_is_no_torch_object_is_known_without_torch() -> None:
    assert not any(map(is_torch, ["model.onnx", b"", None, object(), np.zeros(3)]))


def test_a_module_answers_as_in_pytorch_for_any_batch(torch: Any, network: Any) -> None:
    network.train()
    pair = export(network, torch.zeros(2, 3, 6, 6))
    assert network.training
    x = torch.randn(5, 3, 6, 6)
    with Predictor(pair, threads=1) as predictor, torch.no_grad():
        (ours,) = predictor.run([x.numpy()]).values()
        assert_network_close(ours, network.eval()(x).numpy())


def test_an_exported_program_answers_as_in_pytorch(torch: Any, network: Any) -> None:
    x = torch.randn(1, 3, 6, 6)
    pair = export(torch.export.export(network.eval(), (x,)))
    with Predictor(pair, threads=1) as predictor, torch.no_grad():
        (ours,) = predictor.run([x.numpy()]).values()
        assert_network_close(ours, network(x).numpy())


def test_mistakes_are_one_line(torch: Any, network: Any) -> None:
    with pytest.raises(UsageError, match="needs an example of its inputs"):
        export(network)
    with pytest.raises(ExportError, match="PyTorch cannot export Sequential: ") as refusal:
        export(network, torch.zeros(1, 4, 6, 6))
    assert "\n" not in str(refusal.value)
