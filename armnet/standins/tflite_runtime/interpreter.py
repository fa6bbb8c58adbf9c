"""Interpreter, SignatureRunner, load_delegate: the interface of TensorFlow Lite in Python."""

from __future__ import annotations

import operator
import os
import warnings
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set, Tuple, Union

import numpy as np

from armnet.standins.models import pair_of
from armnet.standins.notes import Standin, note
from armnet.standins.tflite_runtime.details import numpy_type, operation_details, tensor_details
from armnet.standins.tflite_runtime.resolver import OpResolverType
from armnet.standins.tflite_runtime.subgraph import Subgraph
from exporter.tflite.reader import Signature, TfliteFile, open_tflite
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array

__all__ = ["Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner", "load_delegate"]

_HELD = (
    "There is at least 1 reference to internal data of the interpreter: an array that tensor() made. Hold the function "
    "that tensor() returns, and no array, while calling this"
)
_SWITCHES = (
    "experimental_disable_delegate_clustering",
    "experimental_default_delegate_latest_features",
    "experimental_compress_quantization_zero_points",
    "experimental_disable_delegate_node_fusion",
    "experimental_force_delegate_node_profiling",
)


class Delegate(Standin):
    """A delegate is a shared library for TensorFlow Lite itself: armnet has none. ValueError, saying so."""

    _package = "tflite_runtime"

    def __init__(self, library: str, options: Optional[Dict[Any, Any]] = None):
        raise ValueError(
            f"Failed to load delegate from {library}\narmnet runs the network on the processor; a delegate needs "
            "TensorFlow Lite itself"
        )


def load_delegate(library: str, options: Optional[Dict[Any, Any]] = None) -> Delegate:
    """Refused: see Delegate."""
    return Delegate(library, options)


class Interpreter(Standin):
    """Runs a .tflite file, given as its path or its content.

    ValueError if there is no such model; RuntimeError from ``allocate_tensors`` if armnet cannot run it.
    num_threads: how many cores a run may use; by default all. experimental_preserve_all_tensors: keep every tensor of a
    run; the network is then not optimised.
    """

    _package = "tflite_runtime"

    def __init__(
        self,
        model_path: Union[str, os.PathLike[str], None] = None,
        model_content: Optional[bytes] = None,
        experimental_delegates: Optional[Sequence[Any]] = None,
        num_threads: Optional[int] = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        **switches: bool,
    ):
        if not isinstance(experimental_op_resolver_type, OpResolverType):
            raise ValueError(f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}")
        _check_threads(num_threads)
        if experimental_delegates:
            raise ValueError("armnet's stand-in for tflite_runtime has no delegates: leave out experimental_delegates")
        _check_switches(switches)
        self._threads = num_threads
        self._preserve = experimental_preserve_all_tensors
        if experimental_preserve_all_tensors:
            warnings.warn(
                "experimental_preserve_all_tensors keeps every tensor in memory, and the network is not optimised",
                stacklevel=2,
            )
        self._source = _checked_source(model_path, model_content)
        self._file = _opened(self._source)
        self._subgraphs: Dict[int, Subgraph] = {}
        self._main = self._subgraph(0)

    def allocate_tensors(self) -> None:
        """Plan the memory for the inputs' present shapes; needed before a run, and again after a resize."""
        self._ensure_safe()
        self._main.allocate()

    def invoke(self) -> None:
        """Run the network on what its inputs hold."""
        self._ensure_safe()
        self._main.invoke()

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy a value into an input."""
        self._main.set(operator.index(tensor_index), value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Any:
        """A copy of a tensor: an input, an output, a constant, and others with experimental_preserve_all_tensors."""
        return self._checked_subgraph(subgraph_index).get(operator.index(tensor_index))

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns a view of a tensor's memory."""
        index = operator.index(tensor_index)
        return lambda: self._main.view(index)

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape; strict: only sizes that are -1 in its shape_signature may change."""
        self._ensure_safe()
        self._main.resize(operator.index(input_index), [int(size) for size in np.asarray(tensor_size).ravel()], strict)

    def get_input_details(self) -> List[Dict[str, Any]]:
        """Name, index, shape, dtype and quantisation of each input."""
        return [self._get_tensor_details(index, 0) for index in self._main.graph.inputs]

    def get_output_details(self) -> List[Dict[str, Any]]:
        """Name, index, shape, dtype and quantisation of each output."""
        return [self._get_tensor_details(index, 0) for index in self._main.graph.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> List[Dict[str, Any]]:
        """The same for every tensor of a graph whose type armnet has."""
        subgraph = self._checked_subgraph(subgraph_index)
        known = [tensor.index for tensor in subgraph.graph.tensors if numpy_type(tensor) is not None]
        return [self._get_tensor_details(index, subgraph_index) for index in known]

    def num_subgraphs(self) -> int:
        """The number of graphs in the file."""
        return len(self._file.graphs)

    def get_signature_list(self) -> Dict[str, Dict[str, List[str]]]:
        """The names of the inputs and outputs of each signature."""
        return {
            entry.key: {"inputs": sorted(entry.inputs), "outputs": sorted(entry.outputs)}
            for entry in sorted(self._file.signatures)
        }

    def get_signature_runner(self, signature_key: Optional[str] = None) -> SignatureRunner:
        """A function of a signature's inputs; the key may be left out if there is one signature."""
        signatures = self._file.signatures
        if signature_key is None:
            if len(signatures) != 1:
                raise ValueError(f"signature_key is None and the model has {len(signatures)} signatures; one is needed")
            signature_key = signatures[0].key
        return SignatureRunner(self, signature_key)

    def reset_all_variables(self) -> None:
        """Give the network's variables their first content."""
        for subgraph in self._subgraphs.values():
            subgraph.reset_variables()

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """Whether zero points are stored as one number: never."""
        return False

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> Dict[str, Any]:
        subgraph = self._checked_subgraph(subgraph_index)
        return tensor_details(subgraph.tensor(tensor_index), subgraph.shape(tensor_index))

    def _get_op_details(self, op_index: int) -> Dict[str, Any]:
        return operation_details(self._main.graph, op_index)

    def _get_ops_details(self) -> List[Dict[str, Any]]:
        return [self._get_op_details(index) for index in range(len(self._main.graph.operations))]

    def _get_full_signature_list(self) -> Dict[str, Dict[str, Dict[str, int]]]:
        return {entry.key: {"inputs": entry.inputs, "outputs": entry.outputs} for entry in self._file.signatures}

    def _safe_to_run(self) -> bool:
        return not self._main.is_held()

    def _ensure_safe(self) -> None:
        if not self._safe_to_run():
            raise RuntimeError(_HELD)

    def _native_handle(self) -> NoReturn:
        raise RuntimeError("armnet's stand-in for tflite_runtime has no native interpreter")

    def _checked_subgraph(self, index: int) -> Subgraph:
        if not 0 <= index < len(self._file.graphs):
            raise ValueError(
                f"subgraph_index is out of range: {index}; the model has {len(self._file.graphs)} subgraphs"
            )
        return self._subgraph(index)

    def _subgraph(self, index: int) -> Subgraph:
        if index not in self._subgraphs:
            self._subgraphs[index] = Subgraph(self._file.graphs[index], lambda: self._predictor(index))
        return self._subgraphs[index]

    def _predictor(self, index: int) -> Tuple[Predictor, Dict[int, Tuple[str, bool]]]:
        """The predictor of a graph, and the blobs of the tensors that are kept."""
        key = next((entry.key for entry in self._file.signatures if entry.graph == index), None) if index else None
        pair = pair_of(self._source, ".tflite", not self._preserve, key)
        blobs = {name for net in (pair.init_net, pair.predict_net) for op in net.op for name in op.output}
        return Predictor(pair, threads=self._threads), _kept(self._file, index, blobs) if self._preserve else {}


class InterpreterWithCustomOps(Interpreter):
    """An Interpreter that is given operators of the caller's own; armnet takes none."""

    def __init__(self, custom_op_registerers: Optional[Sequence[Any]] = None, **options: Any):
        if custom_op_registerers:
            raise ValueError("armnet's stand-in for tflite_runtime cannot register operators: they are compiled code")
        super().__init__(**options)


class SignatureRunner(Standin):
    """Runs a signature: ``runner(x=array)`` returns the outputs by the signature's names."""

    _package = "tflite_runtime"

    def __init__(self, interpreter: Optional[Interpreter] = None, signature_key: Optional[str] = None):
        if interpreter is None or not signature_key:
            raise ValueError("a SignatureRunner needs an interpreter and a signature_key")
        found = [entry for entry in interpreter._file.signatures if entry.key == signature_key]
        if not found:
            raise ValueError(f'Invalid signature_key provided: "{signature_key}".')
        self._signature: Signature = found[0]
        self._interpreter = interpreter
        self._subgraph = interpreter._subgraph(self._signature.graph)

    def __call__(self, **kwargs: Any) -> Dict[str, Array]:
        inputs = self._signature.inputs
        if len(kwargs) != len(inputs):
            raise ValueError(f"the signature takes {len(inputs)} inputs ({', '.join(inputs)}), {len(kwargs)} are given")
        for name, value in kwargs.items():
            if name not in inputs:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef: it takes {', '.join(inputs)}")
            self._subgraph.resize(inputs[name], value.shape, False)
        self._subgraph.allocate()
        for name, value in kwargs.items():
            self._subgraph.set(inputs[name], value)
        self._subgraph.invoke()
        return {name: self._subgraph.get(index) for name, index in sorted(self._signature.outputs.items())}

    def get_input_details(self) -> Dict[str, Dict[str, Any]]:
        """The details of each input, by its name in the signature."""
        return self._details(self._signature.inputs)

    def get_output_details(self) -> Dict[str, Dict[str, Any]]:
        """The details of each output, by its name in the signature."""
        return self._details(self._signature.outputs)

    def _details(self, indices: Dict[str, int]) -> Dict[str, Dict[str, Any]]:
        graph = self._signature.graph
        return {name: self._interpreter._get_tensor_details(index, graph) for name, index in sorted(indices.items())}


def _check_threads(threads: Any) -> None:
    if threads is not None and not isinstance(threads, int):
        raise ValueError("type of num_threads should be int")
    if threads is not None and threads < 1:
        raise ValueError("num_threads should >= 1")


def _check_switches(switches: Dict[str, bool]) -> None:
    for name, value in switches.items():
        if name not in _SWITCHES:
            raise TypeError(f"Interpreter of armnet's stand-in for tflite_runtime takes no argument {name!r}")
        if value:
            note(f"Interpreter(..., {name}={value!r}) changes nothing: armnet has no delegates")


def _checked_source(path: Any, content: Any) -> Union[str, bytes]:
    if path and content:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    if not path and not content:
        raise ValueError("`model_path` or `model_content` must be specified.")
    if path:
        return os.fsdecode(path)
    if isinstance(content, bytes):
        return content
    raise TypeError(f"model_content must be bytes, got {type(content).__name__}")


def _opened(source: Union[str, bytes]) -> TfliteFile:
    try:
        return open_tflite(source)
    except ArmnetError as error:
        name = "the model's content" if isinstance(source, bytes) else repr(source)
        raise ValueError(f"Could not open {name}: {error}") from error


def _kept(file: TfliteFile, index: int, blobs: Set[str]) -> Dict[int, Tuple[str, bool]]:
    """The blob of every tensor that an operator of the graph writes, and whether the blob has the channels first.

    blobs: those that the translated graph has. It lacks weights that the file computes of others, such as those that it
    stores as float16, if they have other forms there.
    """
    from exporter.tflite.export import translated
    from exporter.tflite.translator import Options

    graph = file.graphs[index]
    written = {at for operation in graph.operations for at in operation.outputs}
    found: Dict[int, Tuple[str, bool]] = {}
    for tensor, blob, channels_first in translated(Options(file), graph).forms():
        if tensor.index in written and blob in blobs and (tensor.index not in found or not channels_first):
            found[tensor.index] = blob, channels_first
    return found
