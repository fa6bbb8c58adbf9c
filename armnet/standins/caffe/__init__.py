"""A stand-in for pycaffe, Caffe's Python interface, on Caffe's nets and solvers of ``training.caffe``.

    import armnet.standins.caffe as caffe

    net = caffe.Net("deploy.prototxt", "weights.caffemodel", caffe.TEST)
    net.blobs["data"].data[...] = x
    out = net.forward()

Everything runs on the processor. What armnet cannot honour is refused, or noted once in the log. docs/standins.md lists
what holds and what does not. Names are imported when they are first used.
"""

from __future__ import annotations

from armnet.standins.failures import lazy_names_or
from armnet.standins.packages import PACKAGES

_HOMES = {
    "classifier": "Classifier",
    "detector": "Detector",
    "layer": "Layer",
    "machine": "set_device set_mode_cpu set_mode_gpu set_random_seed",
    "net": "Net",
    "net_spec": "NetSpec layers params to_proto",
    "solver": "AdaDeltaSolver AdaGradSolver AdamSolver NesterovSolver RMSPropSolver SGDSolver get_solver",
}

_MODULES = ("_caffe", "classifier", "detector", "io", "net_spec", "proto")

__getattr__, __dir__ = lazy_names_or(
    "armnet's stand-in for caffe has no caffe.{name}",
    __name__,
    {
        **{name: f"{__name__}.{name}" for name in _MODULES},
        **{name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()},
    },
)


__version__ = PACKAGES["caffe"].version
TRAIN, TEST = 0, 1
