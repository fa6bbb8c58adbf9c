"""What programs do with a TFLite model, and what they do wrong. Argument: the model's file."""

import sys
from contextlib import suppress

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

WRONG = (ValueError, TypeError, RuntimeError, OSError)


def main(path: str) -> None:
    interpreter = Interpreter(path, num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    inputs = interpreter.get_input_details()
    interpreter.get_output_details()
    interpreter.get_signature_list()
    interpreter.num_subgraphs()
    tensors = interpreter.get_tensor_details()
    early(interpreter, inputs[0])
    interpreter.allocate_tensors()
    feed(interpreter, inputs)
    interpreter.invoke()
    for details in interpreter.get_output_details():
        interpreter.get_tensor(details["index"])
    views(interpreter, inputs[0])
    mistakes(interpreter, inputs[0])
    constants(interpreter, tensors)
    interpreter.reset_all_variables()
    with open(path, "rb") as file:
        again = Interpreter(
            model_content=file.read(), num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
    signatures(again)
    resized(again)


def feed(interpreter: Interpreter, inputs: "list[dict]") -> None:
    for details in inputs:
        interpreter.set_tensor(details["index"], example(details["shape"], details["dtype"]))


def example(shape: "list[int]", dtype: type) -> np.ndarray:
    rng = np.random.default_rng(2)
    if np.dtype(dtype).kind == "f":
        return rng.random(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def early(interpreter: Interpreter, first: "dict") -> None:
    """Calls that come before allocate_tensors."""
    index = first["index"]
    for call in (
        interpreter.invoke,
        lambda: interpreter.get_tensor(index),
        lambda: interpreter.set_tensor(index, example(first["shape"], first["dtype"])),
        lambda: interpreter.tensor(index)(),
    ):
        with suppress(*WRONG):
            call()


def views(interpreter: Interpreter, first: "dict") -> None:
    view = interpreter.tensor(first["index"])
    held = view()
    for call in (interpreter.invoke, interpreter.allocate_tensors):
        with suppress(*WRONG):
            call()
    held[...] = 0
    del held
    interpreter.get_tensor(first["index"])
    interpreter.invoke()


def mistakes(interpreter: Interpreter, first: "dict") -> None:
    index, x = first["index"], example(first["shape"], first["dtype"])
    other = np.float64 if first["dtype"] != np.float64 else np.int32
    for call in (
        lambda: interpreter.set_tensor(index, x.astype(other)),
        lambda: interpreter.set_tensor(index, x[..., 1:]),
        lambda: interpreter.set_tensor(index, x[0]),
        lambda: interpreter.set_tensor(99999, x),
        lambda: interpreter.set_tensor(-1, x),
        lambda: interpreter.set_tensor("input", x),
        lambda: interpreter.get_tensor(99999),
        lambda: interpreter.get_tensor(index, 7),
        lambda: interpreter.get_tensor_details(7),
        lambda: interpreter.resize_tensor_input(index, [3, *x.shape[1:], 7], strict=True),
        lambda: interpreter.get_signature_runner("no such signature"),
        Interpreter,
        lambda: Interpreter("no such file.tflite"),
        lambda: Interpreter(model_content=b"no model at all, but long enough"),
        lambda: Interpreter(sys.argv[1], num_threads=0),
        lambda: Interpreter(sys.argv[1], num_threads="one"),
        lambda: Interpreter(sys.argv[1], b"both"),
        lambda: Interpreter(sys.argv[1], experimental_op_resolver_type=9),
    ):
        with suppress(*WRONG):
            call()
    with suppress(*WRONG):
        load_delegate("no_such_delegate.so")


def constants(interpreter: Interpreter, tensors: "list[dict]") -> None:
    """The content of the first tensors that are constant."""
    written = {at for operation in interpreter._get_ops_details() for at in operation["outputs"]}
    edges = {details["index"] for details in interpreter.get_input_details()}
    known = [details["index"] for details in tensors]
    for index in [index for index in known if index not in written | edges][:5]:
        interpreter.get_tensor(index)


def signatures(interpreter: Interpreter) -> None:
    for key in interpreter.get_signature_list():
        runner = interpreter.get_signature_runner(key)
        details = runner.get_input_details()
        runner.get_output_details()
        runner(**{name: example(one["shape"], one["dtype"]) for name, one in details.items()})
        with suppress(*WRONG):
            runner()
        with suppress(*WRONG):
            runner(**{f"no_{name}": example(one["shape"], one["dtype"]) for name, one in details.items()})


def resized(interpreter: Interpreter) -> None:
    """Three at once, where the model leaves the first size open."""
    details = interpreter.get_input_details()
    if any(one["shape_signature"][0] != -1 for one in details if len(one["shape"])):
        return
    for one in details:
        interpreter.resize_tensor_input(one["index"], [3, *one["shape"][1:]], strict=True)
    with suppress(*WRONG):
        interpreter.invoke()
    interpreter.allocate_tensors()
    feed(interpreter, interpreter.get_input_details())
    interpreter.invoke()
    for one in interpreter.get_output_details():
        interpreter.get_tensor(one["index"])


if __name__ == "__main__":
    main(sys.argv[1])
