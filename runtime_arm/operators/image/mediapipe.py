"""MediaPipe's operators on landmarks: the matrix that turns a crop around some of them upright, and its use.

A matrix is 4 x 4, and only its first two rows count: they take (x, y, 0, 1) from a crop to the picture. Source:
MediaPipe, util/tflite/operations/landmarks_to_transform_matrix.cc, transform_tensor_bilinear.cc and
transform_landmarks.cc. ``version``, 1 or 2, selects one of their two forms.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _version(op: OperatorDef) -> int:
    version = op.get_int("version", 2)
    if version not in (1, 2):
        raise ArgumentError(op, f"version must be 1 or 2, got {version}")
    return version


def _sizes(op: OperatorDef, name: str) -> Tuple[int, int]:
    """Height and width."""
    sizes = op.get_ints(name)
    if len(sizes) != 2 or min(sizes) < 1:
        raise ArgumentError(op, f"{name} must be a height and a width, got {sizes}")
    return sizes[0], sizes[1]


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """A rotation of the subset's points, and up to three products of 3 x 3 matrices."""
    return 4 * len(op.get_ints("subset")) + 3 * 27


@operator("LandmarksToMatrix", domain="tflite", dtypes=("float32",), multiply_adds=_products)
def landmarks_to_matrix(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Landmarks2TransformMatrix: X holds triples (x, y, z); Y is (1, 4, 4).

    The line from landmark ``left`` to ``right`` gives the rotation, the box around the landmarks ``subset``, turned
    upright, the crop. Version 1: input_size, output_size (heights and widths), range, multiplier, all coordinates from
    -1 to 1 on the way. Version 2: output_size, target (radians), scale_x, scale_y.
    """
    indices = [op.get_int("left"), op.get_int("right"), *op.get_ints("subset")]
    require(op, x.size > 0 and x.size % 3 == 0, "X must hold triples", x)
    if not 0 <= min(indices) <= max(indices) < x.size // 3:
        raise ArgumentError(op, f"landmarks must be 0 to {x.size // 3 - 1}, got {indices}")
    if not op.get_ints("subset"):
        raise ArgumentError(op, "the subset of landmarks is empty")
    _sizes(op, "output_size")
    if _version(op) == 1:
        _sizes(op, "input_size")
        if not op.get_float("range") > 0:
            raise ArgumentError(op, "range must be positive")
    return [x.with_shape((1, 4, 4))]


def _rotation(angle: float) -> Array:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def _affine(linear: Any, shift: Any) -> Array:
    """3 x 3: a linear map of the plane, then a shift."""
    return np.vstack([np.column_stack([linear, shift]), [0, 0, 1]])


@landmarks_to_matrix.reference
def landmarks_to_matrix_reference(op: OperatorDef, x: Array) -> List[Any]:
    points = x.reshape(-1, 3)[:, :2].astype(np.float64)
    across = points[op.get_int("right")] - points[op.get_int("left")]
    with np.errstate(all="ignore"):
        if _version(op) == 1:
            plane = _first_form(op, points, -np.arctan(across[1] / across[0]))
        else:
            plane = _second_form(op, points, op.get_float("target") - np.arctan2(across[1], across[0]))
    y = np.zeros((4, 4))
    y[:3, [0, 1, 3]] = plane
    if _version(op) == 1:
        y[2] = [plane[2, 0], plane[2, 1], plane[2, 2], 0]
    else:
        y[2] = [0, 0, 1, 0]
    y[3, 3] = 1
    return [y.astype(np.float32)[np.newaxis]]


def _crop(op: OperatorDef, points: Array, angle: float) -> Tuple[Array, Array]:
    """The size of the upright box around the subset, and its middle in the picture."""
    turned = points[list(op.get_ints("subset"))] @ _rotation(angle).T
    low, high = turned.min(0), turned.max(0)
    return high - low, _rotation(-angle) @ ((high + low) / 2)


def _first_form(op: OperatorDef, points: Array, angle: float) -> Array:
    size, middle = _crop(op, points, angle)
    reach = op.get_float("range")
    given, wanted = (np.array(_sizes(op, name)[::-1], np.float64) for name in ("input_size", "output_size"))
    relative = _affine(np.diag(2 / (wanted - 1)), [-1, -1])
    scaled = _affine(np.diag(size * op.get_float("multiplier") / reach), [0, 0])
    turned = _affine(_rotation(-angle), middle / reach * 2 - 1)
    absolute = _affine(np.diag((given - 1) / 2), (given - 1) / 2)
    return np.asarray(absolute @ turned @ scaled @ relative)


def _second_form(op: OperatorDef, points: Array, angle: float) -> Array:
    size, middle = _crop(op, points, angle)
    wanted = np.array(_sizes(op, "output_size")[::-1], np.float64)
    scales = np.array([op.get_float("scale_x"), op.get_float("scale_y")]) * size / wanted
    placed = _affine(_rotation(-angle), middle) @ _affine(np.diag(scales), [0, 0])
    return np.asarray(placed @ _affine(np.eye(2), -wanted / 2))


def _rows(matrix: Array) -> Array:
    """The first two rows of a matrix, float32 (2, 4)."""
    return np.asarray(matrix.reshape(-1)[:8].reshape(2, 4))


def _along(rows: Array, x: Any, y: Any) -> List[Any]:
    """Where the rows take points (x, y, 0, 1), in float32."""
    return [row[0] * x + row[1] * y + row[3] for row in rows]


@operator("TransformPicture", domain="tflite", inputs=2, dtypes=("float32",))
def transform_picture(op: OperatorDef, x: TensorSpec, matrix: TensorSpec) -> List[TensorSpec]:
    """TransformTensorBilinear: each pixel of Y (1, *output_size, C) is X (1, H, W, C) where the matrix takes it.

    Between pixels X is bilinear, outside 0. In version 2 coordinates are those of the pixels' middles.
    """
    require(op, x.ndim == 4 and x.shape[0] == 1, "X must be one picture (1, H, W, C)", x)
    require(op, matrix.size >= 8 and matrix.dtype == np.float32, "the matrix must be 4 x 4 floats", matrix)
    _version(op)
    return [x.with_shape((1, *_sizes(op, "output_size"), x.shape[3]))]


@transform_picture.reference
def transform_picture_reference(op: OperatorDef, x: Array, matrix: Array) -> List[Any]:
    rows, (height, width) = _rows(matrix).copy(), x.shape[1:3]
    if _version(op) == 2:
        rows[:, 3] += ((rows[:, 0] + rows[:, 1]).astype(np.float64) * 0.5 - 0.5).astype(np.float32)
    out_height, out_width = _sizes(op, "output_size")
    down, right = (np.arange(n, dtype=np.float32) for n in (out_height, out_width))
    column, row = _along(rows, right, down[:, np.newaxis])
    with np.errstate(invalid="ignore"):
        inside = (column >= 0) & (column <= width - 1) & (row >= 0) & (row <= height - 1)
    column, row = (np.where(inside, place, 0) for place in (column, row))
    left, top = np.floor(column).astype(np.int64), np.floor(row).astype(np.int64)
    along, below = (column - left)[..., np.newaxis].astype(np.float64), (row - top)[..., np.newaxis].astype(np.float64)
    padded = np.pad(x[0], [(0, 1), (0, 1), (0, 0)], mode="constant")
    upper = (1 - along) * padded[top, left] + along * padded[top, left + 1]
    lower = (1 - along) * padded[top + 1, left] + along * padded[top + 1, left + 1]
    y = (below * lower + (1 - below) * upper) * inside[..., np.newaxis]
    return [y.astype(np.float32)[np.newaxis]]


@operator("TransformLandmarks", domain="tflite", inputs=2, dtypes=("float32",))
def transform_landmarks(op: OperatorDef, x: TensorSpec, matrix: TensorSpec) -> List[TensorSpec]:
    """Points of 2 or 3 ``dimensions`` where the matrix takes x and y; a z stays. ``scale`` multiplies the shift."""
    dimensions = op.get_int("dimensions", 3)
    require(op, dimensions in (2, 3) and x.size % dimensions == 0, f"X must hold points of {dimensions} numbers", x)
    require(op, matrix.size >= 8 and matrix.dtype == np.float32, "the matrix must be 4 x 4 floats", matrix)
    return [x]


@transform_landmarks.reference
def transform_landmarks_reference(op: OperatorDef, x: Array, matrix: Array) -> List[Any]:
    rows = _rows(matrix).copy()
    rows[:, 3] *= np.float32(op.get_float("scale", 1.0))
    points: Sequence[Any] = x.reshape(-1, op.get_int("dimensions", 3)).T
    return [np.stack([*_along(rows, points[0], points[1]), *points[2:]], axis=1).astype(np.float32).reshape(x.shape)]
