"""The reference evaluator of the package onnx as another runtime to compare with."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, by_name
from runtime_arm.errors import ExportError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """The reference evaluator of the package onnx, which runs on NumPy with as many BLAS threads."""
    with needed_for("timing onnx's reference evaluator"):
        import onnx
        from onnx.reference import ReferenceEvaluator
    where, model = original.onnx()
    try:
        session = ReferenceEvaluator(model if isinstance(model, str) else onnx.load_from_string(model))
        given = by_name(session.input_names, feeds)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnx's reference evaluator refuses {where}: {first_line(error)}") from error
    return OtherRuntime(f"onnx reference {onnx.__version__}", where, _with_blas_threads(threads, session, given))


def _with_blas_threads(threads: int, session: Any, given: Dict[str, Array]) -> Callable[[], Sequence[Array]]:
    from runtime_arm.machine import blas

    def infer() -> List[Array]:
        with blas.Threads(threads):
            outputs: List[Array] = session.run(None, given)
            return outputs

    return infer
