"""Whole networks on the device compute what they do on the processor."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from exporter.bundle.random_inputs import random_inputs
from optimize import optimize
from optimize.engines.accuracy import relative_error
from runtime_arm import Predictor
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.island import Traffic
from runtime_arm.gpu.programs import Programs
from runtime_arm.pair.pair import Pair
from tests.support.paths import SHARED

pytest.importorskip("onnx", reason="networks are exported from ONNX")

ACCURACY = 1e-4  # of the range


@pytest.fixture(autouse=True)
def _device(opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name opencl:0 means the device of the tests."""
    monkeypatch.setattr("runtime_arm.gpu.devices._open", {"opencl:0": opened})


BUILT = {"MobileNetV2": "mobilenet_v2", "ResNet-18": "resnet18"}
RECORDED = {
    "SqueezeNet 1.1": "squeezenet_v1.1",
    "UltraFace": "ultraface/version-RFB-320_simplified",
    "YuNet": "yunet/yunet_n_320_320",
}


def _optimized(model: Any) -> Pair:
    from exporter import export

    return optimize(export(model))


def _built(name: str) -> Pair:
    from device_tests.host.networks.known import build

    return _optimized(build(name))


def _recorded(name: str) -> Tuple[Pair, Dict[str, Any], Dict[str, Any]]:
    """A network with recorded inputs, and what onnxruntime made of them."""
    stem = RECORDED[name]
    model = SHARED / "models/onnx" / (f"{stem}.onnx" if "/" in stem else f"{stem}/{stem}.onnx")
    if not model.exists():
        pytest.skip("../shared/models is absent")
    reference = np.load(SHARED / f"models/references/onnx_{stem.replace('/', '__')}.npz")
    pair = _optimized(model)
    feeds = {info.name: reference[f"in_{info.name}"] for info in pair.inputs}
    return pair, feeds, {info.name: reference[f"out_{at}"] for at, info in enumerate(pair.outputs)}


@pytest.mark.parametrize("name", [*BUILT, *RECORDED])
def test_a_network_gives_the_same_on_the_device(name: str) -> None:
    if name in RECORDED:
        pair, feeds, expected = _recorded(name)
    else:
        pair = _built(BUILT[name])
        feeds = random_inputs(pair)
        with Predictor(pair, threads=1) as plain:
            expected = plain.run(feeds)
    with Predictor(pair, threads=1, device="opencl:0") as predictor:
        results = [predictor.run(feeds) for _ in range(2)]
        assert predictor.notes == []
        assert predictor.placement is not None
        assert predictor.placement.reasons == {}  # everything runs there
    assert relative_error([expected, expected], results) <= ACCURACY


def test_squeezenet_crosses_once_each_way() -> None:
    pair = _built("squeezenet1_1")
    feeds = random_inputs(pair)
    with Predictor(pair, threads=1, device="opencl:0") as predictor:
        predictor.run(feeds)
        assert predictor.placement is not None
        (island,) = predictor.placement.islands
        before = island.traffic
        predictor.run(feeds)
        now = island.traffic
    assert Traffic(*np.subtract(now, before)) == Traffic(copies=2, up=602_112, down=4_000)
    assert predictor.placement.reasons == {}
