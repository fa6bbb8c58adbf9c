"""OpResolverType: which kernels TensorFlow Lite would take."""

from __future__ import annotations

import enum


@enum.unique
class OpResolverType(enum.Enum):
    """All of them run armnet's kernels, which round as TensorFlow Lite's reference kernels do."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3
