"""onnxruntime.backend: ONNX's interface of backends over sessions."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Tuple, Union

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.options import RunOptions, SessionOptions
from armnet.standins.onnxruntime.session import InferenceSession


class OnnxRuntimeBackendRep(Standin):
    """A model that is ready to run."""

    _package = "onnxruntime"

    def __init__(self, session: InferenceSession):
        self._session = session

    def run(self, inputs: Any, **options: Any) -> List[Any]:
        """The outputs for a list of inputs in the model's order, or for the only input; options: attributes of
        RunOptions."""
        run_options = _with(RunOptions(), options)
        nodes = self._session.get_inputs()
        values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        return self._session.run(None, dict(zip((node.name for node in nodes), values)), run_options)


def prepare(
    model: Union[str, bytes, os.PathLike[str], Any, InferenceSession, OnnxRuntimeBackendRep],
    device: Optional[str] = None,
    **options: Any,
) -> OnnxRuntimeBackendRep:
    """A model made ready to run: a file, bytes, an onnx.ModelProto or a session. options: attributes of
    SessionOptions. RuntimeError for another device than the processor."""
    if isinstance(model, OnnxRuntimeBackendRep):
        return model
    if device is not None and not supports_device(device):
        raise RuntimeError(f"armnet runs on the processor; there is no device {device!r}")
    if isinstance(model, InferenceSession):
        return OnnxRuntimeBackendRep(model)
    content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    return OnnxRuntimeBackendRep(InferenceSession(content, _with(SessionOptions(), options)))


def run_model(model: Any, inputs: Any, device: Optional[str] = None, **options: Any) -> List[Any]:
    """The outputs of a model for these inputs."""
    return prepare(model, device).run(inputs, **options)


run = run_model  # the name under which onnxruntime.backend has it


def run_node(node: Any, inputs: Any, device: Optional[str] = None, outputs_info: Any = None, **options: Any) -> Any:
    """Refused, as by onnxruntime: a node alone has no opset."""
    raise NotImplementedError("onnxruntime.backend runs models, and no nodes alone")


def is_compatible(model: Any, device: Optional[str] = None, **options: Any) -> bool:
    """Whether the model could run: what it needs is found out by ``prepare``."""
    return device is None or supports_device(device)


def supports_device(device: str) -> bool:
    """Whether the device is the processor."""
    return device.upper().partition(":")[0] == "CPU"


def is_opset_supported(model: Any) -> Tuple[bool, str]:
    """Whether the model's opsets are known, and what is wrong: armnet brings every opset into the newest form."""
    return True, ""


def _with(settings: Any, options: Any) -> Any:
    for name, value in options.items():
        if hasattr(settings, name):
            setattr(settings, name, value)
    return settings
