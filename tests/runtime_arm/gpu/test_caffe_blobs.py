"""The recorded runs of Caffe through Blobs whose data and gradients sit on the device."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter.caffe.blob import Blob
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.synced_memory import State
from runtime_arm.netdef import Array
from tests.support.caffe_goldens import TERMS, Case, golden_cases, recorded_blobs
from tests.support.training_goldens import parameters
from tests.training.caffe.recorded import run_gradients
from training.caffe.net import Net

MODULES = ("training.caffe.net", "training.caffe.files", "training.caffe.layers.layer")


@pytest.fixture(autouse=True)
def copies(device: Device, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every Blob of a Net keeps its content on the device, from which each access fetches it. Counts the copies."""
    counted: list[int] = []

    class Resident(Blob):
        def _shaped(self, memory: object) -> Array:
            assert memory in (self._data, self._diff)
            before = memory.copies  # type: ignore[attr-defined]
            memory.mutable_gpu_data()  # type: ignore[attr-defined]
            assert memory.state is State.HEAD_AT_GPU  # type: ignore[attr-defined]
            array = super()._shaped(memory)  # type: ignore[arg-type]
            counted.append(memory.copies - before)  # type: ignore[attr-defined]
            return array

    for module in MODULES:
        monkeypatch.setattr(f"{module}.Blob", lambda *words, **named: Resident(*words, **{**named, "device": device}))
    return counted


@pytest.mark.parametrize("case", golden_cases("ok"))
def test_a_recorded_layer(case: Case, copies: list[int]) -> None:
    net = Net(case["prototxt"], case.get("caffemodel"), case["phase"])
    net.forward(**case["in"])
    for name, wanted in recorded_blobs(case).items():
        assert_close(net.blobs[name].data, np.asarray(wanted, np.float32), terms=TERMS, what=f"{case['id']}: {name}")
    assert set(copies) <= {1, 2}


@pytest.mark.parametrize("case", parameters("caffe_gradients"))
def test_recorded_gradients(case: Case, copies: list[int]) -> None:
    run_gradients(case)
    assert 2 in copies or case["status"] != "ok"
