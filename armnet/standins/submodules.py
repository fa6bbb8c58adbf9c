"""What ``import`` finds below stand-ins: modules that are imported late, and words about those that there are not."""

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
        called = _name_outside(name)
        top = called.partition(".")[0]
        loaded = sys.modules.get(top)
        if top == called or top not in PACKAGES or loaded is None or not loaded.__name__.startswith("armnet."):
            return None
        package = PACKAGES[top]
        home = package.later.get(called)
        if home is None:
            inside = not package.part or called.startswith(f"{top}.{package.part}.")
            has = "has none" if inside else f"has {top}.{package.part} alone"
            raise ModuleNotFoundError(f"No module named {called!r}: armnet's stand-in for {top} {has}", name=called)
        return None if home == name else alias(name, home)


def _name_outside(name: str) -> str:
    """The name that a program gives a module: ``from tensorflow import keras`` asks for a module of armnet."""
    for top, package in PACKAGES.items():
        if package.part and name.startswith(f"{package.modules[top]}."):
            return top + name[len(package.modules[top]) :]
    return name


def alias(name: str, home: str) -> ModuleSpec:
    """What gives a module of armnet another name."""
    from importlib.machinery import ModuleSpec

    loader: Any = _Alias(home)
    return ModuleSpec(name, loader)


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
