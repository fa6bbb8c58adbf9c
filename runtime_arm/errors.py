"""Every refusal of armnet is an ArmnetError; anything else that escapes is a bug of ours.

ArmnetError
+-- FormatError            bytes that are no network: truncated, wrong wire types, lengths that lie
|   +-- PairError          a pair whose files or metadata do not fit together
+-- NetError               a net that is no program: a blob read before it is written, an output nobody writes
+-- OperatorError          one operator is at fault; the message names it with its blobs
|   +-- UnknownOperator    no such operator type
|   +-- ArgumentError      an argument is missing, of another kind, or out of range
|   +-- ShapeError         the shapes or dtypes of the inputs do not fit the operator
|   +-- EngineRefused      an engine that was demanded cannot run this operator
+-- FeedError              what the caller feeds or fetches does not fit the net
+-- ResourceError          memory, disk or a limit that protects them
+-- ExportError            a source model that cannot be translated
+-- WorkerError            a worker process failed or was killed
+-- UsageError             contradictory or impossible options
+-- MissingDependency      a package that this command needs is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime_arm.netdef import OperatorDef


class ArmnetError(Exception):
    """Base of every refusal."""


class FormatError(ArmnetError):
    """Bytes that are no network."""


class PairError(FormatError):
    """A pair whose files or metadata do not fit together."""


class NetError(ArmnetError):
    """A net that is no program."""


class OperatorError(ArmnetError):
    """One operator is at fault: ``OperatorError(op, "stride must be positive, got 0")``.

    The message starts with the operator's signature. ``op`` keeps the OperatorDef.
    """

    def __init__(self, op: OperatorDef, rule: str):
        self.op = op
        self.rule = rule
        super().__init__(f"{op.signature()}: {rule}")

    def __reduce__(self) -> tuple[type, tuple[OperatorDef, str]]:
        return type(self), (self.op, self.rule)


class UnknownOperator(OperatorError):
    """No such operator type."""


class ArgumentError(OperatorError):
    """An argument is missing, of another kind, or out of range."""


class ShapeError(OperatorError):
    """The shapes or dtypes of the inputs do not fit the operator."""


class EngineRefused(OperatorError):
    """An engine that was demanded cannot run this operator."""


class FeedError(ArmnetError):
    """What the caller feeds or fetches does not fit the net."""


class ResourceError(ArmnetError):
    """Memory, disk or a limit that protects them."""


class WorkerError(ArmnetError):
    """A worker process failed or was killed."""


class ExportError(ArmnetError):
    """A source model that cannot be translated."""


class UsageError(ArmnetError):
    """Contradictory or impossible options."""


class MissingDependency(ArmnetError):
    """A package that this command needs is not installed."""


def first_line(error: BaseException) -> str:
    """What an error says, its first line alone; its kind where it says nothing."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
