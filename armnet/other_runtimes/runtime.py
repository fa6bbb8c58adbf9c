"""Another runtime, how it gets its inputs, and how its messages are kept from stdout."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array


class OtherRuntime(NamedTuple):
    """Another runtime, ready to run.

    name: with its version. runs: the model that it runs. infer: an inference, which returns the outputs. exact: an
    inference by its slow reference kernels, if it has any.
    """

    name: str
    runs: str
    infer: Callable[[], Sequence[Array]]
    exact: Optional[Callable[[], Sequence[Array]]] = None


def by_name(names: Sequence[str], feeds: Mapping[str, Array]) -> Dict[str, Array]:
    """The inputs by the other runtime's names: by name if the names agree, else in order."""
    if set(names) <= set(feeds):
        return {name: feeds[name] for name in names}
    if len(names) != len(feeds):
        raise UsageError(f"the model takes {', '.join(names)}, the pair {', '.join(feeds)}")
    return dict(zip(names, feeds.values()))


def in_order(value: Array, shape: Tuple[int, ...]) -> Array:
    """The input in TFLite's order of dimensions, with the channels last, if that is the shape asked for."""
    if value.shape != shape and value.ndim == 4 and tuple(np.moveaxis(value, 1, -1).shape) == shape:
        return np.ascontiguousarray(np.moveaxis(value, 1, -1))
    return value


@contextmanager
def talks_on_stderr() -> Iterator[None]:
    """Inside the block, output of compiled code goes to stderr, so that stdout holds only results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
