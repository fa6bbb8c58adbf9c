"""A stand-in for Caffe2's Python packages, ``caffe2.python`` and ``caffe2.proto``, on armnet's Workspace and Predictor.

    from caffe2.python import core, workspace

    predictor = workspace.Predictor(init_net, predict_net)
    (prob,) = predictor.run({"data": x})

Everything runs on the processor. What armnet cannot honour is refused, or noted once in the log. docs/standins.md lists
what holds and what does not. Names are imported when they are first used.
"""

from __future__ import annotations

from armnet.standins.packages import PACKAGES
from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in ("proto", "python")})

__version__ = PACKAGES["caffe2"].version
