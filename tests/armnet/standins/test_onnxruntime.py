"""What armnet's stand-in for onnxruntime does, where the real one need not be there to compare with."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

import armnet.standins.onnxruntime as ort
from armnet.standins import notes
from armnet.standins.onnxruntime.capi import onnxruntime_pybind11_state as capi
from device_tests.suite.tolerance import assert_network_close
from tests.support.paths import DEMO

DIGITS = DEMO / "digits.onnx"


@pytest.fixture(scope="module")
def images() -> Any:
    return np.load(DEMO / "held_back.npz")["images"][:8].astype(np.float32)


@pytest.fixture(scope="module")
def session() -> Any:
    return ort.InferenceSession(DIGITS)


def test_options_are_kept_and_wrong_ones_refused() -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = np.int64(2)
    options.enable_profiling = 1
    options.add_session_config_entry("session.key", "value")
    assert (options.intra_op_num_threads, options.enable_profiling) == (2, True)
    assert options.get_session_config_entry("session.key") == "value"
    with pytest.raises(TypeError, match=r"SessionOptions\.intra_op_num_threads takes int, got str"):
        options.intra_op_num_threads = "two"
    with pytest.raises(TypeError, match="takes GraphOptimizationLevel"):
        options.graph_optimization_level = 99
    with pytest.raises(AttributeError):
        options.no_such_option = 1
    with pytest.raises(capi.NotImplemented, match="register_custom_ops_library"):
        options.register_custom_ops_library("ops.so")


def test_what_changes_nothing_is_noted_once(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(notes, "_said", set())
    options = ort.SessionOptions()
    options.enable_mem_pattern = False
    options.inter_op_num_threads = 4
    options.add_session_config_entry("session.of_tomorrow", "1")
    with caplog.at_level(logging.WARNING, "armnet.standins"):
        for _ in range(2):
            ort.InferenceSession(DIGITS, options)
    assert len(caplog.messages) == 3
    for name in ("enable_mem_pattern", "inter_op_num_threads", "session.of_tomorrow"):
        assert sum(name in message for message in caplog.messages) == 1
    monkeypatch.setattr(notes, "_said", set())
    caplog.clear()
    options.log_severity_level = 3
    ort.InferenceSession(DIGITS, options)
    assert caplog.messages == []


def test_free_dimensions_can_be_given_a_size(images: Any) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 8)
    session = ort.InferenceSession(DIGITS, options)
    assert session.get_inputs()[0].shape == [8, 1, 8, 8]
    assert session.run(None, {"image": images})[0].shape == (8, 10)
    with pytest.raises(capi.InvalidArgument, match="index: 0 Got: 7 Expected: 8"):
        session.run(None, {"image": images[:7]})


def test_without_optimisation_the_answers_are_the_same(session: Any, images: Any) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = ort.InferenceSession(DIGITS, options)
    assert_network_close(plain.run(None, {"image": images})[0], session.run(None, {"image": images})[0])


def test_other_providers_give_way_to_the_processor() -> None:
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = ort.InferenceSession(DIGITS, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="falling back"):
        ort.InferenceSession(DIGITS, providers="CPUExecutionProvider")


def test_profiling_writes_what_a_trace_viewer_reads(images: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "digits")
    session = ort.InferenceSession(DIGITS, options)
    assert session.get_profiling_start_time_ns() > 0
    for count in (8, 3, 8):
        session.run(None, {"image": images[:count]})
    name = session.end_profiling()
    assert name.startswith(str(tmp_path / "digits_"))
    events = json.loads(Path(name).read_text())
    assert sum(event["name"] == "model_run" for event in events) == 3
    nodes = [event for event in events if event["cat"] == "Node"]
    assert {event["args"]["op_name"] for event in nodes} & {"Conv", "FusedConv", "FC", "MatMul"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    assert session.end_profiling() == ""


def test_threads_take_turns(session: Any, images: Any) -> None:
    expected = [session.run(None, {"image": images[:count]})[0] for count in range(1, 9)]
    wrong: List[str] = []

    def work() -> None:
        for count in [1, 8, 3, 5] * 5:
            if not np.array_equal(session.run(None, {"image": images[:count]})[0], expected[count - 1]):
                wrong.append(f"{count} images")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_run_async_calls_back(session: Any, images: Any) -> None:
    done = threading.Event()
    told: List[Any] = []

    def callback(results: Any, user_data: Any, error: str) -> None:
        told.extend([results, user_data, error])
        done.set()

    session.run_async(None, {"image": images}, callback, "mine")
    assert done.wait(60)
    assert np.array_equal(told[0][0], session.run(None, {"image": images})[0])
    assert told[1:] == ["mine", ""]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_workers_run_the_session_of_their_parent(images: Any) -> None:
    session = ort.InferenceSession(DIGITS)
    expected = session.run(None, {"image": images})[0]
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            same = all(np.array_equal(session.run(None, {"image": images})[0], expected) for _ in range(3))
            os._exit(0 if same else 1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    assert np.array_equal(session.run(None, {"image": images})[0], expected)


def test_values_share_the_memory_of_their_arrays() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    assert value.data_ptr() == array.ctypes.data
    value.update_inplace(np.ones((2, 3), np.float32))
    assert array.sum() == 6
    with pytest.raises(ValueError, match="float64"):
        value.update_inplace(np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="cuda"):
        ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
    assert np.shares_memory(np.asarray(value), array)
    assert ort.OrtValue.ortvalue_from_shape_and_type([2], 7).data_type() == "tensor(int64)"


def test_memory_is_bound_by_its_address(session: Any, images: Any) -> None:
    expected = session.run(None, {"image": images})[0]
    target = np.full((8, 10), np.nan, np.float32)
    binding = session.io_binding()
    binding.bind_input("image", "cpu", 0, np.float32, images.shape, images.ctypes.data)
    binding.bind_output("probabilities", "cpu", 0, np.float32, target.shape, target.ctypes.data)
    session.run_with_iobinding(binding)
    assert np.array_equal(target, expected)
    with pytest.raises(capi.InvalidArgument, match="no such name"):
        binding.bind_cpu_input("no such name", images)
    small = np.zeros((7, 10), np.float32)
    binding.bind_output("probabilities", "cpu", 0, np.float32, small.shape, small.ctypes.data)
    with pytest.raises(capi.InvalidArgument, match="memory bound"):
        session.run_with_iobinding(binding)


def test_a_model_that_armnet_cannot_run_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the model is written with onnx")
    from tests.exporter.onnx.models import one_node

    path = tmp_path / "model"
    path.write_bytes(one_node("NoSuchOperator", [np.zeros(3, np.float32)]).SerializeToString())
    with pytest.raises(capi.NotImplemented, match="NoSuchOperator"):
        ort.InferenceSession(str(path))
