"""onnxruntime as another runtime to compare with."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, by_name
from runtime_arm.errors import ExportError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array

NOTE = "onnxruntime's threads do not spin between its runs, where they would slow down the runtime whose turn it is"


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """onnxruntime with its defaults, except for the number of threads, and that these do not spin."""
    session, name, where = session_of(original, threads)
    try:
        given = by_name([value.name for value in session.get_inputs()], feeds)
        session.run(None, given)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
    return OtherRuntime(name, where, lambda: session.run(None, given))


def session_of(original: Original, threads: int) -> Tuple[Any, str, str]:
    """A session, the runtime's name with its version, and what it runs."""
    with needed_for("running onnxruntime"):
        import onnxruntime as ort
    where, model = original.onnx()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
    return session, f"onnxruntime {ort.__version__}", where
