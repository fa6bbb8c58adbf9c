"""Caffe's way of training: nets whose blobs hold values and gradients, and solvers, from Caffe's own files.

Net      pycaffe's: ``Net(net_text, caffemodel).forward(data=x)``, ``.backward(prob=diff)``, ``.blobs``, ``.params``
Solver   ``Solver(solver_text, net_text).step({"data": x, "label": y})``, ``.snapshot()``, ``.restore(...)``

``layers/`` has one class for each layer type, with its forward and its backward pass; ``rules.py`` the solvers' rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names

if TYPE_CHECKING:
    from training.caffe.net import Net
    from training.caffe.solver import Solver
else:
    __getattr__, __dir__ = lazy_names(__name__, {"Net": "training.caffe.net", "Solver": "training.caffe.solver"})

__all__ = ["Net", "Solver"]
