"""Checks of onnxruntime's interface on models of a few operators, which hold with the real package and the stand-in.

Argument: a folder with mul.onnx (Y = X * W, both 3x2), text.onnx (output:0 = input:0, strings), free.onnx (y = |x|,
with dimensions Dim1 and Dim2 that denote DATA_BATCH and DATA_CHANNEL), config.onnx (mul.onnx with options of its own),
outside.onnx (mul.onnx whose W lies in weights.bin, which is not there), passed.onnx (its input is an output, too),
maps.onnx (a classifier of two columns whose scores are dictionaries) and sum.onnx (y = a + b, of any sizes).
"""

import json
import os
import queue
import sys
import threading
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as core

FOLDER = Path(sys.argv[1])
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def session(name: str = "mul.onnx", *args: object, **options: object) -> ort.InferenceSession:
    return ort.InferenceSession(str(FOLDER / name), *args, providers=["CPUExecutionProvider"], **options)


def raises(kinds: object, call: object, *words: str) -> None:
    told = None
    try:
        call()
    except kinds as error:
        told = str(error)
    assert told is not None, f"{kinds} was not raised"
    assert all(word in told for word in words), told


def check_versions_and_build() -> None:
    assert ort.get_version_string() == ort.__version__
    assert "Build Info" in ort.get_build_info()
    assert "CPU" in ort.get_device()


def check_providers() -> None:
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_all_providers()[-1] == "CPUExecutionProvider"
    assert session().get_providers() == ["CPUExecutionProvider"]
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        raises(RuntimeError, lambda: session().set_providers(["NoSuchProvider"]), "Unknown Provider Type")
    session().set_providers(["CPUExecutionProvider"])


def check_provider_arguments() -> None:
    normalize = import_module("onnxruntime.capi.onnxruntime_inference_collection").check_and_normalize_provider_args
    known = ["a", "b"]
    assert normalize(None, None, known) == ([], [])
    assert normalize([("a", {1: 2}), "b"], None, known) == (["a", "b"], [{"1": "2"}, {}])
    assert normalize(["a", "b"], [{1: 2}, {}], known) == (["a", "b"], [{"1": "2"}, {}])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert normalize(["a", "a"], [{"x": 1}, {"x": 2}], known) == (["a"], [{"x": "1"}])
        assert normalize(["c"], None, known)[0] == ["c"]
    assert len(caught) == 2
    for wrong in ((3, None), ([3], None), (["a"], 3), (["a"], ["x"]), (["a", "b"], [{}]), ([("a", {1: 2})], [{3: 4}])):
        raises(ValueError, lambda wrong=wrong: normalize(*wrong, known))


def check_telemetry() -> None:
    ort.disable_telemetry_events()
    ort.enable_telemetry_events()


def check_logger() -> None:
    heard: list = []
    ort.set_default_logger_callback(lambda *record: heard.append(record), severity=0)
    session()
    assert heard
    assert all(isinstance(severity, int) for severity, *_ in heard)
    assert all(isinstance(text, str) for record in heard for text in record[1:])
    for wrong in (5, -1):
        raises(RuntimeError, lambda wrong=wrong: ort.set_default_logger_callback(print, severity=wrong))
        raises(RuntimeError, lambda wrong=wrong: ort.set_default_logger_severity(wrong))
    raises(RuntimeError, lambda: ort.set_default_logger_callback("no function"))

    def failing(*record: object) -> None:
        raise ValueError("mine")

    ort.set_default_logger_callback(failing, severity=0)
    session()
    ort.set_default_logger_callback(None)
    ort.set_default_logger_severity(2)
    ort.set_default_logger_verbosity(0)


def check_paths_and_bytes() -> None:
    for source in (FOLDER / "mul.onnx", str(FOLDER / "mul.onnx"), (FOLDER / "mul.onnx").read_bytes()):
        opened = ort.InferenceSession(source)
        assert (opened.get_inputs()[0].name, opened.get_inputs()[0].shape) == ("X", [3, 2])
        np.testing.assert_allclose(opened.run([], {"X": X})[0], X * X)
    here = os.getcwd()
    os.chdir(FOLDER)
    try:
        ort.InferenceSession("mul.onnx")
    finally:
        os.chdir(here)


def check_descriptions() -> None:
    opened = session()
    assert len(opened.get_input_memory_infos()) == len(opened.get_output_memory_infos()) == 1
    info = opened.get_input_memory_infos()[0]
    assert (info.name, info.device_id, info.mem_type) == ("Cpu", 0, ort.OrtMemType.DEFAULT)
    assert len(opened.get_input_epdevices()) == 1
    meta = opened.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.domain, meta.version) == ("tests", "mul", "org.example", 7)
    assert meta.custom_metadata_map == {"key": "value"}
    assert meta.description == "a model"
    assert opened.get_session_options().intra_op_num_threads == 0


def check_inputs_of_every_kind() -> None:
    opened = session()
    for given in (X, X.tolist(), np.asfortranarray(X), X[:, [1, 0]][:, [1, 0]], ort.OrtValue.ortvalue_from_numpy(X)):
        np.testing.assert_allclose(opened.run(["Y"], {"X": given})[0], X * X)
    raises(ValueError, lambda: opened.run([], {}), "Required inputs (['X']) are missing from input feed ([])")


def check_strings() -> None:
    opened = session("text.onnx")
    assert opened.get_inputs()[0].type == opened.get_outputs()[0].type == "tensor(string)"
    words = np.array([["this", "Olá"], ["你好", "words"]])
    for given in (words, words.astype(object), words.tolist()):
        assert opened.run([], {"input:0": given})[0].tolist() == words.tolist()
    ascii_bytes = np.array([[b"this", b"longest"], [b"is", b"bytes"]], "S9")
    assert opened.run([], {"input:0": ascii_bytes})[0].tolist() == [["this", "longest"], ["is", "bytes"]]
    equally_long = np.array([[b"must", b"have"], [b"same", b"size"]]).astype(np.void)
    assert opened.run([], {"input:0": equally_long})[0].tolist() == [["must", "have"], ["same", "size"]]


def check_async() -> None:
    done: queue.Queue = queue.Queue()
    mine = object()
    session().run_async(["Y"], {"X": X}, lambda *told: done.put(told), mine)
    results, data, error = done.get(timeout=60)
    assert (data, error) == (mine, "")
    np.testing.assert_allclose(results[0], X * X)


def check_threads() -> None:
    opened, wrong = session(), []

    def work(number: int) -> None:
        options = ort.RunOptions()
        options.logid = f"thread {number}"
        for _ in range(10):
            (y,) = opened.run(None, {"X": X * number}, run_options=options)
            if not np.allclose(y, X * X * number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def check_session_options() -> None:
    options = ort.SessionOptions()
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    assert options.execution_mode == ort.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("KEY", "VALUE")
    assert options.get_session_config_entry("KEY") == "VALUE"
    missing = "SessionOptions does not have configuration with key: NO_KEY"
    raises(RuntimeError, lambda: options.get_session_config_entry("NO_KEY"), missing)
    session("mul.onnx", options)
    run_options = ort.RunOptions()
    run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert run_options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    session().run([], {"X": X}, run_options)


def check_free_dimensions() -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("Dim1", 4)
    options.add_free_dimension_override_by_name("Dim2", 6)
    assert session("free.onnx", options).get_inputs()[0].shape == [4, 6, 5]
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 5)
    assert session("free.onnx", options).get_inputs()[0].shape == [3, 5, 5]
    assert session("free.onnx").get_inputs()[0].shape == ["Dim1", "Dim2", 5]


def check_options_of_the_model() -> None:
    os.environ["ORT_LOAD_CONFIG_FROM_MODEL"] = "1"
    try:
        opened = session("config.onnx")
    finally:
        del os.environ["ORT_LOAD_CONFIG_FROM_MODEL"]
    options = opened.get_session_options()
    assert (options.inter_op_num_threads, options.intra_op_num_threads, options.enable_profiling) == (5, 2, True)
    os.remove(opened.end_profiling())
    assert session("config.onnx").get_session_options().intra_op_num_threads == 0


def check_weights_of_the_caller() -> None:
    options = ort.SessionOptions()
    weights = ort.OrtValue.ortvalue_from_numpy(np.array([[2, 1], [4, 3], [6, 5]], np.float32))
    options.add_initializer("W", weights)
    np.testing.assert_allclose(session("mul.onnx", options).run(["Y"], {"X": X})[0], X * weights.numpy())
    options = ort.SessionOptions()
    options.add_external_initializers(["W"], [weights])
    np.testing.assert_allclose(session("outside.onnx", options).run(["Y"], {"X": X})[0], X * weights.numpy())
    options = ort.SessionOptions()
    content = X.tobytes()
    options.add_external_initializers_from_files_in_memory(["weights.bin"], [content], [len(content)])
    np.testing.assert_allclose(session("outside.onnx", options).run(["Y"], {"X": X})[0], X * X)


def check_profile() -> None:
    starts = []
    for number in range(2):
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(FOLDER / f"profile{number}")
        opened = session("mul.onnx", options)
        starts.append(opened.get_profiling_start_time_ns())
        opened.run([], {"X": X})
        path = opened.end_profiling()
        with open(path, encoding="utf-8") as file:
            first, *events, last = file.read().strip().splitlines()
        assert "[" in first
        assert "]" in last
        for line in events:
            assert all(f'"{tag}"' in line for tag in ("pid", "dur", "ts", "ph", "X", "name", "args")), line
        with open(path, encoding="utf-8") as file:
            json.load(file)
        os.remove(path)
    assert 0 < starts[0] <= starts[1]


def check_optimised_model_is_written() -> None:
    if ort.get_build_info().find("armnet") >= 0 and find_spec("onnx") is None:
        return  # armnet writes ONNX with the package onnx
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(FOLDER / "optimised.onnx")
    session("mul.onnx", options)
    np.testing.assert_allclose(session("optimised.onnx").run(None, {"X": X})[0], X * X)
    options.optimized_model_filepath = str(FOLDER / "divided.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "divided.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "16")
    session("mul.onnx", options)
    assert (FOLDER / "divided.bin").stat().st_size >= X.nbytes
    np.testing.assert_allclose(session("divided.onnx").run(None, {"X": X})[0], X * X)


def check_values() -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert (value.device_name(), value.shape(), value.data_type()) == ("cpu", [3, 2], "tensor(float)")
    assert (value.is_tensor(), value.has_value(), value.is_sparse_tensor()) == (True, True, False)
    assert (value.tensor_size_in_bytes(), value.element_type()) == (24, 1)
    assert ort.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 1).element_type() == 1
    opened = session()
    found = opened._sess.run_with_ort_values({"X": value._get_c_value()}, ["Y"], ort.RunOptions())
    assert type(found).__name__ == "OrtValueVector"
    assert value.numpy().tolist() == X.tolist()
    made = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32, "cpu", 0)
    made.update_inplace(X)
    assert made.numpy().tolist() == X.tolist()
    raises(RuntimeError, lambda: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0))


def check_array_protocol() -> None:
    for array in (X, np.array([1, 2, 3]), np.array([True, False])):
        value = ort.OrtValue.ortvalue_from_numpy(array)
        same = np.asarray(value)
        assert (same.dtype, same.tolist()) == (array.dtype, array.tolist())
        assert same.ctypes.data == value.data_ptr() == np.asarray(value, dtype=array.dtype).ctypes.data
        assert np.array(value, dtype=np.float64).tolist() == array.astype(np.float64).tolist()


def check_dlpack() -> None:
    if not hasattr(np, "from_dlpack"):
        return  # NumPy before 1.23
    for array in (X, np.zeros((0, 4), np.float32), np.array([1, 2, 255], np.uint8)):
        value = ort.OrtValue.ortvalue_from_numpy(array)
        assert value.__dlpack_device__() == (1, 0)
        for again in (ort.OrtValue.from_dlpack(value), ort.OrtValue.from_dlpack(array)):
            assert (again.numpy().dtype, again.numpy().tolist()) == (array.dtype, array.tolist())
        assert ort.OrtValue.from_dlpack(value).data_ptr() == value.data_ptr()


def check_bindings() -> None:
    device = core.OrtDevice(core.OrtDevice.cpu(), core.OrtDevice.default_memory(), 0)
    opened = session()
    binding = core.SessionIOBinding(opened._sess)
    binding.bind_ortvalue_input("X", core.OrtValue.ortvalue_from_numpy(X, device))
    binding.bind_output("Y", device)
    opened._sess.run_with_iobinding(binding, None)
    np.testing.assert_allclose(binding.get_outputs()[0].numpy(), X * X)
    binding = opened.io_binding()
    target = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32, "cpu", 0)
    binding.bind_cpu_input("X", X)
    binding.bind_output("Y", "cpu", 0, np.float32, [3, 2], target.data_ptr())
    for factor in (1, 2):
        binding.bind_cpu_input("X", X * factor)
        binding.synchronize_inputs()
        opened.run_with_iobinding(binding)
        binding.synchronize_outputs()
        np.testing.assert_allclose(target.numpy(), X * X * factor)
        assert binding.get_outputs()[0].device_name() == "cpu"


def check_outputs_are_the_callers() -> None:
    opened, kept = session("passed.onnx"), []
    for number in range(4):
        x = np.full((1, 2), number, np.float32)
        kept.append(opened.run(None, {"x": x}))
        assert not np.shares_memory(kept[-1][1], x)
    for number, (more, same) in enumerate(kept):
        assert (more.tolist(), same.tolist()) == ([[number + 10.0] * 2], [[float(number)] * 2])


def check_devices_and_memory() -> None:
    cpu, cuda = ort.OrtDevice.make("cpu", 0), ort.OrtDevice.make("cuda", 0)
    assert (cpu.device_id(), cpu.device_type(), cpu.device_mem_type()) == (0, 0, 0)
    assert cpu.device_vendor_id() == ort.OrtDeviceVendorId.NONE
    assert cuda.device_vendor_id() == ort.OrtDeviceVendorId.NVIDIA == 0x10DE
    arena, default = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, ort.OrtMemType.DEFAULT
    info = ort.OrtMemoryInfo("Cpu", arena, 0, default)
    assert (info.name, info.device_id, info.mem_type, info.allocator_type) == ("Cpu", 0, default, arena)
    assert (info.device_mem_type, info.device_vendor_id) == (ort.OrtDeviceMemoryType.DEFAULT, 0)
    kind, usual = ort.OrtMemoryInfoDeviceType.CPU, ort.OrtDeviceMemoryType.DEFAULT
    made = ort.OrtMemoryInfo.create_v2("Test", kind, 0, 0, usual, 128, arena)
    assert (made.name, made.device_mem_type, made.allocator_type) == ("Test", usual, arena)
    assert ort.OrtArenaCfg(8, 0, 4, 2).max_dead_bytes_per_chunk == 2
    assert ort.OrtArenaCfg({"max_mem": 16, "max_power_of_two_extend_bytes": 17}).max_power_of_two_extend_bytes == 17
    ort.create_and_register_allocator(info, None)


def check_maps() -> None:
    opened = session("maps.onnx")
    label, scores = opened.get_outputs()
    assert (label.type, scores.type, scores.shape) == ("tensor(int64)", "seq(map(int64,tensor(float)))", [])
    labels, found = opened.run(None, {"X": np.array([[1, 0], [0, 2]], np.float32)})
    assert labels.tolist() == [3, 5]
    assert [list(row) for row in found] == [[3, 5], [3, 5]]
    assert all(abs(sum(row.values()) - 1) < 1e-6 and isinstance(row[3], float) for row in found)


def check_backend() -> None:
    backend = import_module("onnxruntime.backend")
    assert backend.supports_device("CPU")
    assert not backend.supports_device("GPU")
    ready = backend.prepare(str(FOLDER / "mul.onnx"), "CPU")
    for inputs in ([X], X):
        np.testing.assert_allclose(ready.run(inputs)[0], X * X)
    np.testing.assert_allclose(backend.run((FOLDER / "mul.onnx").read_bytes(), X)[0], X * X)


def check_sparse_tensors() -> None:
    cpu = ort.OrtDevice.make("cpu", 0)
    values, indices = np.array([1, 2, 3], np.float32), np.array([3, 5, 15])
    listed = ort.SparseTensor.sparse_coo_from_numpy([9, 9], values, indices, cpu)
    assert (listed.format(), listed.dense_shape()) == (ort.OrtSparseFormat.ORT_SPARSE_COO, [9, 9])
    assert (listed.data_type(), listed.device_name()) == ("sparse_tensor(float)", "cpu")
    again = ort.OrtValue.ort_value_from_sparse_tensor(listed).as_sparse_tensor()
    assert (again.values().tolist(), again.as_coo_view().indices().tolist()) == ([1, 2, 3], [3, 5, 15])
    assert not again.values().flags.writeable
    inner, outer = np.array([1, 1, 1]), np.array([0, 1, 2, 3, 3, 3, 3, 3, 3, 3])
    rows = ort.SparseTensor.sparse_csr_from_numpy([9, 9], values, inner, outer, cpu)
    assert rows.format() == ort.OrtSparseFormat.ORT_SPARSE_CSRC
    assert (rows.as_csrc_view().inner().tolist(), rows.as_csrc_view().outer().tolist()) == ([1] * 3, outer.tolist())
    raises(RuntimeError, lambda: listed.to_cuda(ort.OrtDevice.make("cuda", 0)))


def check_runs_that_fail() -> None:
    wrong = (core.Fail, core.InvalidArgument, core.RuntimeException)
    raises(wrong, lambda: session("sum.onnx").run(None, {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}))


def check_assignment_to_providers() -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    (part,) = session("mul.onnx", options).get_provider_graph_assignment_info()
    (node,) = part.get_nodes()
    assert (part.ep_name, node.name, node.op_type, node.domain) == ("CPUExecutionProvider", "product", "Mul", "")
    raises(core.Fail, session().get_provider_graph_assignment_info, "record_ep_graph_assignment_info")


CHECKS = [name for name in sorted(globals()) if name.startswith("check_")]

if __name__ == "__main__":
    failed = {}
    for name in CHECKS:
        try:
            globals()[name]()
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    print(json.dumps({"checks": CHECKS, "failed": failed}))
