"""Families of networks for which no real one lies beside the project: scripted networks, whose answers are known."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the networks are written as ONNX")
pytest.importorskip("PIL", reason="pictures need Pillow")

import armnet
from runtime_arm.results import Boxes, Classes, Depth, Embedding, Faces, Image, Keypoints, Mask, Poses, Tensors, Text
from runtime_arm.results.decoders.retinaface import priors
from runtime_arm.results.decoders.ssd import mobilenet_anchors
from runtime_arm.results.nms import intersection_over_union
from tests.support.scripted_nets import Content, detections, logit, scripted_net

SIDE = 64
PICTURE = np.random.default_rng(0).integers(0, 255, (96, 128, 3), np.uint8)  # twice as wide and 1.5 times as high
LETTERBOX = 0.5  # pixels of the input for one of the picture, with 8 rows above it
CLASSES = 3
LABELS = ["ant", "bee", "cow"]
WANTED = (20.0, 24.0, 84.0, 72.0)  # in the picture


def opened(outputs: Dict[str, Content], labels: Optional[Sequence[str]] = None, **options: Any) -> Any:
    task = options.pop("task", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pair = armnet.export(scripted_net(outputs, **options))
        return armnet.open(pair, labels=labels, task=task, threads=1)


def answer(outputs: Dict[str, Content], **options: Any) -> Any:
    with opened(outputs, **options) as model:
        return model.predict(PICTURE)


def in_letterbox(box: Sequence[float], top: float = 8.0) -> np.ndarray:
    """A box of the picture in pixels of the input."""
    return np.asarray(box) * LETTERBOX + (0, top, 0, top)


def centre_size(box: Sequence[float]) -> np.ndarray:
    x0, y0, x1, y1 = box
    return np.asarray([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0])


def found_one(result: Boxes, label: Optional[str] = "bee", score: float = 0.9) -> None:
    """Asserts that the only box is the one wanted."""
    assert len(result) == 1, result
    assert result[0].label == label
    assert result[0].score == pytest.approx(score, abs=0.02)  # bytes
    assert intersection_over_union(np.asarray(result[0].box), np.asarray([WANTED]))[0] > 0.98, result[0]


def cells_of(strides: Sequence[int], anchors: int = 1) -> List[Tuple[int, int, int]]:
    """Column, row and stride of every cell."""
    return [(x, y, s) for s in strides for y in range(SIDE // s) for x in range(SIDE // s) for _ in range(anchors)]


def cell_at(strides: Sequence[int], stride: int, point: Sequence[float], anchors: int = 1) -> int:
    """The number of the cell of that stride which a point of the input lies in."""
    wanted = (int(point[0] // stride), int(point[1] // stride), stride)
    return cells_of(strides, anchors).index(wanted)


def test_yolov5() -> None:
    rows = np.zeros((1, 3 * 84, 5 + CLASSES), np.float32)
    rows[0, :, :4] = (5, 5, 4, 4)
    for at in (100, 101):  # two anchors see the same thing
        rows[0, at] = [*centre_size(in_letterbox(WANTED)), 1.0, 0.1, 0.9 - 0.1 * (at - 100), 0.0]
    found_one(answer({"output0": rows}, labels=LABELS))


@pytest.mark.parametrize("fractions", [False, True])
def test_yolov8(fractions: bool) -> None:
    columns = np.zeros((1, 4 + CLASSES, 84), np.float32)
    columns[0, 2:4] = 5
    columns[0, :4, 40] = centre_size(in_letterbox(WANTED))
    columns[0, 4:, 40] = 0.1, 0.9, 0.2
    columns[0, :4] /= SIDE if fractions else 1
    found_one(answer({"output0": columns}, labels=LABELS))


@pytest.mark.parametrize("task", ["yolov5", "yolov8", "yolox", "nanodet"])
def test_a_net_that_is_of_another_family_is_refused(task: str) -> None:
    grid = np.zeros((1, 5 + CLASSES, 8, 8), np.float32)
    with pytest.raises(armnet.errors.FeedError, match=r"the boxes are a matrix .*, and the net gives \[8, 8, 8\]"):
        answer({"output0": grid}, task=task)


def test_yolov8_tells_its_labels_and_its_poses_in_its_metadata() -> None:
    columns = np.zeros((1, 4 + 1 + 51, 84), np.float32)
    columns[0, :5, 7] = [*centre_size(in_letterbox(WANTED)), 0.9]
    columns[0, 5::3, 7], columns[0, 6::3, 7] = 21, 28
    metadata = {"task": "pose", "kpt_shape": "[17, 3]", "names": "{0: 'person'}"}
    result = answer({"output0": columns}, metadata=metadata)
    assert isinstance(result, Poses)
    found_one(result, "person")
    assert result[0].points == ((42.0, 40.0),) * 17
    rows = np.zeros((1, 300, 6), np.float32)
    rows[0, 0] = [*in_letterbox(WANTED), 0.9, 1]
    metadata = {"task": "detect", "names": "{0: 'ant', 1: 'bee', 2: 'cow'}"}
    found_one(answer({"output0": rows}, metadata=metadata))


@pytest.mark.parametrize("decoded", [False, True])
def test_yolox(decoded: bool) -> None:
    strides = (8, 16, 32)
    wanted = in_letterbox(WANTED, top=0.0)  # YOLOX puts the picture into the corner
    x, y, w, h = centre_size(wanted)
    at = cell_at(strides, 16, (x, y))
    reg = np.zeros((1, 84, 4), np.float32)
    reg[0, at] = (x, y, w, h) if decoded else (x / 16 - x // 16, y / 16 - y // 16, np.log(w / 16), np.log(h / 16))
    thing, scores = np.full((1, 84, 1), -9.0), np.full((1, 84, CLASSES), -9.0)
    thing[0, at], scores[0, at, 1] = 9.0, logit(0.9)
    parts = [("", reg), ("Sigmoid", thing), ("Sigmoid", scores)]
    with opened({"output": parts}, labels=LABELS) as model:
        model.entry["decoded"] = decoded
        found_one(model.predict(PICTURE))


@pytest.mark.parametrize(("strides", "centre"), [((8, 16, 32), 0.5), ((8, 16, 32, 64), 0.0)])
def test_nanodet(strides: Tuple[int, ...], centre: float) -> None:
    box = np.asarray(WANTED) * (0.5, 2 / 3, 0.5, 2 / 3)  # the picture is stretched
    cells = cells_of(strides)
    at = cell_at(strides, 8, ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    x, y, stride = cells[at]
    point = (np.asarray([x, y]) + centre) * stride
    distances = np.concatenate([point - box[:2], box[2:] - point]) / stride
    bins = np.full((1, len(cells), 4, 8), -50.0)
    for side, distance in enumerate(distances):  # two neighbouring bins share the probability
        low, share = int(distance), distance % 1
        bins[0, at, side, low] = np.log(max(1 - share, 1e-9))
        bins[0, at, side, low + 1] = np.log(max(share, 1e-9))
    scores = np.full((1, len(cells), CLASSES), -9.0)
    scores[0, at, 1] = logit(0.9)
    found_one(answer({"output": [("Sigmoid", scores), ("", bins.reshape(1, len(cells), 32))]}, labels=LABELS))


def test_retinaface() -> None:
    centres, sizes = priors(SIDE, SIDE)
    x, y, w, h = centre_size(in_letterbox(WANTED, top=0.0))
    at = int(np.argmin(np.abs(centres - (x, y)).sum(axis=1) + np.abs(sizes[:, 0] - 32)))
    count = len(centres)
    boxes, scores, points = np.zeros((1, count, 4)), np.zeros((1, count, 2)), np.zeros((1, count, 10))
    scores[0, :, 0], scores[0, at] = 9.0, (0.0, logit(0.9))
    boxes[0, at, :2] = ((x, y) - centres[at]) / sizes[at] / 0.1
    boxes[0, at, 2:] = np.log((w, h) / sizes[at]) / 0.2
    points[0, at] = np.tile(((x, y) - centres[at]) / sizes[at] / 0.1, 5)
    outputs = {"loc": boxes, "conf": [("Softmax", scores)], "landms": points}
    result = answer(outputs)
    assert isinstance(result, Faces)
    found_one(result, "face")
    np.testing.assert_allclose(result[0].points, [((20 + 84) / 2, (24 + 72) / 2)] * 5, atol=0.5)  # pixels


def test_ssd_with_anchors() -> None:
    anchors = mobilenet_anchors(SIDE, SIDE)
    box = np.asarray(WANTED) / (128, 96, 128, 96)
    x, y, w, h = centre_size(box)
    at = int(np.argmin(np.abs(anchors - (y, x, h, w)).sum(axis=1)))
    offsets = np.zeros((1, len(anchors), 4))
    offsets[0, at] = [
        (y - anchors[at, 0]) / anchors[at, 2] * 10,
        (x - anchors[at, 1]) / anchors[at, 3] * 10,
        np.log(h / anchors[at, 2]) * 5,
        np.log(w / anchors[at, 3]) * 5,
    ]
    scores = np.full((1, len(anchors), 1 + CLASSES), -9.0)
    scores[0, at, 2] = logit(0.9)
    outputs = {"raw_outputs/box_encodings": offsets, "raw_outputs/class_predictions": scores}
    found_one(answer(outputs, labels=["???", *LABELS]))
    assert len(mobilenet_anchors(300, 300)) == 1917


def test_tensorflows_detection_model() -> None:
    found_one(answer(detections(WANTED, 128, 96, 0.2), labels=LABELS))


def test_boxes_that_caffes_layer_has_chosen() -> None:
    x0, y0, x1, y1 = np.asarray(WANTED) / (128, 96, 128, 96)
    rows = np.asarray([[0, 2, 0.9, x0, y0, x1, y1], [0, 1, 0.1, 0, 0, 1, 1], [-1, 3, 1, 0, 0, 1, 1]])
    found_one(answer({"rows": rows.reshape(1, 1, 3, 7)}, task="detection_output", labels=["none", "ant", "bee", "cow"]))


def test_classes_that_do_not_exclude_each_other() -> None:
    scores = np.asarray([[9.0, -9.0, logit(0.7)]])
    result = answer({"output": [("Sigmoid", scores)]}, labels=LABELS)
    assert isinstance(result, Classes)
    assert result.meaning == "independent"
    assert [one.label for one in result] == ["ant", "cow", "bee"]
    assert result[1].score == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(
    ("label", "size", "rows", "numbers", "zero"), [("palm", 192, 2016, 18, 0.0), ("face", 224, 2254, 12, 127.5)]
)
def test_detectors_of_mediapipe(label: str, size: int, rows: int, numbers: int, zero: float) -> None:
    """Of palms, and of the faces of bodies. zero: the value of a pixel that is fed as 0."""
    raw, scores = np.zeros((1, rows, numbers)), np.full((1, rows, 1), -9.0)
    x, y, w, h = centre_size(in_letterbox(WANTED) * (size / SIDE))
    at = 2 * (int(y // 8) * (size // 8) + int(x // 8))  # of two anchors a cell
    raw[0, at, :4] = x - (x // 8 + 0.5) * 8, y - (y // 8 + 0.5) * 8, w, h
    scores[0, at] = logit(0.9)
    with opened({"boxes": raw, "scores": scores}, shape=(1, 3, size, size)) as model:
        found_one(model.predict(PICTURE), label)
        assert (model.rule["mean"], model.rule["mean"] + model.rule["std"]) == (zero, 255.0)


def points_of(*outputs: Tuple[str, np.ndarray], size: int, **options: Any) -> Any:
    """What a network of MediaPipe that finds points answers; outputs: each with the function that it passes through."""
    named: Dict[str, Content] = {f"Identity_{place}": [content] for place, content in enumerate(outputs)}
    return answer(named, shape=(1, 3, size, size), **options)


def number(value: float) -> np.ndarray:
    return np.asarray([[value]])


def test_points_of_a_hand() -> None:
    points = np.tile(np.asarray([21.0, 42.0, 7.0]), 21)[None]
    points[0, -3:] = [112.0, 140.0, 0.0]
    world = ("", np.zeros((1, 63)))
    result = points_of(("", points), ("", number(0.8)), ("", number(0.5)), world, size=224)
    assert isinstance(result, Keypoints)
    assert (len(result), result[0].name, result[20].name) == (21, "wrist", "little finger tip")
    np.testing.assert_allclose(result[0].point, np.asarray([21, 42 - 28]) * 128 / 224, atol=1e-4)
    np.testing.assert_allclose(result[20].point, np.asarray([112, 140 - 28]) * 128 / 224, atol=1e-4)
    np.testing.assert_allclose([one.score for one in result], 0.8, atol=1e-6)


def test_points_of_a_body_count_as_far_as_they_are_visible() -> None:
    rows = np.zeros((39, 5))
    rows[:, :2], rows[:, 3] = (128.0, 128.0), logit(0.9)
    rows[32, 3] = logit(0.2)
    sizes = ((1, 256, 256, 1), (1, 64, 64, 39), (1, 117))
    others = [("", np.zeros(size)) for size in sizes]
    result = points_of(("", rows.reshape(1, -1)), ("Sigmoid", number(logit(0.7))), *others, size=256)
    assert (len(result), result[0].name, result[32].name) == (33, "nose", "right toe")
    np.testing.assert_allclose(result[0].point, (64, 48), atol=1e-4)
    np.testing.assert_allclose([result[0].score, result[32].score], [0.7, 0.2], atol=1e-6)


def test_points_of_a_face_are_told_in_one_line() -> None:
    places = np.stack([np.linspace(20, 170, 468), np.linspace(40, 150, 468), np.zeros(468)], axis=1)
    result = points_of(("", places.reshape(1, 1, 1, -1)), ("", number(logit(0.6)).reshape(1, 1, 1, 1)), size=192)
    assert len(result) == 468
    np.testing.assert_allclose(result[467].point, np.asarray([170, 150 - 24]) * 128 / 192, atol=1e-4)
    (line,) = result.lines()
    assert line.strip() == "0.6  468 points within (13, 11)-(113, 84); --json lists them"
    assert len(result.to_dict()["points"]) == 468


def test_heat_maps() -> None:
    heat = np.zeros((1, 17, 16, 16))
    heat[0, :, 6, 4] = 0.9
    result = answer({"heatmaps": heat})
    assert isinstance(result, Keypoints)
    assert result[0].name == "nose"
    np.testing.assert_allclose(result[0].point, (4.5 * 8, 6.5 * 6))
    heat = heat.transpose(0, 2, 3, 1)
    result = answer({"Identity": heat}, shape=(1, SIDE, SIDE, 3), task="keypoints")
    np.testing.assert_allclose(result[16].point, (4.5 * 8, 6.5 * 6))


def test_a_reader_of_lines() -> None:
    characters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    steps = np.full((1, 40, len(characters) + 2), -9.0)
    for step, index in enumerate([0, 8, 8, 0, 5, 5, 0, 0, 12, 0, 12, 15, len(characters) + 1, 1]):
        steps[0, step, index] = 9.0
    steps[0, 14:, 0] = 9.0
    with opened({"softmax": [("Softmax", steps)]}, shape=(1, 3, 48, 320), labels=characters) as model:
        result = model.predict(PICTURE)
    assert isinstance(result, Text)
    assert result.text == "hello a"
    assert result.score > 0.9
    with pytest.raises(armnet.ArmnetError, match="characters as labels"):
        answer({"softmax": [("Softmax", steps)]}, shape=(1, 3, 48, 320))


def test_a_keyword_spotter_hears_a_word_in_each_window() -> None:
    scores = np.asarray([[-9.0, 9.0, -9.0]])
    with opened({"output": [("Softmax", scores)]}, shape=(1, 16000), labels=["_silence_", "yes", "no"]) as model:
        result = model.predict(np.zeros(40000, np.float32))
    assert result.kind == "sound events"
    assert [(event.label, event.start) for event in result] == [("yes", 0.0)]
    assert result[0].score > 0.9


def test_a_net_that_a_user_says_hears_takes_a_row_of_samples() -> None:
    """As BirdNET, whose scores are logits and whose 144,000 samples may be seconds of any length."""
    outputs: Dict[str, Content] = {"output": np.asarray([[-9.0, 9.0, -9.0]])}
    told = pytest.raises(armnet.ArmnetError, match=r"it takes data \(n, 144000\). If these are samples, use --task")
    with opened(outputs, shape=("n", 144000)) as model, told:
        model.predict("bird.wav")
    with opened(outputs, shape=("n", 144000), labels=LABELS, task="sounds") as model:
        assert model.entry["sound"] == {"input": "data", "window": 144000, "hop": 72000, "rate": 16000}
        result = model.predict(np.zeros(150000, np.float32))
    assert [event.label for event in result] == ["bee"]
    with opened(outputs, shape=("n", 300, 40), task="keywords") as model:
        assert "sound" not in model.entry


def test_masks() -> None:
    scores = np.zeros((1, 5, SIDE, SIDE))
    scores[0, 3, :, SIDE // 2 :] = 9.0
    result = answer({"output": scores})
    assert isinstance(result, Mask)
    assert result.classes.shape == (96, 128)
    assert (result.classes[:, :60] == 0).all()
    assert (result.classes[:, 68:] == 3).all()
    classes = answer({"mask": [("Sigmoid", np.where(np.arange(SIDE) < 16, 9.0, -9.0) * np.ones((1, 1, SIDE, 1)))]})
    assert [region.label for region in classes.regions] == ["background", "foreground"]
    assert classes.regions[1].share == pytest.approx(0.25, abs=0.01)


def test_pictures_depths_and_embeddings() -> None:
    enlarged = answer({"output": np.full((1, 3, 2 * SIDE, 2 * SIDE), 0.5)})
    assert isinstance(enlarged, Image)
    assert enlarged.pixels.shape == (128, 128, 3)
    assert (enlarged.pixels == 128).all()
    depth = answer({"predicted_depth": np.broadcast_to(np.arange(SIDE), (1, SIDE, SIDE))})
    assert isinstance(depth, Depth)
    assert depth.values.shape == (96, 128)
    assert depth.values[0, 127] > depth.values[0, 0]
    vector = answer({"embedding": np.arange(128.0)[None]})
    assert isinstance(vector, Embedding)
    assert vector.similarity(vector) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("outputs", "shape"),
    [
        ({"output": np.zeros((1, 10))}, (1, 3, 64, 64)),  # ten numbers: classes, points or anything
        ({"output": np.zeros((1, 80, 8))}, (1, 3, 64, 64)),  # not as many rows as any detector has
        ({"output": np.zeros((1, 84, 8))}, (1, 3, 64, 64)),  # YOLOX of three classes, or something else
        ({"output": np.zeros((1, 3, 64, 64))}, (1, 3, 64, 64)),  # a picture, or three classes
        ({"output": np.zeros((1, 1, 64, 64))}, (1, 3, 64, 64)),  # a depth or a mask of logits
        ({"boxes": np.zeros((1, 50, 4)), "scores": np.zeros((1, 50, 2))}, (1, 3, 64, 64)),  # not UltraFace's priors
        ({"a": np.zeros((1, 84, 4)), "b": np.zeros((1, 84, 2)), "c": np.zeros((1, 84, 10))}, (1, 3, 64, 64)),
        ({"output": np.zeros((1, 7))}, (1, 20)),  # a table
        ({"output": [("Softmax", np.zeros((1, 12, 50)))]}, (1, 3, 64, 64)),  # many softmaxes
        ({"heat": np.zeros((1, 17, 16, 16))}, (1, 3, 64, 64)),
        ({"a": np.zeros((1, 63)), "b": np.zeros((1, 1)), "c": np.zeros((1, 1))}, (1, 3, 224, 224)),  # no hand's outputs
        ({"a": np.zeros((1, 1404)), "b": np.zeros((1, 1))}, (1, 3, 224, 224)),  # no face's size
    ],
)
def test_what_may_be_anything_stays_tensors(outputs: Dict[str, Content], shape: Sequence[int]) -> None:
    with opened(outputs, shape=shape) as model:
        assert model.decoder.kind == "tensors", model.entry
        result = model.predict(PICTURE) if len(shape) == 4 else model.predict(np.zeros(shape, np.float32))
    assert isinstance(result, Tensors)


def test_what_a_user_says_counts() -> None:
    outputs: Dict[str, Content] = {"output": np.asarray([[0.0, 3.0, 1.0]])}
    assert isinstance(answer(outputs, task="classes"), Classes)
    result = answer(outputs, task="classification", labels=LABELS)
    assert result.label == "bee"
    assert sum(result.scores) == pytest.approx(1.0)
    with pytest.raises(armnet.ArmnetError, match="the net gives boxes, read by yolov5, and no classes"):
        opened({"output0": np.zeros((1, 3 * 84, 5 + CLASSES), np.float32)}, task="classes")
    with pytest.raises(armnet.ArmnetError, match="2 labels, the net has 3 classes"):
        answer(outputs, task="classes", labels=["one", "two"])


def test_nan_is_no_answer_and_its_source_is_named() -> None:
    outputs: Dict[str, Content] = {"output": [("Softmax", np.asarray([[1.0, np.nan, 0.0]]))]}
    with pytest.raises(armnet.ArmnetError, match=r"output 'output' holds 3 NaN of 3 numbers; the first is in blob"):
        answer(outputs)
