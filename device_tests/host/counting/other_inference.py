"""``other_inference.py MODEL``: runs an inference by onnxruntime or tflite-runtime, marked as a region.

It runs on an emulated machine whose instructions are counted, on the inputs of ``device_tests.suite.count_steps``.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

from device_tests.suite.regions import region


def onnxruntime_inference(path: str) -> Callable[[], Any]:
    """A function that runs an inference by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        feeds[value.name] = np.sin(np.arange(int(np.prod(shape)))).reshape(shape).astype(np.float32)
    return lambda: session.run(None, feeds)


def tflite_inference(path: str) -> Callable[[], Any]:
    """A function that runs an inference by tflite-runtime."""
    from tflite_runtime.interpreter import Interpreter

    interpreter = Interpreter(path, num_threads=1)
    interpreter.allocate_tensors()
    for tensor in interpreter.get_input_details():
        wave = np.sin(np.arange(int(np.prod(tensor["shape"])))).reshape(tensor["shape"])
        integers = np.dtype(tensor["dtype"]).kind in "iu"
        interpreter.set_tensor(tensor["index"], (np.abs(wave) * 100 if integers else wave).astype(tensor["dtype"]))
    return lambda: interpreter.invoke()


def main(path: str) -> None:
    """Runs two inferences; the second one is counted."""
    infer = tflite_inference(path) if path.endswith(".tflite") else onnxruntime_inference(path)
    infer()
    with region("nothing"):
        pass
    with region("network"):
        infer()


if __name__ == "__main__":
    main(sys.argv[1])
