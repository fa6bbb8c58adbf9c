"""The runtime: loads a network and runs it with NumPy alone. It also works copied into an empty folder.

Predictor         runs a pair: ``Predictor(pair).run({"data": x})``
open              a Model, which says what is in a picture or a sound: ``open("ssd").predict("cats.jpg")``
load              a Predictor for a pair's folder or zip file, a bundle, or an init_net.pb and a predict_net.pb
Pair              a network: the nets that make its weights and its outputs, with inputs, outputs and metadata
Workspace         runs nets one by one on named blobs, as Caffe2's workspace does
QuantizedTensor   an 8-bit blob with its scale and zero point

Each name is imported when it is first used, so the errors and the version need no NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from runtime_arm.app.model import open
    from runtime_arm.execution.predictor import Predictor, load
    from runtime_arm.execution.workspace import Workspace
    from runtime_arm.pair.pair import Pair
    from runtime_arm.registry.specs import QuantizedTensor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Pair": "runtime_arm.pair.pair",
            "Predictor": "runtime_arm.execution.predictor",
            "QuantizedTensor": "runtime_arm.registry.specs",
            "Workspace": "runtime_arm.execution.workspace",
            "load": "runtime_arm.execution.predictor",
            "open": "runtime_arm.app.model",
        },
    )

__all__ = ["Pair", "Predictor", "QuantizedTensor", "Workspace", "load", "open"]
