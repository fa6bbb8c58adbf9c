"""Which operators may give other results in each run."""

from __future__ import annotations

from typing import Optional

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import find

# Operators on sequences and optional values are not pure, as no weight holds what they give. But it is the same in each
# run.
SEQUENCE_MAKERS = frozenset(
    f"onnx.{name}"
    for name in ("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence")
)
SEQUENCE_READERS = frozenset(f"onnx.{name}" for name in ("SequenceAt", "ConcatFromSequence", "SequenceLength"))
_STEADY = SEQUENCE_MAKERS | SEQUENCE_READERS | {"onnx.Optional", "onnx.OptionalGetElement"}


def is_random(op: OperatorDef) -> bool:
    """Whether the operator itself may give other results in each run. Nets inside it are not looked at."""
    schema = find(op)
    return schema is not None and not schema.pure and op.full_type not in _STEADY and not _drops_nothing(op)


def random_operator(net: NetDef) -> Optional[OperatorDef]:
    """The first operator of the net, or of nets inside it, that may give other results in each run; None if all give
    the same.
    """
    for op in net.op:
        found = op if is_random(op) else next(filter(None, map(random_operator, op.subnets())), None)
        if found is not None:
            return found
    return None


def _drops_nothing(op: OperatorDef) -> bool:
    """Whether it is a Dropout that never drops: it is not told that a net is being trained."""
    if op.full_type == "onnx.Dropout":
        return not "".join(op.input[2:])
    return op.full_type == "Dropout" and op.get_bool("is_test")
