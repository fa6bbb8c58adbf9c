"""What programs do with an ONNX model, and what they do wrong. Arguments: the model's file, sizes of its inputs."""

import sys
from contextlib import suppress

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile

WRONG = (ValueError, TypeError, RuntimeError, InvalidArgument, Fail, InvalidProtobuf, NoSuchFile, AttributeError)


def main(path: str, sizes: "dict[str, int]") -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, sess_options=options, providers=["CPUExecutionProvider"])
    inputs, outputs = session.get_inputs(), session.get_outputs()
    session.get_modelmeta()
    session.get_overridable_initializers()
    feeds = {node.name: example(node, sizes) for node in inputs}
    names = [node.name for node in outputs]
    session.run(None, feeds)
    session.run(names[-1:], feeds)
    session.run([names[0], names[0]], {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in feeds.items()})
    session.run_with_ort_values(names, {name: ort.OrtValue.ortvalue_from_numpy(x) for name, x in feeds.items()})
    bound(session, feeds, names)
    mistakes(session, feeds, path)
    with open(path, "rb") as file:
        again = ort.InferenceSession(file.read(), options)
    again.run(None, feeds)
    again.end_profiling()


def example(node: object, sizes: "dict[str, int]") -> np.ndarray:
    shape = [dim if isinstance(dim, int) else sizes.get(str(dim), 1) for dim in node.shape]
    rng = np.random.default_rng(1)
    if node.type == "tensor(int64)":
        return np.full(shape, sizes.get(node.name, 1), np.int64)
    return rng.random(shape, np.float32) * sizes.get("scale", 1)


def bound(session: object, feeds: "dict[str, np.ndarray]", names: "list[str]") -> None:
    binding = session.io_binding()
    first, *others = feeds
    x = np.ascontiguousarray(feeds[first])
    binding.bind_input(first, "cpu", 0, x.dtype.type, x.shape, x.__array_interface__["data"][0])
    for name in others:
        binding.bind_cpu_input(name, feeds[name])
    for name in names:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    found = binding.copy_outputs_to_cpu()
    binding.get_outputs()
    target = ort.OrtValue.ortvalue_from_shape_and_type(found[0].shape, found[0].dtype.type, "cpu", 0)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output(names[0], target)
    session.run_with_iobinding(binding)
    target.numpy()


def mistakes(session: object, feeds: "dict[str, np.ndarray]", path: str) -> None:
    first = next(iter(feeds))
    x = feeds[first]
    wrong = [
        (None, {}),
        (None, {**feeds, "no such input": x}),
        (["no such output"], feeds),
        (None, {**feeds, first: x.astype(np.float64)}),
        (None, {**feeds, first: x.astype(np.int32)}),
        (None, {**feeds, first: x[0]}),
        (None, {**feeds, first: np.array(["text"])}),
        (None, {**feeds, first: 3.0}),
        ("no list", feeds),
        (None, None),
    ]
    if all(isinstance(dim, int) for dim in session.get_inputs()[0].shape):
        wrong.append((None, {**feeds, first: x[..., 1:]}))
    for names, given in wrong:
        with suppress(*WRONG):
            session.run(names, given)
    for source in (path + ".missing", None, 3, b"no model", b""):
        with suppress(*WRONG):
            ort.InferenceSession(source)
    with suppress(*WRONG):
        ort.SessionOptions().get_session_config_entry("no such entry")
    stopped = ort.RunOptions()
    stopped.terminate = True
    with suppress(*WRONG):
        session.run(None, feeds, stopped)


assert _pybind_state.get_device() == "CPU"
if __name__ == "__main__":
    main(sys.argv[1], {name: int(size) for name, size in (word.split("=") for word in sys.argv[2:])})
