"""Errors of armnet, said by the exceptions that the programs of other runtimes expect."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, Type

from runtime_arm.errors import ArmnetError


@contextmanager
def raised_as(kind: Type[Exception]) -> Iterator[None]:
    """Inside the block, what armnet refuses is raised as this kind of exception, with armnet's words."""
    try:
        yield
    except ArmnetError as error:
        raise kind(str(error)) from error
