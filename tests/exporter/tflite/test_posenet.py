"""PosenetDecoderOp, which LiteRT lacks: people that are drawn into a network's maps are found where they were drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from runtime_arm.operators.detection.posenet import FORWARD
from tests.exporter.tflite.test_mediapipe import options
from tests.support.tflite_models import Model, Quantization

HEIGHT, WIDTH, STRIDE, SIZE = 40, 60, 16, 33
_Y = [2, 1, 1, 2, 2, 5, 5, 9, 9, 13, 13, 14, 14, 19, 19, 24, 24]
_X = [5, 6, 4, 7.5, 2.5, 8, 2, 9.25, 1, 9, 1, 7, 3, 7, 3, 7.25, 3.5]
SHAPE = np.stack([_Y, _X], axis=1)  # where the keypoints of one person are, in units of the stride


def drawn(people: Sequence[Any], odds: Sequence[float]) -> List[Any]:
    """Maps in which each keypoint has a peak, surrounded by pixels whose offsets lead to it and to its neighbours."""
    scores = np.full((HEIGHT, WIDTH, 17), -9, np.float32)
    shorts, mids = np.zeros((HEIGHT, WIDTH, 34), np.float32), np.zeros((HEIGHT, WIDTH, 64), np.float32)
    for person, sure in zip(people, odds):
        for keypoint, place in enumerate(person):
            middle = np.rint(place).astype(int)
            for i, j in np.ndindex(5, 5):
                row, column = middle + np.array([i - 2, j - 2])
                if not (0 <= row < HEIGHT and 0 <= column < WIDTH):
                    continue
                lead = place - [row, column]
                shorts[row, column, [keypoint, 17 + keypoint]] = lead
                near = max(abs(i - 2), abs(j - 2))
                level = sure + (0.5 if keypoint == 0 else 0) - 0.1 * near
                scores[row, column, keypoint] = level if near < 2 else -9
                for edge, (parent, child) in enumerate(FORWARD):
                    if parent == keypoint:
                        mids[row, column, [edge, 16 + edge]] = person[child] - [row, column]
                    if child == keypoint:
                        mids[row, column, [32 + edge, 48 + edge]] = person[parent] - [row, column]
    return [scores[np.newaxis], shorts[np.newaxis] * STRIDE, mids[np.newaxis] * STRIDE]


def decoded(folder: Path, maps: List[Any], quantization: Sequence[Any] = (), **given: Any) -> List[Any]:
    """What the plain pair finds; AssertionError if the optimised pair finds anything else."""
    model = Model()
    chosen = {"max_detections": 4, "score_threshold": 0.5, "stride": STRIDE, "nms_radius": 20.0, **given}
    scales = quantization or [None] * len(maps)
    names = [
        model.input(f"x{index}", value.shape, value.dtype.name, quantization=scale)
        for index, (value, scale) in enumerate(zip(maps, scales))
    ]
    made = [model.tensor(f"y{index}") for index in range(len(maps) + 1)]
    model.operator("CUSTOM", names, made, custom="PosenetDecoderOp", custom_options=options(**chosen))
    (folder / "net.tflite").write_bytes(model.to_bytes(made))
    pair = export(folder / "net.tflite")
    with Predictor(pair) as plain, Predictor(optimize(pair)) as optimised:
        found = list(plain.run(maps).values())
        for one, other in zip(found, optimised.run(maps).values()):
            np.testing.assert_array_equal(one, other)
    return found


PEOPLE = [SHAPE * size + np.array(place) for size, place in ((1, (3, 2)), (1, (8, 20.5)), (0.8, (12, 40)))]
ODDS = [2.0, 3.0, 1.5]
ORDER = [1, 0, 2]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def test_people_are_found_in_the_order_of_their_scores(tmp_path: Path) -> None:
    places, scores, totals, count = decoded(tmp_path, drawn(PEOPLE, ODDS))
    assert count.tolist() == [3]
    assert (places.shape, scores.shape, totals.shape) == ((1, 4, 17, 2), (1, 4, 17), (1, 4))
    for slot, person in enumerate(ORDER):
        np.testing.assert_allclose(places[0, slot], PEOPLE[person] * STRIDE, atol=0.05)  # pixels
        assert (np.abs(scores[0, slot] - sigmoid(ODDS[person])) < 0.1).all()
        assert_each_close(totals[0, slot], scores[0, slot].mean(), terms=17)
    assert not places[0, 3].any()
    assert not totals[0, 3]


@pytest.mark.parametrize(("threshold", "most", "kept"), [(0.5, 2, 2), (0.94, 4, 1), (0.99, 4, 0)])
def test_those_above_the_threshold_are_kept(tmp_path: Path, threshold: float, most: int, kept: int) -> None:
    found = decoded(tmp_path, drawn(PEOPLE, ODDS), max_detections=most, score_threshold=threshold)
    assert found[3].tolist() == [kept]
    assert found[0].shape == (1, most, 17, 2)


def test_one_person_is_not_found_twice(tmp_path: Path) -> None:
    """Keypoints of a pose that lie on those of a surer one do not count for it."""
    assert decoded(tmp_path, drawn(PEOPLE[:1], ODDS))[3].tolist() == [1]
    wide = decoded(tmp_path, drawn(PEOPLE, ODDS), nms_radius=5000.0)
    assert wide[3].tolist() == [1]


def test_maps_of_integers(tmp_path: Path) -> None:
    maps = drawn(PEOPLE, ODDS)
    scales = [float(np.float32(np.ptp(value) / 255)) for value in maps]
    zeros = [int(np.rint(-value.min() / scale)) for value, scale in zip(maps, scales)]
    whole = [
        np.clip(np.rint(value / scale) + zero, 0, 255).astype(np.uint8)
        for value, scale, zero in zip(maps, scales, zeros)
    ]
    given = [Quantization([scale], [zero]) for scale, zero in zip(scales, zeros)]
    places, _, _, count = decoded(tmp_path, whole, given)
    assert count.tolist() == [3]
    for slot, person in enumerate(ORDER):
        np.testing.assert_allclose(places[0, slot], PEOPLE[person] * STRIDE, atol=2 * max(scales))  # steps


def test_masks(tmp_path: Path) -> None:
    """Each pixel belongs to the person whose keypoints its long offsets lead to."""
    maps, split = drawn(PEOPLE, ODDS), 17
    longs = np.zeros((1, SIZE, SIZE, 34), np.float32)
    for i, j in np.ndindex(SIZE, SIZE):
        person = PEOPLE[0] if j < split else PEOPLE[1]
        inside = np.clip(person, 0, SIZE - 1) - [i, j]
        longs[0, i, j] = np.concatenate([inside[:, 0], inside[:, 1]]) * STRIDE / 3  # the steps add up
    masks = decoded(tmp_path, [*maps, longs])[4]
    assert masks.shape == (1, 4, SIZE, SIZE)
    assert (masks[0].sum(0) == 1).all()
    left = np.arange(SIZE) < split - 3
    right = np.arange(SIZE) > split + 3
    assert masks[0, 1][:, left].mean() > 0.9
    assert masks[0, 0][:, right].mean() > 0.9
    nobody = decoded(tmp_path, [*maps, longs], score_threshold=0.99)[4]
    assert not nobody.any()


@pytest.mark.parametrize(
    ("place", "shape", "given", "problem"),
    [
        (1, (1, HEIGHT, WIDTH, 17), {}, "shorts must be float32"),
        (2, (1, HEIGHT, 9, 64), {}, "mids must be float32"),
        (0, (1, HEIGHT, WIDTH, 17), {"stride": 0}, "the stride must be positive"),
        (0, (1, HEIGHT, WIDTH, 17), {"max_detections": 0}, "must be positive"),
        (0, (1, HEIGHT, WIDTH, 17), {"score_threshold": 1.5}, "must be 0 to 1"),
    ],
)
def test_refusals(tmp_path: Path, place: int, shape: Any, given: Any, problem: str) -> None:
    maps = drawn([], [])
    maps[place] = np.zeros(shape, np.float32)
    with pytest.raises(ExportError, match=problem):
        decoded(tmp_path, maps, **given)
