"""Sets of operator types, defined by a fact in the schemas instead of a list of names."""

from __future__ import annotations

from typing import Callable, Container

from runtime_arm.registry.schema import Operator, find_type


class TypesWhose(Container[str]):
    """The types (``full_type``: with the domain unless it is Caffe2's) whose schema passes a test."""

    def __init__(self, holds: Callable[[Operator], bool]):
        self._holds = holds

    def __contains__(self, full_type: object) -> bool:
        domain, _, type = str(full_type).rpartition(".")
        schema = find_type(domain, type)
        return schema is not None and self._holds(schema)
