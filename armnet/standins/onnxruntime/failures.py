"""The exceptions of onnxruntime, under its names and with its status codes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Type, TypeVar

from runtime_arm.errors import ArmnetError, FeedError, FormatError

Kind = TypeVar("Kind", bound="Type[Exception]")
_statuses: Dict[Type[Exception], str] = {}


def _status(number: int, title: str) -> Callable[[Kind], Kind]:
    def add(kind: Kind) -> Kind:
        _statuses[kind] = f"[ONNXRuntimeError] : {number} : {title} : "
        return kind

    return add


@_status(1, "FAIL")
class Fail(Exception):
    """Something went wrong that has no status of its own."""


@_status(2, "INVALID_ARGUMENT")
class InvalidArgument(Exception):
    """An input, output or option does not fit the model."""


@_status(3, "NO_SUCHFILE")
class NoSuchFile(Exception):
    """The model's file does not exist."""


@_status(4, "NO_MODEL")
class NoModel(Exception):
    """No model is loaded."""


@_status(5, "ENGINE_ERROR")
class EngineError(Exception):
    """The execution engine failed."""


@_status(6, "RUNTIME_EXCEPTION")
class RuntimeException(Exception):
    """An operator failed while it ran."""


@_status(7, "INVALID_PROTOBUF")
class InvalidProtobuf(Exception):
    """The bytes are no ONNX model."""


@_status(8, "MODEL_LOADED")
class ModelLoaded(Exception):
    """A model is loaded already."""


@_status(9, "NOT_IMPLEMENTED")
class NotImplemented(Exception):  # onnxruntime's name
    """armnet lacks an operator or a feature."""


@_status(10, "INVALID_GRAPH")
class InvalidGraph(Exception):
    """The model contradicts itself."""


@_status(11, "EP_FAIL")
class EPFail(Exception):
    """An execution provider failed."""


@_status(12, "MODEL_LOAD_CANCELED")
class ModelLoadCanceled(Exception):
    """Loading was cancelled."""


@_status(13, "MODEL_REQUIRES_COMPILATION")
class ModelRequiresCompilation(Exception):
    """The model has to be compiled for its provider first."""


@_status(14, "NOT_FOUND")
class NotFound(Exception):
    """What was asked for does not exist."""


def failure(kind: Type[Exception], text: str) -> Exception:
    """An exception with onnxruntime's status in front of its text."""
    return kind(_statuses[kind] + text)


def failure_to_load(error: ArmnetError, source: str) -> Exception:
    """The exception for a model that armnet refused."""
    kind: Type[Exception] = InvalidProtobuf if isinstance(error, FormatError) else NotImplemented
    text = str(error)
    return failure(kind, text if source in text else f"{source}: {text}")


def failure_to_run(error: ArmnetError) -> Exception:
    """The exception for a run that armnet refused or could not finish."""
    return failure(InvalidArgument if isinstance(error, FeedError) else Fail, str(error))


def refuse(what: str) -> Any:
    """Raise NotImplemented for a part of onnxruntime's interface that armnet has nothing behind."""
    raise failure(NotImplemented, f"armnet's stand-in for onnxruntime has no {what}")
