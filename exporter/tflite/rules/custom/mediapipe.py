"""MediaPipe's custom operators. Pools have TensorFlow Lite's own structures as options, the others maps.

``Convolution2DTransposeBias`` is with the transposed convolutions.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List

from exporter.tflite.flexbuffer import read_map, read_vectors
from exporter.tflite.node import ACTIVATION_RANGES, Node
from exporter.tflite.rules import custom_type, rule
from runtime_arm.errors import ExportError

_PADDING = {1: "SAME_UPPER", 2: "VALID"}  # TfLitePadding


def _pool(node: Node) -> Dict[str, Any]:
    """TfLitePoolParams: padding, strides and sizes of the window, both the width first, activation."""
    if len(node.operation.custom_options) < 24:
        raise ExportError("its options are too short for those of a pool")
    padding, *numbers, activation = struct.unpack("<6i", node.operation.custom_options[:24])
    if padding not in _PADDING or min(numbers) < 1:
        raise ExportError(f"padding {padding}, strides {numbers[:2]} and a window of {numbers[2:]} are not possible")
    stride_w, stride_h, width, height = numbers
    return {
        "kernel_shape": [height, width],
        "strides": [stride_h, stride_w],
        "auto_pad": _PADDING[padding],
        "activation": activation,
    }


@rule(custom_type("MaxPoolingWithArgmax2D"))
def max_pooling_with_argmax(node: Node) -> None:
    """Maxima, limited by the activation, and their places."""
    pool = _pool(node)
    low, high = ACTIVATION_RANGES.get(pool.pop("activation"), (None, None))
    limited = (low, high) != (None, None)
    target = node.between("raw") if limited else node.output(0)
    node.add("MaxPoolWithPlaces", [node.input(0)], [target, node.output(1)], domain="tflite", **pool)
    if limited:
        node.add("Clip", [target], [node.output(0)], min=low, max=high)


@rule(custom_type("MaxUnpooling2D"))
def max_unpooling(node: Node) -> None:
    pool = _pool(node)
    names = [node.input(0), node.input(1)]
    kernel, strides = pool["kernel_shape"], pool["strides"]
    node.add("MaxUnpool", names, [node.output()], domain="tflite", kernel_shape=kernel, strides=strides)


def _required(given: Dict[str, Any], *names: str) -> List[Any]:
    missing = [name for name in names if name not in given]
    if missing:
        raise ExportError(f"its options lack {missing[0]!r}")
    return [given[name] for name in names]


@rule(custom_type("Landmarks2TransformMatrix"))
def landmarks_to_matrix(node: Node) -> None:
    options = node.operation.custom_options
    given: Dict[str, Any] = {**read_map(options), **read_vectors(options)}
    left, right = _required(given, "left_rotation_idx", "right_rotation_idx")
    arguments: Dict[str, Any] = {"left": int(left), "right": int(right), "version": _version(node)}
    if node.operation.version == 1:
        subset, taken, wanted, reach, multiplier, dimensions = _required(
            given, "subset", "input_hw", "output_hw", "landmarks_range", "bbox_size_multiplier", "dimensions"
        )
        if dimensions != 3:
            raise ExportError(f"landmarks of {dimensions} dimensions are not supported")
        arguments.update(input_size=_integers(taken), output_size=_integers(wanted))
        arguments.update(range=float(reach), multiplier=float(multiplier))
    else:
        subset, target, height, width, scale_x, scale_y = _required(
            given, "subset_idxs", "target_rotation_radians", "output_height", "output_width", "scale_x", "scale_y"
        )
        arguments.update(output_size=[int(height), int(width)], target=float(target))
        arguments.update(scale_x=float(scale_x), scale_y=float(scale_y))
    node.add(
        "LandmarksToMatrix", [node.input(0)], [node.output()], domain="tflite", subset=_integers(subset), **arguments
    )


def _version(node: Node) -> int:
    version = node.operation.version
    if version not in (1, 2):
        raise ExportError(f"its version must be 1 or 2, it is {version}")
    return version


def _integers(values: Any) -> List[int]:
    return [int(value) for value in values]


@rule(custom_type("TransformTensorBilinear"), custom_type("TransformTensor"))
def transform_tensor(node: Node) -> None:
    options = node.operation.custom_options
    given: Dict[str, Any] = {**read_map(options), **read_vectors(options)}
    if node.operation.version == 1:
        (sizes,) = _required(given, "output_size")
    else:
        sizes = _required(given, "output_height", "output_width")
    names = [node.input(0), node.input(1)]
    size = _integers(sizes)
    node.add("TransformPicture", names, [node.output()], domain="tflite", output_size=size, version=_version(node))


@rule(custom_type("TransformLandmarks"))
def transform_landmarks(node: Node) -> None:
    """Version 2 has no options: a point is what lies along the last dimension."""
    if _version(node) == 1:
        given: Dict[str, Any] = dict(read_map(node.operation.custom_options))
        dimensions, scale = int(given.get("dimensions", 3)), float(_required(given, "scale")[0])
    else:
        dimensions, scale = node.known_dims(0, rank=3)[-1], 1.0
    names = [node.input(0), node.input(1)]
    node.add("TransformLandmarks", names, [node.output()], domain="tflite", dimensions=dimensions, scale=scale)
