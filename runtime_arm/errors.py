"""The errors that armnet raises on purpose: all are ArmnetErrors. Any other exception that escapes is a bug of ours.

ArmnetError
+-- FormatError            bytes that are not a network: truncated, wrong wire types, false lengths
|   +-- PairError          a pair whose files or metadata contradict each other
+-- NetError               a net that cannot run: a blob is read before it is written, an output is never written
+-- OperatorError          one operator is at fault; the message names it and its blobs
|   +-- UnknownOperator    no such operator type
|   +-- ArgumentError      an argument is missing, of the wrong kind, or out of range
|   +-- ShapeError         the shapes or dtypes of the inputs do not fit the operator
|   +-- GradientError      the gradient of the operator cannot be computed
+-- FeedError              the caller feeds or fetches something that does not fit the net
+-- ResourceError          not enough memory or disk, or a limit that protects them
+-- ExportError            the source model cannot be translated
+-- WorkerError            a worker failed or was killed
+-- DeviceError            a device is missing, or its driver failed or answered wrongly
|   +-- NoDriver           no driver of that kind is installed
+-- OptimizationError     an optimisation changed what the net computes and is refused; the message names the step
+-- ResultError            outputs hold NaN or infinities, so no result can be made from them
+-- UsageError             options that contradict each other or make no sense
+-- MissingDependency      a package that the command needs is not installed
"""

from __future__ import annotations

from typing import Iterable, Protocol

_LONGEST = 300  # characters of another program's message
_LISTED = 40  # known words that a message lists


class HasSignature(Protocol):
    """The part of an OperatorDef that an OperatorError needs."""

    def signature(self) -> str:
        """``Conv(X, W) -> Y``."""


class ArmnetError(Exception):
    """The base class of all errors that armnet raises on purpose.

    The message is one line: unprintable characters in it, such as a line break in a name from a file, are escaped.

    Examples:
        >>> import armnet
        >>> try:
        ...     armnet.load("nothing_here")
        ... except armnet.ArmnetError as error:
        ...     print(type(error).__name__)
        PairError
    """

    def __init__(self, message: str = "") -> None:
        if not message.isprintable():
            message = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message)
        super().__init__(message)


class FormatError(ArmnetError):
    """The bytes are not a network."""


class PairError(FormatError):
    """The files or the metadata of a pair contradict each other."""


class NetError(ArmnetError):
    """The net cannot run."""


class OperatorError(ArmnetError):
    """One operator is at fault: ``OperatorError(op, "stride must be positive, got 0")``.

    The message starts with the operator's signature. ``op`` is the OperatorDef, ``rule`` the rest of the message.
    """

    def __init__(self, op: HasSignature, rule: str):
        self.op = op
        self.rule = rule
        super().__init__(f"{op.signature()}: {rule}")

    def __reduce__(self) -> tuple[type, tuple[HasSignature, str]]:
        return type(self), (self.op, self.rule)


class UnknownOperator(OperatorError):
    """There is no such operator type."""


class ArgumentError(OperatorError):
    """An argument is missing, of the wrong kind, or out of range."""


class ShapeError(OperatorError):
    """The shapes or dtypes of the inputs do not fit the operator."""


class GradientError(OperatorError):
    """The gradient of the operator cannot be computed: it has none, or a blob that it needs was overwritten."""


class FeedError(ArmnetError):
    """The caller feeds or fetches something that does not fit the net."""


class ResourceError(ArmnetError):
    """There is not enough memory or disk, or a limit that protects them is exceeded."""


class WorkerError(ArmnetError):
    """A worker failed or was killed."""


class DeviceError(ArmnetError):
    """A device is missing, or its driver failed or answered wrongly."""


class NoDriver(DeviceError):
    """No driver of that kind is installed."""


class ExportError(ArmnetError):
    """The source model cannot be translated."""


class OptimizationError(ArmnetError):
    """An optimisation changed what the net computes: a bug of ours, noticed in time."""


class ResultError(ArmnetError):
    """Outputs hold NaN or infinities, so no result can be made from them."""


class UsageError(ArmnetError):
    """The options contradict each other or make no sense."""


class MissingDependency(ArmnetError):
    """A package that the command needs is not installed."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'boxes'?`` if a known word is similar, without leading dashes; else an empty text."""
    from difflib import get_close_matches

    bare = {one.lstrip("-"): one for one in known}
    near = get_close_matches(word.lstrip("-"), bare, 1, 0.6)
    return f"; did you mean {bare[near[0]]!r}?" if near else ""


def there_are(word: str, words: Iterable[str]) -> str:
    """The known words in one line, only the first ones if there are many, and a suggestion if one is similar."""
    words = list(words)
    more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
    return f"{', '.join(words[:_LISTED]) or 'none'}{more}{suggestion(word, words)}"


def first_line(error: BaseException) -> str:
    """The first line of the error's message that is not blank, shortened if it is long; else the name of its class."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:_LONGEST]
