"""What armnet's stand-in for tflite_runtime does, where the real one need not be there to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armnet.standins.tflite_runtime.interpreter import Interpreter, InterpreterWithCustomOps, load_delegate

pytest.importorskip("tflite", reason="the models are written with tflite")

from tests.support.tflite_models import Model, Sparsity


@pytest.fixture(scope="module")
def adder() -> bytes:
    """y = relu(a + b), with an open first size and two signatures."""
    model = Model()
    a = model.input("a", (1, 3), signature=(-1, 3))
    b = model.input("b", (1, 3), signature=(-1, 3))
    total, y = model.tensor("total", (1, 3), signature=(-1, 3)), model.tensor("y", (1, 3), signature=(-1, 3))
    model.operator("ADD", [a, b], [total], "AddOptions")
    model.operator("RELU", [total], [y])
    other = model.graph("other")
    x = other.input("x", (2,))
    z = other.tensor("z", (2,))
    other.operator("RELU", [x], [z])
    other.outputs = [z]
    model.signatures = [("plus", {"left": a, "right": b}, {"sum": y}, 0), ("relu", {"x": x}, {"z": z}, 1)]
    return model.to_bytes([y])


def test_the_views_of_tensor_are_its_memory(adder: bytes) -> None:
    interpreter = Interpreter(model_content=adder)
    interpreter.allocate_tensors()
    (a, b), (y,) = ([one["index"] for one in details] for details in edges(interpreter))
    interpreter.tensor(a)()[...] = [[1, 2, 3]]
    interpreter.tensor(b)()[...] = [[1, -5, 1]]
    output = interpreter.tensor(y)
    interpreter.invoke()
    assert output().tolist() == [[2, 0, 4]]
    held = output()[0]
    with pytest.raises(RuntimeError, match="reference to internal data"):
        interpreter.invoke()
    del held
    interpreter.invoke()


def edges(interpreter: Any) -> Any:
    return interpreter.get_input_details(), interpreter.get_output_details()


def test_intermediate_tensors_are_kept_when_asked(adder: bytes) -> None:
    with pytest.warns(UserWarning, match="preserve_all_tensors"):
        interpreter = Interpreter(model_content=adder, experimental_preserve_all_tensors=True)
    plain = Interpreter(model_content=adder)
    for one in (interpreter, plain):
        one.allocate_tensors()
        one.set_tensor(0, np.array([[1, 2, 3]], np.float32))
        one.set_tensor(1, np.array([[1, -5, 1]], np.float32))
        one.invoke()
    assert interpreter.get_tensor(2).tolist() == [[2, -3, 4]]
    with pytest.raises(ValueError, match="null"):
        plain.get_tensor(2)


def test_weights_that_the_file_computes_of_others_are_no_obstacle() -> None:
    model = Model()
    x, y, z = model.input("x", (1, 4, 4, 2)), model.tensor("y", (1, 4, 4, 3)), model.tensor("z", (1, 4, 4, 3))
    filters, halves = model.tensor("w", (3, 1, 1, 2)), model.constant("half", np.ones((3, 1, 1, 2), np.float16))
    model.operator("DEQUANTIZE", [halves], [filters], version=3)
    model.operator("CONV_2D", [x, filters, -1], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1)
    model.operator("RELU", [y], [z])
    with pytest.warns(UserWarning, match="preserve_all_tensors"):
        interpreter = Interpreter(model_content=model.to_bytes([z]), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.full((1, 4, 4, 2), -3, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == np.full((1, 4, 4, 3), -6).tolist()
    assert not interpreter.get_tensor(z).any()


def test_signatures_run_their_own_graphs(adder: bytes) -> None:
    interpreter = Interpreter(model_content=adder)
    assert interpreter.get_signature_list() == {
        "plus": {"inputs": ["left", "right"], "outputs": ["sum"]},
        "relu": {"inputs": ["x"], "outputs": ["z"]},
    }
    with pytest.raises(ValueError, match="2 signatures"):
        interpreter.get_signature_runner()
    x = np.ones((4, 3), np.float32)
    plus, relu = map(interpreter.get_signature_runner, ("plus", "relu"))
    assert plus(left=x, right=x)["sum"].shape == (4, 3)
    assert relu(x=np.array([-1, 5], np.float32))["z"].tolist() == [0, 5]
    assert interpreter.get_tensor(1, subgraph_index=1).tolist() == [0, 5]
    assert relu.get_input_details()["x"]["shape"].tolist() == [2]


def test_variables_keep_their_content_until_they_are_reset() -> None:
    model = Model()
    x = model.input("x", (1, 2))
    state = model.tensor("state", (1, 2), is_variable=True)
    weights = model.constant("w", np.eye(2))
    recurrent = model.constant("r", np.eye(2))
    bias = model.constant("b", np.zeros(2))
    y = model.tensor("y", (1, 2))
    model.operator("RNN", [x, weights, recurrent, bias, state], [y], "RNNOptions")
    interpreter = Interpreter(model_content=model.to_bytes([y]))
    interpreter.allocate_tensors()

    def step() -> Any:
        interpreter.set_tensor(x, np.ones((1, 2), np.float32))
        interpreter.invoke()
        return interpreter.get_tensor(y).tolist()

    first, second = step(), step()
    assert first == [[1, 1]]
    assert second == [[2, 2]]
    interpreter.reset_all_variables()
    assert step() == first


def test_an_empty_input_is_summed() -> None:
    model = Model()
    x = model.input("x", (1,), signature=(-1,))
    y = model.tensor("y", ())
    model.operator("SUM", [x, model.constant("axis", [0])], [y], "ReducerOptions")
    model.signatures = [("sum", {"x": x}, {"y": y}, 0)]
    runner = Interpreter(model_content=model.to_bytes([y])).get_signature_runner()
    assert runner(x=np.zeros(0, np.float32))["y"] == 0
    assert runner(x=np.ones(3, np.float32))["y"] == 3


def test_sparse_weights_are_described() -> None:
    model = Model()
    x = model.input("x", (1, 4))
    sparsity = Sparsity([0, 1], [], [2, ([0, 1, 2], [1, 3])])
    w = model.constant("w", np.array([2.0, 3.0], np.float32), shape=(2, 4), sparsity=sparsity)
    y = model.tensor("y", (1, 2))
    model.operator("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    interpreter = Interpreter(model_content=model.to_bytes([y]))
    assert interpreter.get_tensor(w).tolist() == [2, 3]
    found = interpreter.get_tensor_details()[w]["sparsity_parameters"]
    assert found["traversal_order"].tolist() == [0, 1]
    assert found["dim_metadata"][0] == {"format": 0, "dense_size": 2}
    assert found["dim_metadata"][1]["array_indices"].tolist() == [1, 3]


def test_compiled_code_is_refused_with_a_reason(adder: bytes) -> None:
    with pytest.raises(ValueError, match="libedgetpu"):
        load_delegate("libedgetpu.so.1")
    with pytest.raises(ValueError, match="delegates"):
        Interpreter(model_content=adder, experimental_delegates=[object()])
    with pytest.raises(ValueError, match="compiled code"):
        InterpreterWithCustomOps(["register"], model_content=adder)
    with pytest.raises(TypeError, match="no_such_argument"):
        Interpreter(model_content=adder, no_such_argument=True)
    with pytest.raises(AttributeError, match="'Interpreter' object of armnet's stand-in for tflite_runtime"):
        Interpreter(model_content=adder).no_such_method  # noqa: B018


def test_an_operator_that_armnet_lacks_is_refused_when_tensors_are_allocated(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("x", (2,)), model.tensor("y", (2,))
    model.operator("CUSTOM", [x], [y], custom="NoSuchOperator")
    path = tmp_path / "model.tflite"
    path.write_bytes(model.to_bytes([y]))
    interpreter = Interpreter(path)
    with pytest.raises(RuntimeError, match="NoSuchOperator"):
        interpreter.allocate_tensors()
