"""SessionOptions, RunOptions and their enumerations."""

from __future__ import annotations

import operator
from enum import IntEnum
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from armnet.standins.notes import Standin, note
from armnet.standins.onnxruntime.failures import refuse

WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
WEIGHTS_SIZE = "session.optimized_model_external_initializers_min_size_in_bytes"
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


class Named(IntEnum):
    """Numbers that print as their names, in every version of Python."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(Named):
    """How far a model is optimised: armnet knows not at all (ORT_DISABLE_ALL), and as far as it can."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(Named):
    """The order of operators; armnet runs them one after the other and splits each among its threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(Named):
    """The order in which operators are scheduled; armnet's optimizer chooses it."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(Named):
    """The kinds of allocators."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(Named):
    """The kinds of memory."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class Setting:
    """An attribute with a default. ``kind``: the type that it takes. ``effect``: None if the stand-in honours it, else
    why another value than the default changes nothing."""

    def __init__(self, kind: type, default: Any, effect: Optional[str] = None):
        self.kind, self.default, self.effect = kind, default, effect
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Optional[_Settings], owner: type) -> Any:
        return self if instance is None else instance._values.get(self.name, self.default)

    def __set__(self, instance: _Settings, value: Any) -> None:
        if self.kind in (int, bool) and hasattr(value, "__index__"):
            value = self.kind(operator.index(value))
        if not isinstance(value, self.kind):
            kind = type(instance).__name__
            raise TypeError(f"{kind}.{self.name} takes {self.kind.__name__}, got {type(value).__name__} {value!r}")
        instance._values[self.name] = value


class _Settings(Standin):
    """Attributes that are Settings, and entries by name."""

    __slots__ = ("_entries", "_values")
    _package = "onnxruntime"
    _honoured: FrozenSet[str] = frozenset()  # the config entries that have an effect

    def __init__(self) -> None:
        self._values: Dict[str, Any] = {}
        self._entries: Dict[str, str] = {}

    def _add(self, key: str, value: str) -> None:
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(f"config entries are strings, got {type(text).__name__} {text!r}")
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]

    def _note_ignored(self) -> None:
        """Log what is set and changes nothing, once each."""
        severity = self._values.get("log_severity_level", -1)
        for name, value in self._values.items():
            setting = getattr(type(self), name)
            if setting.effect is not None and value != setting.default:
                note(f"{type(self).__name__}.{name} = {value!r} changes nothing: {setting.effect}", severity)
        for key in self._entries.keys() - self._honoured:
            note(f"the config entry {key!r} changes nothing: armnet does not know it", severity)


class SessionOptions(_Settings):
    """How a session is made."""

    __slots__ = ("_files", "_providers", "_sizes", "_weights")

    _honoured = frozenset([RECORD_ASSIGNMENT, WEIGHTS_FILE, WEIGHTS_SIZE])

    intra_op_num_threads = Setting(int, 0)
    graph_optimization_level = Setting(GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL)
    enable_profiling = Setting(bool, False)
    profile_file_prefix = Setting(str, "onnxruntime_profile_")
    log_severity_level = Setting(int, -1)
    use_deterministic_compute = Setting(bool, False)  # armnet's results never depend on the run
    logid = Setting(str, "", "the log of a session has no name of its own")
    log_verbosity_level = Setting(int, 0, "armnet logs no details")
    inter_op_num_threads = Setting(int, 0, "operators run one after the other")
    execution_mode = Setting(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL, "operators run one after the other")
    execution_order = Setting(ExecutionOrder, ExecutionOrder.DEFAULT, "armnet's optimizer chooses the order")
    enable_cpu_mem_arena = Setting(bool, True, "armnet plans a session's memory before it runs")
    enable_mem_pattern = Setting(bool, True, "armnet plans a session's memory before it runs")
    enable_mem_reuse = Setting(bool, True, "armnet plans a session's memory before it runs")
    use_per_session_threads = Setting(bool, True, "every session has threads of its own")
    optimized_model_filepath = Setting(str, "")  # written as ONNX

    def __init__(self) -> None:
        super().__init__()
        self._sizes: Dict[str, int] = {}
        self._providers: List[Tuple[str, Dict[str, str]]] = []
        self._weights: Dict[str, Any] = {}
        self._files: Dict[str, bytes] = {}

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give a size to the dimensions of this name."""
        self._sizes[name] = _size(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give a size to the dimensions that denote this."""
        self._sizes[f"/{denotation}"] = _size(size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a config entry."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """A config entry that was set. RuntimeError for another one."""
        return self._get(key)

    def add_provider(self, name: str, options: Dict[str, str]) -> None:
        """Ask for an execution provider; the only one is the processor's."""
        self._providers.append((name, dict(options)))

    def has_providers(self) -> bool:
        """Whether an execution provider was asked for."""
        return bool(self._providers)

    def add_initializer(self, name: str, value: Any) -> None:
        """Take an OrtValue in place of the model's weight of this name."""
        self._weights[name] = value.numpy()

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """The same for several weights."""
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], contents: Sequence[bytes], lengths: Sequence[int]
    ) -> None:
        """Take these bytes in place of the model's files of external data."""
        for name, content, length in zip(names, contents, lengths):
            self._files[name] = bytes(content[:length])

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: operators in shared libraries need onnxruntime itself."""
        refuse(f"SessionOptions.register_custom_ops_library: {path} needs onnxruntime itself")

    def _configured(self, config: Mapping[str, Any]) -> SessionOptions:
        """A copy with the settings that a model brings along."""
        made = SessionOptions()
        for name in SessionOptions.__slots__ + _Settings.__slots__:
            setattr(made, name, getattr(self, name).copy())
        for name, value in config.items():
            setting = getattr(SessionOptions, name, None)
            if isinstance(setting, Setting):
                setattr(made, name, setting.kind(value))
        return made


class RunOptions(_Settings):
    """How a session runs once."""

    __slots__ = ()

    log_severity_level = Setting(int, -1)
    terminate = Setting(bool, False)
    only_execute_path_to_fetches = Setting(bool, False, "armnet runs the whole network")
    logid = Setting(str, "", "the log of a run has no name of its own")
    log_verbosity_level = Setting(int, 0, "armnet logs no details")

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a config entry."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """A config entry that was set. RuntimeError for another one."""
        return self._get(key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Refused: armnet has no adapters."""
        refuse("RunOptions.add_active_adapter: it has no adapters")


def _size(size: int) -> int:
    if not isinstance(size, int) or size < 0:
        raise TypeError(f"a dimension's size must be a number that is not negative, got {size!r}")
    return size
