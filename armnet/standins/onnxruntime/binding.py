"""IOBinding: inputs and outputs of a session that lie in the caller's memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import numpy as np

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.devices import require_cpu
from armnet.standins.onnxruntime.failures import InvalidArgument, failure
from armnet.standins.onnxruntime.nodes import numpy_dtype
from armnet.standins.onnxruntime.values import OrtValue
from runtime_arm.netdef import Array

if TYPE_CHECKING:
    from armnet.standins.onnxruntime.runs import Runs


class IOBinding(Standin):
    """``binding = session.io_binding()``; bind inputs and outputs, then ``session.run_with_iobinding(binding)``."""

    __slots__ = ("_inputs", "_outputs", "_results", "_session")
    _package = "onnxruntime"

    def __init__(self, session: Runs):
        self._session = session
        self._inputs: Dict[str, Array] = {}
        self._outputs: Dict[str, Optional[Array]] = {}
        self._results: List[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Feed this array."""
        self._inputs[self._input(name)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Feed what lies at this address when the session runs."""
        require_cpu(device_type)
        self._inputs[self._input(name)] = _at(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed what the value holds when the session runs."""
        self._inputs[self._input(name)] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device_type: Any = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Optional[Sequence[int]] = None,
        buffer_ptr: Optional[int] = None,
    ) -> None:
        """Fetch this output; with an address, into the memory there."""
        require_cpu(device_type)
        self._outputs[self._output(name)] = None if not buffer_ptr else _at(buffer_ptr, element_type, shape or ())

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Fetch this output into the value."""
        self._outputs[self._output(name)] = ortvalue.numpy()

    def synchronize_inputs(self) -> None:
        """Inputs need no copy to another device."""

    def synchronize_outputs(self) -> None:
        """Outputs need no copy from another device."""

    def get_outputs(self) -> List[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> List[Array]:
        """Copies of the outputs of the last run."""
        return [value.numpy().copy() for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs, self._results = {}, []

    def _run(self, run_options: Any) -> None:
        results = self._session.run(list(self._outputs), self._inputs, run_options) if self._outputs else []
        self._results = [OrtValue(_put(*pair)) for pair in zip(self._outputs.values(), results)]

    def _input(self, name: str) -> str:
        return _known(name, [node.name for node in self._session.get_inputs()], "input")

    def _output(self, name: str) -> str:
        return _known(name, [node.name for node in self._session.get_outputs()], "output")


def _known(name: str, names: List[str], kind: str) -> str:
    if name not in names:
        raise failure(InvalidArgument, f"Invalid {kind} name: {name}; the model has {', '.join(names)}")
    return name


def _put(target: Optional[Array], result: Any) -> Any:
    """The result, in the memory that is bound to it."""
    if target is None:
        return result
    if target.shape != result.shape or target.dtype != result.dtype:
        raise failure(
            InvalidArgument,
            f"an output is {result.dtype} {result.shape}, the memory bound to it {target.dtype} {target.shape}",
        )
    target[...] = result
    return target


def _at(address: int, element_type: Any, shape: Sequence[int]) -> Array:
    """The memory at an address as an array."""
    dtype = numpy_dtype(element_type)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")
    array: Array = np.frombuffer(memory, dtype).reshape(tuple(shape))
    return array
