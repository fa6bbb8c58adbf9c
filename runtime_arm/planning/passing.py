"""Large contents that are only on the way to others, such as the places that make up an index."""

from __future__ import annotations

from typing import Iterable, Optional, Sequence, Set

from runtime_arm.planning.steps import Environment, Step, Value
from runtime_arm.planning.trace import LARGE
from runtime_arm.registry.specs import TensorSpec


def note(value: Value, inputs: Iterable[Optional[Value]], passing: Set[Optional[Value]]) -> None:
    """Note a large content that is made of small ones, and of such large ones: a further plan makes it again."""
    if all(one is None or one.spec.nbytes < LARGE or one in passing for one in inputs):
        passing.add(value)


def forget(passing: Set[Optional[Value]], env: Environment, steps: Sequence[Step], surviving: Iterable[Value]) -> None:
    """Let go of those of the contents that nothing reads when the net runs, and of the notes."""
    read = {value for step in steps for value in step.inputs}.union(surviving)
    for value in passing:
        if value is not None and value not in read and env.get(value.name) is value:
            env[value.name] = Value(value.name, TensorSpec(value.spec.shape, value.spec.dtype), value.first)
    passing.clear()
