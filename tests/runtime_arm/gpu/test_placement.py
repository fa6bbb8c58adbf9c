"""What runs on the device and what does not changes no result."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.tolerance import assert_close, assert_network_close
from runtime_arm.errors import DeviceError, UsageError
from runtime_arm.execution import predictor as predictors
from runtime_arm.execution.predictor import Predictor
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.island import Island, Session, Traffic
from runtime_arm.gpu.placement import Placement
from runtime_arm.gpu.programs import Programs
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair
from tests.runtime_arm.gpu.nets import X, net


@pytest.fixture(autouse=True)
def _device(opened: Tuple[Device, Programs], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name opencl:0 means the device of the tests."""
    monkeypatch.setattr("runtime_arm.gpu.devices._open", {"opencl:0": opened})


def _placed(opened: Tuple[Device, Programs], refused: Sequence[int]) -> Placement:
    """A placement that leaves these operators, by number, to the processor."""
    names = [op.signature() for at, op in enumerate(net().predict_net.op) if at in refused]
    reason = lambda op, inputs, outputs: "the test says so" if op.signature() in names else None  # noqa: E731
    return Placement(Session(*opened), reason, least_layers=0)


def _run(placement: Optional[Placement], monkeypatch: Any, keep: Sequence[str] = ()) -> Dict[str, Any]:
    monkeypatch.setattr(predictors, "_placement", lambda device, half: placement)
    with Predictor(net(), threads=1) as predictor:
        predictor.run({"x": X})
        return predictor.run({"x": X}, keep=keep)


def _assert_same(results: Dict[str, Any], expected: Dict[str, Any]) -> None:
    assert list(results) == list(expected)
    for name, result in results.items():
        assert_network_close(result, expected[name], what=name)


def test_the_device_runs_what_it_can_in_islands(opened: Tuple[Device, Programs]) -> None:
    with Predictor(net(), threads=1) as plain, Predictor(net(), threads=1, device="opencl:0") as predictor:
        _assert_same(predictor.run({"x": X}), plain.run({"x": X}))
        assert predictor.placement is not None
        first, second = predictor.placement.islands
        before = [first.traffic, second.traffic]
        predictor.run({"x": X})
        crossed = [Traffic(*(a - b for a, b in zip(now.traffic, then))) for now, then in zip((first, second), before)]
        a, left, p = 8 * 64 * 4, 8 * 64 * 4, 5 * 4
        assert crossed == [Traffic(3, X.nbytes, a + left), Traffic(3, a + left, p)]
        assert set(predictor.placement.reasons.values()) == {"the device has no kernel for it"}


@pytest.mark.parametrize("refused", range(10))
def test_refusing_an_operator_changes_no_result(opened: Any, monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    expected = _run(None, monkeypatch)
    _assert_same(_run(_placed(opened, [refused]), monkeypatch), expected)


@given(st.sets(st.integers(0, 9)))
@settings(max_examples=15)
def test_random_placements_change_no_result(opened: Any, refused: Any) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = _run(None, monkeypatch)
        _assert_same(_run(_placed(opened, sorted(refused)), monkeypatch), expected)


def test_blobs_inside_an_island_can_be_fetched(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a", "c", "right", "joined", "flat", "y"]
    _assert_same(_run(_placed(opened, []), monkeypatch, names), _run(None, monkeypatch, names))


def test_the_processor_works_while_an_island_runs(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that waits for the device comes after those that do not need it."""
    pair = net()
    beside = OperatorDef.of("Cos", ["x"], ["beside"])
    predict = pair.predict_net
    predict = predict.replace(op=(*predict.op, beside), external_output=(*predict.external_output, "beside"))
    pair = Pair.from_nets(pair.init_net, predict)
    monkeypatch.setattr(predictors, "_placement", lambda device, half: _placed(opened, [3, 4, 5, 6, 7, 8, 9]))
    with Predictor(pair, threads=1) as predictor:
        assert_close(predictor.run({"x": X})["beside"], np.cos(X))
        steps = [step.op.output[0] for step in predictor.executor.plans()[-1].running]
    assert steps[:3] == [f"a on {opened[0].spec}", "beside", "a"]


class Failing:
    """A device that fails after so many uploads."""

    def __init__(self, device: Device, uploads: int):
        self._device = device
        self.left = uploads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def allocate(self, nbytes: int) -> Any:
        buffer = self._device.allocate(nbytes)
        buffer.device = self  # type: ignore[assignment]
        return buffer

    def upload(self, buffer: Any, data: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise DeviceError("clEnqueueWriteBuffer failed: CL_OUT_OF_RESOURCES (-5)")
        self._device.upload(buffer, data)

    def download(self, buffer: Any, data: Any) -> None:
        if self.left < 0:
            raise DeviceError("clEnqueueReadBuffer failed: CL_OUT_OF_RESOURCES (-5)")
        self._device.download(buffer, data)


def _failing_runs(opened: Tuple[Device, Programs], uploads: int) -> Iterator[Tuple[Dict[str, Any], List[str]]]:
    device = Failing(opened[0], 1000)
    placement = Placement(Session(device, opened[1]))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(predictors, "_placement", lambda device, half: placement)
        with Predictor(net(), threads=1) as predictor:
            predictor.run({"x": X})
            device.left = uploads
            for _ in range(3):
                yield predictor.run({"x": X}), list(predictor.notes)


@pytest.mark.parametrize("uploads", [0, 1, 2])
def test_a_run_that_fails_on_the_device_is_finished_by_the_processor(
    opened: Any, monkeypatch: pytest.MonkeyPatch, uploads: int
) -> None:
    expected = _run(None, monkeypatch)
    for results, notes in _failing_runs(opened, uploads):
        _assert_same(results, expected)
        assert len(notes) == 1
        assert "CL_OUT_OF_RESOURCES (-5); the processor finished the run" in notes[0]


def test_a_driver_that_answers_wrongly_is_refused_by_name(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Island._finish

    def wrong(self: Island) -> None:
        honest(self)
        for memory, _ in self._downloads:
            memory.mutable_cpu_data().view(np.float32)[0] += 1

    monkeypatch.setattr(Island, "_finish", wrong)
    predictor = Predictor(net(), threads=1, device="opencl:0")
    with pytest.raises(DeviceError, match=rf"{opened[0].spec} \(.*\) computes .a. wrongly"):
        predictor.run({"x": X})


@pytest.mark.parametrize("spec", ["gpu", "opencl:", "opencl:x", "opencl:-1", "", "cuda:0:1"])
def test_a_device_has_a_kind_and_a_number(spec: str) -> None:
    with pytest.raises(UsageError, match="a device is opencl:0"):
        Predictor(net(), device=spec)


def test_halves_need_a_device() -> None:
    with pytest.raises(UsageError, match="name one with device="):
        Predictor(net(), half=True)
