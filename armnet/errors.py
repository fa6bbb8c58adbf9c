"""The exceptions of armnet. Every error that armnet raises on purpose is an ArmnetError; any other is a bug."""

from __future__ import annotations

from runtime_arm.errors import (
    ArgumentError,
    ArmnetError,
    ExportError,
    FeedError,
    FormatError,
    MissingDependency,
    NetError,
    OperatorError,
    PairError,
    ResourceError,
    ShapeError,
    UnknownOperator,
    UsageError,
    WorkerError,
)

__all__ = [
    "ArgumentError",
    "ArmnetError",
    "ExportError",
    "FeedError",
    "FormatError",
    "MissingDependency",
    "NetError",
    "OperatorError",
    "PairError",
    "ResourceError",
    "ShapeError",
    "UnknownOperator",
    "UsageError",
    "WorkerError",
]
