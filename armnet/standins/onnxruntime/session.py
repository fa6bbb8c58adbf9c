"""InferenceSession: a model that runs."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from armnet.standins.notes import Standin, detail, note
from armnet.standins.onnxruntime.binding import IOBinding
from armnet.standins.onnxruntime.core import Core, OrtEpAssignedSubgraph, assigned
from armnet.standins.onnxruntime.failures import (
    Fail,
    InvalidArgument,
    failure,
    failure_to_load,
    failure_to_run,
)
from armnet.standins.onnxruntime.feeding import checked_feeds
from armnet.standins.onnxruntime.machine import CPU
from armnet.standins.onnxruntime.maps import Labels, as_maps, labels_of_maps
from armnet.standins.onnxruntime.memory import CPU_MEMORY, OrtMemoryInfo
from armnet.standins.onnxruntime.nodes import ModelMetadata, NodeArg, node_arg
from armnet.standins.onnxruntime.opening import called, open_model, write_optimised
from armnet.standins.onnxruntime.options import RECORD_ASSIGNMENT, RunOptions, SessionOptions
from armnet.standins.onnxruntime.profiling import Recorder
from armnet.standins.onnxruntime.providers import check_other_providers, check_providers
from armnet.standins.onnxruntime.values import OrtValue
from exporter.onnx.signature import Signature
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

Callback = Callable[[Sequence[Any], Any, str], Any]


class Session(Standin):
    """What sessions have in common. Several threads may call one session; the runs take turns."""

    _package = "onnxruntime"

    _predictor: Predictor
    _options: SessionOptions
    _recorder: Optional[Recorder]
    _inputs: List[NodeArg]
    _outputs: List[NodeArg]
    _overridable: List[NodeArg]
    _metadata: ModelMetadata
    _source: Union[str, bytes]
    _labels: Dict[str, Labels]  # of the outputs that are lists of dictionaries

    def get_inputs(self) -> List[NodeArg]:
        """The inputs that have to be fed, in the model's order."""
        return self._inputs

    def get_outputs(self) -> List[NodeArg]:
        """The outputs, in the model's order."""
        return self._outputs

    def get_overridable_initializers(self) -> List[NodeArg]:
        """The inputs that have a value of their own. armnet keeps that value: feeding them is refused."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> List[str]:
        """The execution providers of the session."""
        return [CPU]

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        """The options of each execution provider."""
        return {CPU: {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Ask for other execution providers; the processor's stays the only one."""
        check_other_providers(providers, provider_options)

    def get_input_memory_infos(self) -> List[OrtMemoryInfo]:
        """Where each input lies: in the processor's memory."""
        return [OrtMemoryInfo(*CPU_MEMORY) for _ in self._inputs]

    def get_output_memory_infos(self) -> List[OrtMemoryInfo]:
        """Where each output lies."""
        return [OrtMemoryInfo(*CPU_MEMORY) for _ in self._outputs]

    def get_input_epdevices(self) -> List[None]:
        """The device of each input: none but the processor."""
        return [None for _ in self._inputs]

    def get_provider_graph_assignment_info(self) -> List[OrtEpAssignedSubgraph]:
        """The nodes of the model and the execution provider of each, if the session's options ask to record it."""
        if self._options._entries.get(RECORD_ASSIGNMENT) != "1":
            raise failure(Fail, f"Session configuration entry '{RECORD_ASSIGNMENT}' must be set to \"1\"")
        from exporter.onnx.reader import graph_of, open_onnx

        return assigned(graph_of(open_onnx(self._source)).node, CPU)

    def get_tuning_results(self) -> List[Any]:
        """What was tuned: nothing, on the processor."""
        return []

    @property
    def _sess(self) -> Core:
        return Core(self)

    def enable_fallback(self) -> None:
        """The processor's provider is where everything falls back to."""

    def disable_fallback(self) -> None:
        """There is nothing to fall back from."""

    def run(
        self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any], run_options: Any = None
    ) -> List[Any]:
        """The outputs of these names, by default all, for these inputs by name."""
        names = self._checked_outputs(output_names)
        feeds = self._checked_feeds(input_feed)
        _check_run_options(run_options)
        try:
            if self._recorder is None:
                results = self._predictor.run(feeds)
            else:
                results = self._recorder.run(self._predictor, feeds)
        except ArmnetError as error:
            raise failure_to_run(error) from error
        return [as_maps(results[name], self._labels[name]) if name in self._labels else results[name] for name in names]

    def run_async(
        self,
        output_names: Optional[Sequence[str]],
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run in another thread, then call ``callback(results, user_data, error)``; error is "" without one."""
        names = self._checked_outputs(output_names)
        feeds = self._checked_feeds(input_feed)

        def work() -> None:
            results: List[Any] = []
            problem = ""
            try:
                results = self.run(names, feeds, run_options)
            except Exception as error:  # the callback is told, whatever it is
                problem = str(error) or type(error).__name__
            callback(results, user_data, problem)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Optional[Sequence[str]],
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> List[OrtValue]:
        """``run`` with OrtValues in place of arrays."""
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """An IOBinding of this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run with the inputs and outputs that are bound."""
        iobinding._run(run_options)

    def end_profiling(self) -> str:
        """The name of the file with the times of the operators so far; "" without ``enable_profiling``."""
        if self._recorder is None:
            return ""
        recorder, self._recorder = self._recorder, None
        return recorder.write()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, as ``time.monotonic_ns()`` counts; 0 without it."""
        return 0 if self._recorder is None else self._recorder.start_ns

    def _checked_outputs(self, names: Optional[Sequence[str]]) -> List[str]:
        if isinstance(names, str):
            raise TypeError(f"run takes a list of output names, got the string {names!r}")
        known = [node.name for node in self._outputs]
        for name in names or ():
            if name not in known:
                raise failure(InvalidArgument, f"Invalid output name:{name}; the model has {', '.join(known)}")
        return list(names or known)

    def _checked_feeds(self, feed: Mapping[str, Any]) -> Dict[str, Array]:
        given = feed.keys()
        fixed = [node.name for node in self._overridable if node.name in given]
        if fixed:
            raise failure(InvalidArgument, f"armnet keeps the model's own value of {fixed[0]!r}; it cannot be fed")
        feeds = checked_feeds(self._inputs, feed)
        return {info.name: feeds[node.name] for info, node in zip(self._predictor.inputs, self._inputs)}


class InferenceSession(Session):
    """A session of a model, given as the path of an ONNX file or as the bytes of one.

    providers, provider_options: see ``providers.check_providers``. Other options of onnxruntime's are noted.
    NoSuchFile, InvalidProtobuf, InvalidArgument or NotImplemented if armnet cannot run the model.
    """

    def __init__(
        self,
        path_or_bytes: Union[str, bytes, os.PathLike[str]],
        sess_options: Optional[SessionOptions] = None,
        providers: Optional[Sequence[Any]] = None,
        provider_options: Optional[Sequence[Dict[Any, Any]]] = None,
        **options: Any,
    ):
        started = time.monotonic_ns()
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        source = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fsdecode(path_or_bytes)
        self._source, self._options = source, SessionOptions() if sess_options is None else sess_options
        for name in options.keys() - {"enable_fallback"}:
            note(f"InferenceSession(..., {name}=...) changes nothing")
        check_providers(providers, provider_options, self._options._providers)
        signature, pair, self._options = open_model(source, self._options)
        self._options._note_ignored()
        self._describe(signature, pair)
        self._labels = labels_of_maps(source, signature)
        threads = self._options.intra_op_num_threads
        try:
            write_optimised(pair, self._options)
            self._predictor = Predictor(pair, threads=threads if threads > 0 else None)
        except ArmnetError as error:
            raise failure_to_load(error, called(source)) from error
        detail(f"{called(source)}: {len(pair.predict_net.op)} operators", self._options.log_severity_level)
        self._recorder = None
        if self._options.enable_profiling:
            self._recorder = Recorder(self._options.profile_file_prefix, started)

    def _describe(self, signature: Signature, pair: Pair) -> None:
        sizes = self._options._sizes
        shapes = {info.name: info.shape for info in pair.outputs}
        self._inputs = [node_arg(value, None, sizes) for value in signature.inputs]
        self._overridable = [node_arg(value, None, sizes) for value in signature.overridable]
        self._outputs = [node_arg(value, shapes.get(value.name), sizes) for value in signature.outputs]
        self._metadata = ModelMetadata(signature)


def _check_run_options(options: Optional[RunOptions]) -> None:
    if options is None:
        return
    if not isinstance(options, RunOptions):
        raise TypeError(f"run_options must be RunOptions, got {type(options).__name__}")
    if options.terminate:
        raise failure(Fail, "the run was terminated: RunOptions.terminate is set")
    options._note_ignored()
