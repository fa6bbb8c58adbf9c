"""The exceptions of armnet. Every error that armnet raises on purpose is an ArmnetError; any other is a bug."""

from __future__ import annotations

from runtime_arm.errors import (
    ArgumentError,
    ArmnetError,
    DeviceError,
    ExportError,
    FeedError,
    FormatError,
    MissingDependency,
    NetError,
    NoDriver,
    OperatorError,
    PairError,
    ResourceError,
    ResultError,
    ShapeError,
    UnknownOperator,
    UsageError,
    WorkerError,
)

__all__ = [
    "ArgumentError",
    "ArmnetError",
    "DeviceError",
    "ExportError",
    "FeedError",
    "FormatError",
    "MissingDependency",
    "NetError",
    "NoDriver",
    "OperatorError",
    "PairError",
    "ResourceError",
    "ResultError",
    "ShapeError",
    "UnknownOperator",
    "UsageError",
    "WorkerError",
]
