"""Other runtimes on the network of a pair, for ``--against`` of ``armnet bench`` and ``armnet evaluate``.

They run the model that the pair was made from if it can be found, otherwise the pair written as ONNX or TFLite.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Callable, List, Mapping, Sequence, Tuple

from armnet.other_runtimes import mnn, ncnn, onnxruntime, opencv, reference, tflite
from armnet.other_runtimes.difference import difference
from armnet.other_runtimes.onnxruntime import NOTE
from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime
from armnet.other_runtimes.session import Session, open_session
from runtime_arm.netdef import Array

__all__ = ["NOTE", "OTHER_RUNTIMES", "Original", "OtherRuntime", "Session", "difference", "installed", "open_session"]

OTHER_RUNTIMES: Mapping[str, Callable[[Original, Mapping[str, Array], int], OtherRuntime]] = {
    "onnxruntime": onnxruntime.ready,
    "tflite": tflite.ready,
    "mnn": mnn.ready,
    "ncnn": ncnn.ready,
    "opencv": opencv.ready,
    "reference": reference.ready,
}

_NEEDS: Mapping[str, Tuple[Tuple[str, ...], str]] = {
    "onnxruntime": (("onnxruntime",), "'armnet[validate]'"),
    "tflite": (("ai_edge_litert",), "'armnet[validate]'"),
    "mnn": (("MNN",), "MNN"),
    "ncnn": (("ncnn", "pnnx"), "ncnn pnnx"),
    "opencv": (("cv2",), "'armnet[caffe]'"),
    "reference": (("onnx",), "'armnet[export]'"),
}  # the packages that are imported, and what pip is asked for


def installed(names: Sequence[str], note: Callable[[str], object]) -> List[str]:
    """The runtimes that are installed; says in one line which are missing, and what to install."""
    missing = [name for name in names if not all(map(find_spec, _NEEDS[name][0]))]
    if missing:
        wanted = " ".join(dict.fromkeys(_NEEDS[name][1] for name in missing))
        note(f"not installed: {', '.join(missing)}; pip install {wanted}")
    return [name for name in names if name not in missing]
