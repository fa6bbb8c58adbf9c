"""NaN and infinities in outputs: noticed, and traced to the first blob that has one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Optional

import numpy as np

from runtime_arm.errors import ArmnetError, ResultError
from runtime_arm.execution.predictor import Predictor


def require_finite(outputs: Mapping[str, Any]) -> None:
    """ResultError if an output of floats holds NaN or infinities."""
    for name, value in outputs.items():
        problem = not_finite(value)
        if problem:
            raise ResultError(f"output {name!r} holds {problem}")


def not_finite(value: Any) -> str:
    """``3 NaN`` or ``1 infinities``; empty if all numbers are finite."""
    array = np.asarray(value)
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return ""
    counts = ((int(np.isnan(array).sum()), "NaN"), (int(np.isinf(array).sum()), "infinities"))
    return " and ".join(f"{count} {what}" for count, what in counts if count) + f" of {array.size} numbers"


@contextmanager
def first_blob_named(predictor: Predictor, feeds: Optional[Mapping[str, Any]]) -> Iterator[None]:
    """Adds to a ResultError inside the block the first blob that is not finite."""
    try:
        yield
    except ResultError as error:
        found = None if feeds is None else first_blob(predictor, feeds)
        if found is None:
            raise
        raise ResultError(f"{error}; the first is in {found}") from None


def first_blob(predictor: Predictor, feeds: Mapping[str, Any]) -> Optional[str]:
    """The first input or blob, in the net's order, that is not finite, and its operator; None if none is found."""
    for name, value in feeds.items():
        if not_finite(value):
            return f"input {name!r}"
    ops = predictor.pair.predict_net.op
    blobs = list(dict.fromkeys(name for op in ops for name in op.output if name))
    try:
        values = predictor.run(feeds, keep=blobs)
    except ArmnetError:  # some blobs cannot be fetched, such as those inside a branch that does not run
        return None
    bad = {name for name in blobs if not_finite(values[name])}
    return next((f"blob {name!r} of {op.signature()}" for op in ops for name in op.output if name in bad), None)
