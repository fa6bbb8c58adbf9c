"""Puts stand-ins where ``import`` finds them."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import List

from armnet.standins.packages import TOGETHER, package_of
from armnet.standins.submodules import find_submodules

MARK = "armnet's stand-in"  # in the text of the modules of a stub distribution, and what imports say of their origin


def install(*names: str, force: bool = False) -> List[str]:
    """Put the stand-ins of these packages into ``sys.modules``; without names, those of onnxruntime and tflite_runtime.

    "tflite_runtime" also stands for "ai_edge_litert". A package that is really installed stays what it is, unless
    ``force``. Returns the names that are stand-ins now. UsageError for a package that has no stand-in.
    """
    wanted = [one for name in names or ("onnxruntime", "tflite_runtime") for one in TOGETHER.get(name, (name,))]
    packages = {name: package_of(name) for name in wanted}
    installed = []
    for name, package in packages.items():
        if not force and is_real(name):
            continue
        for alias, home in package.modules.items():
            sys.modules[alias] = import_module(home)
        installed.append(name)
    find_submodules()
    return installed


def is_real(name: str) -> bool:
    """Whether the package itself is imported or can be: neither a stand-in nor a stub distribution of one."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return not loaded.__name__.startswith("armnet.")
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return False
    if spec is None or spec.origin is None or not os.path.isfile(spec.origin):
        return spec is not None and spec.origin != MARK
    with open(spec.origin, "rb") as file:
        return MARK.encode() not in file.read(1 << 12)
