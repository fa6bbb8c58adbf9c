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
        top = name.partition(".")[0]
        loaded = sys.modules.get(top)
        if top == name or top not in PACKAGES or loaded is None or not loaded.__name__.startswith("armnet."):
            return None
        home = PACKAGES[top].later.get(name)
        if home is None:
            raise _missing(top, name)
        return alias(name, home)


class Missing:
    """A finder, the last of ``sys.meta_path``: ``from caffe2.python import rnn_cell`` asks for a module of armnet."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None for what is no module of a stand-in. ModuleNotFoundError, under the name that the program uses."""
        for top, package in PACKAGES.items():
            if name.startswith(f"{package.modules[top]}."):
                raise _missing(top, top + name[len(package.modules[top]) :])


def _missing(top: str, name: str) -> ModuleNotFoundError:
    part = PACKAGES[top].part
    has = "has none" if not part or name.startswith(f"{top}.{part}.") else f"has {top}.{part} alone"
    return ModuleNotFoundError(f"No module named {name!r}: armnet's stand-in for {top} {has}", name=name)


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
    """Put the finders into place, once."""
    if not any(isinstance(finder, Submodules) for finder in sys.meta_path):
        sys.meta_path.insert(0, Submodules())
        sys.meta_path.append(Missing())
