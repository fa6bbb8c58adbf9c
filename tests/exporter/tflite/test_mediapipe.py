"""MediaPipe's custom operators, which LiteRT lacks, against their published description in plain loops."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from flatbuffers import flexbuffers

from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.tflite.flexbuffer import read_map, read_vectors
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.support.tflite_models import Model

SAME, VALID = 1, 2  # TfLitePadding


def floats(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def options(**values: Any) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        for key, value in values.items():
            if isinstance(value, list):
                builder.Key(key)
                builder.TypedVectorFromElements(value)
            elif isinstance(value, float):
                builder.Float(key, value)
            elif isinstance(value, str):
                builder.String(key, value)
            else:
                builder.Int(key, value)
    return bytes(builder.Finish())


def results(folder: Path, name: str, inputs: List[Any], given: bytes, outputs: int = 1, version: int = 1) -> List[Any]:
    """What the plain pair computes; AssertionError if the optimised pair computes anything else."""
    model = Model()
    names = [model.input(f"x{index}", value.shape) for index, value in enumerate(inputs)]
    made = [model.tensor(f"y{index}") for index in range(outputs)]
    model.operator("CUSTOM", names, made, custom=name, custom_options=given, version=version)
    (folder / "net.tflite").write_bytes(model.to_bytes(made))
    pair = export(folder / "net.tflite")
    with Predictor(pair) as plain, Predictor(optimize(pair)) as optimised:
        found = list(plain.run(inputs).values())
        for one, other in zip(found, optimised.run(inputs).values()):
            np.testing.assert_array_equal(one, other)
    return found


def pool_options(padding: int, strides: Any, window: Any, activation: int = 0) -> bytes:
    return struct.pack("<10i", padding, strides[1], strides[0], window[1], window[0], activation, 0, 0, 0, 0)


def pooled(x: Any, padding: int, strides: Any, window: Any) -> Any:
    """Maxima and places, pixel by pixel, and how far the first window begins before the picture."""
    sizes = [-(-n // s) if padding == SAME else (n - k + s) // s for n, s, k in zip(x.shape[1:3], strides, window)]
    heads = [max((o - 1) * s + k - n, 0) // 2 for o, s, k, n in zip(sizes, strides, window, x.shape[1:3])]
    most = np.zeros((x.shape[0], *sizes, x.shape[3]), np.float32)
    place = np.zeros_like(most)
    for n, i, j, c in np.ndindex(*most.shape):
        best = (np.finfo(np.float32).min, 0)
        for a in range(window[0]):
            for b in range(window[1]):
                row, column = i * strides[0] - heads[0] + a, j * strides[1] - heads[1] + b
                inside = 0 <= row < x.shape[1] and 0 <= column < x.shape[2]
                if inside and x[n, row, column, c] > best[0]:
                    best = (x[n, row, column, c], a * window[1] + b)
        most[n, i, j, c], place[n, i, j, c] = best[0], np.float32(best[1]) + np.float32(0.1)
    return most, place


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("strides", "window"), [((2, 2), (2, 2)), ((2, 1), (3, 2)), ((3, 3), (2, 2))])
def test_max_pooling_with_argmax(tmp_path: Path, strides: Any, window: Any, padding: int, activation: int) -> None:
    x = np.round(3 * floats(2, 7, 6, 3))  # equal numbers meet
    given = pool_options(padding, strides, window, activation)
    most, place = results(tmp_path, "MaxPoolingWithArgmax2D", [x], given, 2)
    wanted, places = pooled(x, padding, strides, window)
    np.testing.assert_array_equal(most, np.maximum(wanted, 0) if activation else wanted)
    np.testing.assert_array_equal(place, places)


@pytest.mark.parametrize(("strides", "window"), [((2, 2), (2, 2)), ((1, 1), (2, 3)), ((3, 2), (3, 2))])
def test_max_unpooling(tmp_path: Path, strides: Any, window: Any) -> None:
    """Places outside the picture are left out; of numbers that meet, the last one stays."""
    x = floats(2, 4, 3, 2)
    places = np.random.default_rng(3).integers(-3, 2 * window[0] * window[1], x.shape) + np.float32(0.1)
    places = places.astype(np.float32)
    wanted = np.zeros((2, 4 * window[0], 3 * window[1], 2), np.float32)
    heads = [max((n - 1) * s + k - n * k, 0) // 2 for n, s, k in zip(x.shape[1:3], strides, window)]
    for n, i, j, c in np.ndindex(*x.shape):
        index = int(places[n, i, j, c])  # truncated
        row = i * strides[0] - heads[0] + int(index / window[1])
        column = j * strides[1] - heads[1] + int(math.fmod(index, window[1]))
        if 0 <= row < wanted.shape[1] and 0 <= column < wanted.shape[2]:
            wanted[n, row, column, c] = x[n, i, j, c]
    (y,) = results(tmp_path, "MaxUnpooling2D", [x, places], pool_options(SAME, strides, window))
    np.testing.assert_array_equal(y, wanted)


def test_unpooling_undoes_pooling(tmp_path: Path) -> None:
    x = np.abs(floats(1, 6, 8, 3))
    given = pool_options(SAME, (2, 2), (2, 2))
    most, place = results(tmp_path, "MaxPoolingWithArgmax2D", [x], given, 2)
    (y,) = results(tmp_path, "MaxUnpooling2D", [most, place], given)
    np.testing.assert_array_equal(y[y != 0], x[y != 0])
    assert int((y != 0).sum()) == most.size


def turned(point: Any, angle: float) -> Any:
    x, y = point
    return x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)


def box(points: Any, subset: List[int], angle: float) -> Any:
    """The size of the upright box, and its middle turned back."""
    corners = [turned(points[index, :2], angle) for index in subset]
    xs, ys = zip(*corners)
    middle = turned(((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2), -angle)
    return max(xs) - min(xs), max(ys) - min(ys), *middle


SUBSET = [0, 3, 4, 2, 6]


def test_landmarks_to_a_matrix_in_the_first_form(tmp_path: Path) -> None:
    points = 100 + 30 * floats(7, 3)
    left, right = points[1], points[5]
    angle = -math.atan((right[1] - left[1]) / (right[0] - left[0]))
    width, height, x, y = box(points.astype(np.float64), SUBSET, angle)
    reach, multiplier, (h, w), (rows, columns) = 192.0, 1.5, (192, 190), (48, 64)
    absolute = [[(w - 1) / 2, 0, (w - 1) / 2], [0, (h - 1) / 2, (h - 1) / 2], [0, 0, 1]]
    cosine, sine = math.cos(-angle), math.sin(-angle)
    rotation = [[cosine, -sine, 2 * x / reach - 1], [sine, cosine, 2 * y / reach - 1], [0, 0, 1]]
    scale = [[width * multiplier / reach, 0, 0], [0, height * multiplier / reach, 0], [0, 0, 1]]
    relative = [[2 / (columns - 1), 0, -1], [0, 2 / (rows - 1), -1], [0, 0, 1]]
    plane = np.array(absolute) @ rotation @ scale @ relative
    wanted = [
        [plane[0, 0], plane[0, 1], 0, plane[0, 2]],
        [plane[1, 0], plane[1, 1], 0, plane[1, 2]],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]
    given = options(
        subset=SUBSET,
        input_hw=[h, w],
        output_hw=[rows, columns],
        landmarks_range=int(reach),
        bbox_size_multiplier=multiplier,
        dimensions=3,
        left_rotation_idx=1,
        right_rotation_idx=5,
    )
    (matrix,) = results(tmp_path, "Landmarks2TransformMatrix", [points.reshape(1, 1, 1, 21)], given)
    assert_close(matrix, np.array([wanted], np.float32), terms=4)


def second_form(points: Any, target: float, scales: Any, size: Any) -> Any:
    left, right = points[1], points[5]
    angle = target - math.atan2(right[1] - left[1], right[0] - left[0])
    width, height, x, y = box(points.astype(np.float64), SUBSET, angle)
    across, down = scales[0] * width / size[1], scales[1] * height / size[0]
    rotation = np.array([turned((1, 0), -angle), turned((0, 1), -angle)]).T * [across, down]
    shift = np.array([x, y]) - rotation @ [size[1] / 2, size[0] / 2]
    return [[*rotation[0], 0, shift[0]], [*rotation[1], 0, shift[1]], [0, 0, 1, 0], [0, 0, 0, 1]]


def matrix_options(**more: Any) -> bytes:
    given = {
        "subset_idxs": SUBSET,
        "left_rotation_idx": 1,
        "right_rotation_idx": 5,
        "target_rotation_radians": 0.3,
        "output_height": 16,
        "output_width": 24,
        "scale_x": 1.5,
        "scale_y": 1.25,
    }
    return options(**{**given, **more})


def test_landmarks_to_a_matrix_in_the_second_form(tmp_path: Path) -> None:
    points = 100 + 30 * floats(7, 3)
    wanted = second_form(points, 0.3, (1.5, 1.25), (16, 24))
    (matrix,) = results(tmp_path, "Landmarks2TransformMatrix", [points.reshape(1, 7, 3)], matrix_options(), version=2)
    assert_close(matrix, np.array([wanted], np.float32), terms=4)


@pytest.mark.parametrize("version", [1, 2])
def test_a_picture_is_transformed(tmp_path: Path, version: int) -> None:
    """By a matrix that also leads outside the picture."""
    x, size = floats(1, 9, 8, 3), (7, 10)
    matrix = np.array([[0.9, 0.3, 0, -1.5], [-0.2, 1.1, 0, 1.27], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)
    wanted, shift = np.zeros((1, *size, 3), np.float32), 0.5 if version == 2 else 0.0
    for i, j in np.ndindex(*size):
        place = matrix[:2].astype(np.float64) @ [j + shift, i + shift, 0, 1] - shift
        if not (0 <= place[0] <= 7 and 0 <= place[1] <= 8):
            continue
        left, top = int(place[0]), int(place[1])
        for a in (0, 1):
            for b in (0, 1):
                weight = (1 - abs(place[1] - top - a)) * (1 - abs(place[0] - left - b))
                if top + a < 9 and left + b < 8:
                    wanted[0, i, j] += np.float32(weight) * x[0, top + a, left + b]
    given = (
        options(mode="bilinear", output_size=list(size)) if version == 1 else options(output_height=7, output_width=10)
    )
    (y,) = results(tmp_path, "TransformTensorBilinear", [x, matrix[np.newaxis]], given, version=version)
    assert 0 < int((wanted == 0).sum()) < wanted.size
    np.testing.assert_allclose(y, wanted, atol=2e-5)  # coordinates


@pytest.mark.parametrize("dimensions", [2, 3])
def test_landmarks_are_transformed(tmp_path: Path, dimensions: int) -> None:
    points, matrix = floats(1, 5, dimensions), floats(1, 4, 4, seed=2)
    wanted = points.copy()
    wanted[0, :, :2] = points[0, :, :2] @ matrix[0, :2, :2].T + matrix[0, :2, 3]
    (y,) = results(tmp_path, "TransformLandmarks", [points, matrix], b"", version=2)
    assert_close(y, wanted, terms=3)
    flat, scaled = points.reshape(1, 1, 1, -1), options(dimensions=dimensions, scale=4.0)
    (y,) = results(tmp_path, "TransformLandmarks", [flat, matrix], scaled)
    wanted[0, :, :2] += 3 * matrix[0, :2, 3]
    assert_close(y, wanted.reshape(1, 1, 1, -1), terms=3)


@pytest.mark.parametrize(
    ("name", "shapes", "given", "version", "problem"),
    [
        ("MaxPoolingWithArgmax2D", [(1, 4, 4, 1)], b"1234", 1, "too short"),
        ("MaxUnpooling2D", [(1, 4, 4, 1)] * 2, pool_options(3, (1, 1), (2, 2)), 1, "padding 3"),
        ("Landmarks2TransformMatrix", [(1, 7, 3)], options(subset_idxs=[1]), 2, "lack 'left_rotation_idx'"),
        ("Landmarks2TransformMatrix", [(1, 7, 3)], matrix_options(subset_idxs=[7]), 2, "landmarks must be 0 to 6"),
        ("Landmarks2TransformMatrix", [(1, 7, 3)], matrix_options(), 3, "version must be 1 or 2"),
        ("TransformTensorBilinear", [(1, 4, 4, 1), (1, 4, 4)], options(), 2, "lack 'output_height'"),
        ("TransformLandmarks", [(1, 5, 4), (1, 4, 4)], b"", 2, "X must hold points"),
    ],
)
def test_refusals(tmp_path: Path, name: str, shapes: Any, given: bytes, version: int, problem: str) -> None:
    with pytest.raises(ExportError, match=problem):
        results(tmp_path, name, [floats(*shape) for shape in shapes], given, version=version)


def test_vectors_in_maps() -> None:
    """Of every type that a map can hold, beside other values."""
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("one", 5)
        builder.Key("many")
        builder.TypedVectorFromElements(list(range(-300, 300, 50)))
        builder.Key("pair")
        builder.FixedTypedVectorFromElements([1.5, -2.5])
        builder.Key("mixed")
        with builder.Vector():
            builder.Add(7)
            builder.Add(0.25)
        builder.String("text", "words")
    data = bytes(builder.Finish())
    assert read_map(data) == {"one": 5}
    assert read_vectors(data) == {"many": list(range(-300, 300, 50)), "pair": [1.5, -2.5], "mixed": [7, 0.25]}


def test_damaged_maps_are_refused_or_read() -> None:
    """Any byte may be wrong; nothing but an ExportError escapes."""
    rng, data = np.random.default_rng(1), matrix_options()
    for _ in range(3000):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        for read in (read_map, read_vectors):
            try:
                read(bytes(damaged))
            except ExportError:
                continue
