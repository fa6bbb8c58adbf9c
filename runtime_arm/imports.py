"""Lazy imports: names that are imported when they are first used, and packages that not every machine has."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Callable, Iterator, List, Mapping, Tuple

from runtime_arm.errors import MissingDependency, first_line

OURS = ("armnet", "runtime_arm", "optimize", "exporter", "training", "device_tests")
INSTALL = {
    "onnx": "'armnet[export]'",
    "tflite": "'armnet[export]'",
    "flatbuffers": "'armnet[export]'",
    "onnxruntime": "'armnet[validate]'",
    "ai_edge_litert": "'armnet[validate]'",
    "cv2": "'armnet[caffe]'",
    "PIL": "'armnet[image]'",
    "av": "'armnet[video]'",
    "soundfile": "'armnet[audio]'",
    "rich": "'armnet[report]'",
    "matplotlib": "'armnet[report]'",
    "starlette": "'armnet[serve]'",
    "uvicorn": "'armnet[serve]'",
    "multipart": "'armnet[serve]'",
    "python_multipart": "'armnet[serve]'",
    "pycocotools": "'armnet[coco]'",
    "dask": "'armnet[cluster]'",
    "distributed": "'armnet[cluster]'",
    "cryptography": "'armnet[sign]'",
    "google": "protobuf",
    "ncnn": "ncnn pnnx",
    "sklearn": "scikit-learn",
    "grpc_tools": "grpcio-tools",
}  # what pip installs, by the package that is imported
ALONE = {"PIL": "pillow", "cv2": "opencv-python-headless", "google": "protobuf"}  # if armnet is not installed


def lazy_names(package: str, homes: Mapping[str, str]) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """``__getattr__`` and ``__dir__`` (PEP 562) of a package whose public names are imported when they are first used.

    homes: for each name the module that defines it; a submodule of the package is its own home.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_for(f"{package}.{name}"):
            module = import_module(home)
        value = module if home == f"{package}.{name}" else getattr(module, name)
        namespace[name] = value
        return value

    def names() -> List[str]:
        return sorted([*homes, *(name for name in namespace if name.startswith("__"))])

    return get, names


def _has_armnet() -> bool:
    """Whether armnet is installed here; a bundle runs without it."""
    from importlib.util import find_spec

    return find_spec("armnet") is not None


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Inside the block, a third-party package that cannot be imported raises a MissingDependency of one line."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in OURS:
            raise
        problem = f": pip install {(INSTALL if _has_armnet() else ALONE).get(package, package)}"
        if not isinstance(error, ModuleNotFoundError):
            problem = f", which is installed but cannot be imported: {first_line(error)}"
        raise MissingDependency(f"{purpose} needs the package {package}{problem}") from error
