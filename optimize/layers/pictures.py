"""How TensorFlow Lite's operators on pictures compute a resize and a transposed convolution."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from optimize.rewriting.program import Program
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.image import caffe2, onnx
from runtime_arm.operators.quantised.tflite.resize import ONE, axis_of_size
from runtime_arm.registry.specs import TensorSpec

HEIGHT, WIDTH = 2, 3  # dimensions of (N, C, H, W)
_INTERPOLATIONS: Sequence[Dict[str, Any]] = ({"half_pixel_centers": 1}, {}, {"align_corners": 1})
_MOST_TAPS = 2


def constants_behind(program: Program, op: OperatorDef) -> List[Optional[TensorSpec]]:
    """The inputs after the first, which must be constants if they are given."""
    values = [program.value(name) if name else None for name in op.input[1:]]
    return [None if value is None else TensorSpec.known(value) for value in values]


def resized_axes(program: Program, op: OperatorDef, spec: TensorSpec) -> Optional[Dict[int, Resampled]]:
    """What a resize of (N, C, H, W) does along the height and the width, if anything. None if it resizes other
    dimensions, or reads beyond the picture.
    """
    axes = (onnx.axes_of if op.domain else caffe2.axes_of)(op, spec, *constants_behind(program, op))
    moved = {one.axis: one for one in axes if not _is_copy(one, spec.shape[one.axis])}
    beyond = any(one.outside is not None for one in moved.values())
    return moved if set(moved) <= {HEIGHT, WIDTH} and not beyond else None


def _is_copy(one: Resampled, size: int) -> bool:
    return one.size == size and one.weights is None and np.array_equal(one.indices[0], np.arange(size))


def interpolations(
    moved: Sequence[Resampled], shape: Sequence[int], dtype: Any
) -> Iterator[Tuple[Dict[str, Any], List[float]]]:
    """The arguments that a QuantizedResizeBilinear of the dtype may have, and for each dimension which share of an
    output it takes from other pixels than the resize does, at most. shape: of what is resized."""
    if all(one.weights is not None and len(one.indices) <= _MOST_TAPS for one in moved):
        for arguments in _INTERPOLATIONS:
            kind = OperatorDef.of("QuantizedResizeBilinear", [], [], domain="tflite", **arguments)
            yield arguments, [_elsewhere(kind, one, shape[one.axis], dtype) for one in moved]


def _elsewhere(kind: OperatorDef, one: Resampled, size: int, dtype: Any) -> float:
    found = resampled_by_tflite(kind, one.axis, size, one.size, dtype)
    return float(np.abs(matrix_of(one, size) - matrix_of(found, size)).sum(1).max(initial=0) / 2)


def resampled_by_tflite(op: OperatorDef, axis: int, size: int, output: int, dtype: Any) -> Resampled:
    """What a QuantizedResizeBilinear of the dtype does along an axis."""
    low, high, low_weight, high_weight = axis_of_size(op, size, output, dtype)
    unit = 1 if dtype == np.uint8 else ONE
    return Resampled(axis, np.stack([low, high]), np.stack([low_weight, high_weight]) / np.float64(unit))


def matrix_of(one: Resampled, size: int) -> Array:
    """The weights of all inputs for each output: (out, size)."""
    matrix = np.zeros((one.size, size))
    weights = np.ones(one.indices.shape) if one.weights is None else one.weights
    for taps, shares in zip(one.indices, weights):
        np.add.at(matrix, (np.arange(len(taps)), taps), shares)
    return matrix


def transposed_padding(window: Window) -> Optional[str]:
    """Which of TensorFlow Lite's two padding rules pads a transposed convolution like this. None if neither does.

    window: that of the convolution from Y to X.
    """
    heads, sides = list(window.head), list(zip(window.image, window.kernel, window.stride, window.output))
    cut = [(n - 1) * s + k - y for y, k, s, n in sides]
    if not any(heads) and all(-s < one <= 0 for one, (_, _, s, _) in zip(cut, sides)):
        return "VALID"
    halves = all(head == max(one, 0) // 2 for head, one in zip(heads, cut))
    return "SAME_UPPER" if halves and all(-(-y // s) == n for y, _, s, n in sides) else None
