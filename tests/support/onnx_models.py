"""Runs ONNX models in onnxruntime, as a reference for what they compute."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

SILENT = 4  # onnxruntime's log level


def run_model(model: Any, feeds: Dict[str, Any]) -> List[Any]:
    """The outputs of a checked model, which is a ModelProto, for these inputs."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed to check models with")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to run models with")
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = SILENT
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))
