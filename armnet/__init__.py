"""armnet: trained networks on any ARM device that has Python and NumPy.

    import armnet
    pair = armnet.export("model.onnx")
    with armnet.Predictor(pair) as predictor:
        outputs = predictor.run([x])

Names are imported when they are first used, so that a device needs neither onnx nor anything else of the workstation's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, List

from runtime_arm.version import VERSION

__version__ = VERSION

_HOME = {
    "ArmnetError": "runtime_arm.errors",
    "Pair": "runtime_arm",
    "Predictor": "runtime_arm",
    "QuantizedTensor": "runtime_arm",
    "Workspace": "runtime_arm",
    "export": "exporter",
    "load": "runtime_arm",
    "optimize": "optimize",
}

if TYPE_CHECKING:
    from exporter import export as export
    from optimize import optimize as optimize
    from runtime_arm import Pair as Pair
    from runtime_arm import Predictor as Predictor
    from runtime_arm import QuantizedTensor as QuantizedTensor
    from runtime_arm import Workspace as Workspace
    from runtime_arm import load as load
    from runtime_arm.errors import ArmnetError as ArmnetError


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'armnet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> List[str]:
    return sorted([*globals(), *_HOME])
