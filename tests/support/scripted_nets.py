"""Networks that always say the same: ONNX models with the inputs and outputs of a family, whose answer is known."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The content of an output: an array, or parts of it side by side with the function that each passes through at last.
Part = Tuple[str, np.ndarray]
Content = Union[np.ndarray, List[Part]]


def scripted_net(
    outputs: Mapping[str, Content], shape: Sequence[Any] = (1, 3, 64, 64), metadata: Mapping[str, str] = {}, **more: Any
) -> onnx.ModelProto:
    """A model whose outputs are these, whatever picture it is fed.

    Parts are joined along the dimension ``axis`` (default: the last). Each output depends on the input, by nothing.
    """
    axis = more.pop("axis", -1)
    nodes: List[Any] = [
        helper.make_node("ReduceMean", ["data"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
    ]
    weights: Dict[str, np.ndarray] = {"zero": np.zeros((), np.float32)}

    def said(array: np.ndarray, function: str, name: str) -> None:
        weights[f"{name}.value"] = array.astype(np.float32)
        inner = f"{name}.plain" if function else name
        nodes.append(helper.make_node("Add", [f"{name}.value", "nothing"], [inner]))
        if function:
            attributes = {"axis": axis} if function == "Softmax" else {}
            nodes.append(helper.make_node(function, [inner], [name], **attributes))

    infos = []
    for name, content in outputs.items():
        parts = content if isinstance(content, list) else [("", content)]
        if len(parts) == 1:
            said(parts[0][1], parts[0][0], name)
        else:
            for place, (function, array) in enumerate(parts):
                said(array, function, f"{name}.{place}")
            nodes.append(helper.make_node("Concat", [f"{name}.{at}" for at in range(len(parts))], [name], axis=axis))
        whole = np.concatenate([array for _, array in parts], axis=axis) if len(parts) > 1 else parts[0][1]
        infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, whole.shape))
    graph = helper.make_graph(
        nodes,
        more.pop("name", "scripted"),
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
        infos,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, **more)
    helper.set_model_props(model, dict(metadata))
    return model


def logit(p: Any) -> np.ndarray:
    """What a sigmoid turns into ``p``."""
    p = np.asarray(p, np.float64)
    return np.asarray(np.log(p / (1 - p)))


def detections(box: Sequence[float], width: int, height: int, other: float = 0.001) -> Dict[str, np.ndarray]:
    """The outputs of TensorFlow's detection models for a box x0, y0, x1, y1 of class 1 with a score of 0.9, and for one
    of class 0 round the whole picture with the score ``other``."""
    x0, y0, x1, y1 = np.asarray(box) / (width, height, width, height)
    return {
        "detection_boxes": np.asarray([[[y0, x0, y1, x1], [0, 0, 1, 1]]]),
        "detection_classes": np.asarray([[2.0, 1.0]]),  # counted from 1
        "detection_scores": np.asarray([[0.9, other]]),
        "num_detections": np.asarray([2.0]),
    }
