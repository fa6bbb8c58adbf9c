"""The packages that have a stand-in: what can be imported from them, and the distributions that carry them."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

from runtime_arm.errors import UsageError

_HOME = "armnet.standins"


class Package(NamedTuple):
    """A package that has a stand-in.

    distribution: what pip calls it. version: the one whose interface the stand-in follows. modules: the module of
    armnet behind each name that can be imported, the package's own first. later: those that are imported only when a
    program imports them. part: the submodule that the stand-in has alone; "" if it stands for the whole package.
    """

    distribution: str
    version: str
    modules: Dict[str, str]
    later: Dict[str, str]
    part: str = ""


def _tflite(name: str, distribution: str, version: str) -> Package:
    home = f"{_HOME}.tflite_runtime"
    return Package(distribution, version, {name: home, f"{name}.interpreter": f"{home}.interpreter"}, {})


def _alike(name: str, distribution: str, version: str, later: Tuple[str, ...], part: str = "") -> Package:
    """A package whose stand-in has modules of the same names."""
    names = {f"{name}.{one}": f"{_HOME}.{name}.{one}" for one in later}
    return Package(distribution, version, {name: f"{_HOME}.{name}"}, names, part)


_CAPI = ("capi", "capi._pybind_state", "capi.onnxruntime_pybind11_state", "capi.onnxruntime_inference_collection")

PACKAGES: Dict[str, Package] = {
    "onnxruntime": Package(
        "onnxruntime",
        "1.32.0",
        {
            "onnxruntime": f"{_HOME}.onnxruntime",
            **{f"onnxruntime.{name}": f"{_HOME}.onnxruntime.{name}" for name in _CAPI},
        },
        {f"onnxruntime.{name}": f"{_HOME}.onnxruntime.{name}" for name in ("backend",)},
    ),
    "tflite_runtime": _tflite("tflite_runtime", "tflite-runtime", "2.14.0"),
    "ai_edge_litert": _tflite("ai_edge_litert", "ai-edge-litert", "2.3.0"),
    "tflite_support": _alike("tflite_support", "tflite-support", "0.4.4", ("metadata",)),
    "tensorflow": _alike(
        "tensorflow",
        "tensorflow",
        "2.14.0",
        ("lite", "lite.experimental", "lite.python", "lite.python.interpreter"),
        "lite",
    ),
    "caffe": _alike(
        "caffe", "caffe", "1.0.0", ("_caffe", "classifier", "detector", "io", "net_spec", "proto", "proto.caffe_pb2")
    ),
    "caffe2": _alike(
        "caffe2",
        "caffe2",
        "0.8.2",
        (
            "proto",
            "proto.caffe2_pb2",
            "python",
            "python.brew",
            "python.core",
            "python.model_helper",
            "python.modeling",
            "python.modeling.initializers",
            "python.modeling.parameter_info",
            "python.optimizer",
            "python.predictor",
            "python.predictor.mobile_exporter",
            "python.scope",
            "python.utils",
            "python.workspace",
        ),
    ),
}
TOGETHER = {"tflite_runtime": ("tflite_runtime", "ai_edge_litert")}  # one name stands for the runtime and its successor


def package_of(name: str) -> Package:
    """The package of this name, or of a distribution's. UsageError, naming those that there are, if there is none."""
    found = PACKAGES.get(name.replace("-", "_"))
    if found is None:
        raise UsageError(f"no stand-in for {name!r}; there are stand-ins for {', '.join(PACKAGES)}")
    return found
