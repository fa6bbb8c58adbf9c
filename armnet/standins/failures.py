"""Errors of armnet, said by the exceptions that the programs of other runtimes expect."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Mapping, Tuple, Type

from runtime_arm.errors import ArmnetError
from runtime_arm.imports import lazy_names


@contextmanager
def raised_as(kind: Type[Exception]) -> Iterator[None]:
    """Inside the block, what armnet refuses is raised as this kind of exception, with armnet's words."""
    try:
        yield
    except ArmnetError as error:
        raise kind(str(error)) from error


def lazy_names_or(
    missing: str, module: str, homes: Mapping[str, str]
) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """What ``lazy_names`` gives a module. missing: what the AttributeError says of a ``{name}`` that it lacks."""
    found, names = lazy_names(module, homes)

    def get(name: str) -> Any:
        try:
            return found(name)
        except AttributeError:
            raise AttributeError(missing.format(name=name)) from None

    return get, names
