"""The runtime: loads a pair of nets and runs it with NumPy. Works alone, copied into an empty folder.

Names are imported when they are first used, so that errors and the version are to be had without NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Pair": "runtime_arm.pair.pair",
    "Predictor": "runtime_arm.execution.predictor",
    "QuantizedTensor": "runtime_arm.registry.specs",
    "Workspace": "runtime_arm.execution.workspace",
    "load": "runtime_arm.execution.predictor",
}

if TYPE_CHECKING:
    from runtime_arm.execution.predictor import Predictor as Predictor
    from runtime_arm.execution.predictor import load as load
    from runtime_arm.execution.workspace import Workspace as Workspace
    from runtime_arm.pair.pair import Pair as Pair
    from runtime_arm.registry.specs import QuantizedTensor as QuantizedTensor


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'runtime_arm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
