"""Modules of protobuf's messages, ``caffe_pb2`` and ``caffe2_pb2``, from armnet's own schemas."""

from __future__ import annotations

import sys
from typing import Any, Callable

from armnet.standins.failures import raised_as


def lazy_messages(module: str, package: str, message_class: Callable[[str], Any]) -> Callable[[str], Any]:
    """``__getattr__`` (PEP 562) of a module whose names are messages. ImportError without protobuf."""

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            with raised_as(ImportError):
                found = message_class(name)
        except KeyError:
            raise AttributeError(f"armnet's stand-in for {package} has no message {name!r}") from None
        setattr(sys.modules[module], name, found)
        return found

    return get
