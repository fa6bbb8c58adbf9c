"""Stand-ins that take their place when a program first imports them, even where the packages are installed."""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from armnet.standins.installing import MARK, install
from armnet.standins.packages import PACKAGES

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_IMPORTERS = ("<frozen importlib", importlib.util.__file__, importlib.__file__, __file__)


class OnImport:
    """A finder, the first of ``sys.meta_path``, for the packages that have a stand-in.

    Many programs ask whether tensorflow is there to use more of it than its stand-in has. So a package of which there
    is a part alone is found by files whose text names this part, ``.lite``, and for others it is as if armnet were not
    there. on_part is told when that happens first.
    """

    def __init__(self, on_part: Callable[[str], None]):
        self._on_part = on_part

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """None for other packages, and for those that the importing file does not want."""
        package = PACKAGES.get(name)
        if package is None or (package.part and not _importer_names(package.part)):
            return None
        if package.part:
            self._on_part(name)
        from importlib.machinery import ModuleSpec

        loader: Any = _Installing(name)
        return ModuleSpec(name, loader, origin=MARK, is_package=True)


class _Installing:
    def __init__(self, name: str):
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        install(self._name, force=True)
        return sys.modules[self._name]

    def exec_module(self, module: ModuleType) -> None:
        """The module has run when it was installed."""


def _importer_names(part: str) -> bool:
    """Whether the text of the file that imports names this part of a package: ``tf.lite``, ``import lite``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_IMPORTERS):
        frame = frame.f_back
    text = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    return re.search(rf"\.{part}\b|\bimport\b.*\b{part}\b", text) is not None
