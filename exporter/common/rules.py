"""A registry of translation rules by operator type, declared in the modules of one package."""

from __future__ import annotations

from importlib import import_module
from typing import Callable, Dict, Generic, Optional, Sequence, TypeVar

LISTED = "; `armnet support` lists every operator that a model lacks"
MISSING = f"armnet has no such operator{LISTED}"

R = TypeVar("R", bound=Callable[..., object])


class Rules(Generic[R]):
    """The rules that the modules ``families`` of ``package`` declare; they are imported at the first look-up."""

    def __init__(self, package: str, families: Sequence[str]):
        self._package, self._families = package, families
        self._rules: Dict[str, R] = {}
        self._loaded = False

    def rule(self, *types: str) -> Callable[[R], R]:
        """Decorator: the rule for these types. RuntimeError if a type already has one."""

        def register(function: R) -> R:
            for type in types:
                if type in self._rules:
                    raise RuntimeError(f"two rules for {type}")
                self._rules[type] = function
            return function

        return register

    def find(self, type: str) -> Optional[R]:
        """The rule for a type, or None."""
        if not self._loaded:
            for family in self._families:
                import_module(f"{self._package}.{family}")
            self._loaded = True
        return self._rules.get(type)
