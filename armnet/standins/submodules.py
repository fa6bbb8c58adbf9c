"""The submodules of a package that is a stand-in: those that are imported late, and those that there are not."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

from armnet.standins.packages import PACKAGES

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class Submodules:
    """A finder, the first of ``sys.meta_path``, for the modules below stand-ins."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """None for other packages' modules. ModuleNotFoundError, naming the stand-in, for a module that it lacks."""
        top = name.partition(".")[0]
        loaded = sys.modules.get(top)
        if top == name or top not in PACKAGES or loaded is None or not loaded.__name__.startswith("armnet."):
            return None
        home = PACKAGES[top].later.get(name)
        if home is None:
            raise ModuleNotFoundError(f"No module named {name!r}: armnet's stand-in for {top} has none", name=name)
        from importlib.machinery import ModuleSpec

        alias: Any = _Alias(home)
        return ModuleSpec(name, alias)


class _Alias:
    """Loads a module under another name."""

    def __init__(self, home: str):
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return import_module(self._home)

    def exec_module(self, module: ModuleType) -> None:
        """The module has run when it was imported under its own name."""


def find_submodules() -> None:
    """Put the finder into place, once."""
    if not any(isinstance(finder, Submodules) for finder in sys.meta_path):
        sys.meta_path.insert(0, Submodules())
