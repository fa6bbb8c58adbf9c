"""armnet behind ONNX's backend interface: ``Backend.prepare(model).run(inputs)``. Needs the package onnx."""

from __future__ import annotations

from runtime_arm.imports import needed_for

with needed_for("armnet.onnx_backend"):
    from exporter.onnx_backend import Backend, BackendRep

__all__ = ["Backend", "BackendRep"]
