"""Answers of real networks beside those that their own runtimes give: the tensors of onnxruntime, LiteRT or OpenCV for
the same pixels, decoded here again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import pytest

pytest.importorskip("PIL", reason="pictures need Pillow")

from runtime_arm.netdef import Array
from runtime_arm.results import Boxes, Classes
from tests.armnet.test_answers import ASTRONAUTS, COCO, IMAGENET, LEMON, MODELS, PHOTOS, opened, overlap, source
from tests.support.commands import Armnet

pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="real networks and photographs are not beside the project")

CATS = PHOTOS / "tflite_support" / "cats_and_dogs.jpg"
CORGI = (610, 140, 910, 600)  # where it sits among them


def onnxruntime(name: str, feeds: Mapping[str, Array]) -> Dict[str, Array]:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime runs the original")
    (path,) = source(name)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds))))


def litert(name: str, feeds: Mapping[str, Array]) -> List[Array]:
    """The outputs, in the file's order, by the reference kernels."""
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT runs the original")
    (path,) = source(name)
    resolver = module.OpResolverType.BUILTIN_REF
    interpreter = module.Interpreter(str(path), experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    (value,) = feeds.values()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]


def opencv(name: str) -> Any:
    cv2 = pytest.importorskip("cv2", reason="OpenCV runs the original")
    files = {path.suffix: str(path) for path in source(name)}
    return cv2.dnn.readNetFromCaffe(files[".prototxt"], files[".caffemodel"])


def distinct(boxes: Array, scores: Array, least: float, most_overlap: float) -> List[Tuple[float, ...]]:
    """Those boxes x0 y0 x1 y1 that OpenCV keeps."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV chooses among boxes")
    sizes = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    chosen = cv2.dnn.NMSBoxes(sizes.tolist(), scores.reshape(-1).tolist(), least, most_overlap)
    return [tuple(boxes[at]) for at in np.asarray(chosen).reshape(-1)]


def same(found: Sequence[Any], wanted: Sequence[Sequence[float]], size: Tuple[int, int]) -> None:
    """Asserts that every box has its like on the other side."""
    limits = (*size, *size)
    wanted = [np.clip(box, 0, limits) for box in wanted]
    assert len(found) == len(wanted) > 0
    for box in wanted:
        assert max(overlap(one.box, box) for one in found) > 0.9
    for one in found:
        assert max(overlap(one.box, box) for box in wanted) > 0.9


def picture_of(path: Any) -> Any:
    from PIL import Image

    with Image.open(path) as opened_picture:
        return opened_picture.convert("RGB")


@pytest.mark.parametrize("photo", [CATS, PHOTOS / "coral" / "cat_720p.jpg", PHOTOS / "coral" / "kite_and_cold.jpg"])
def test_ssd(photo: Any) -> None:
    name, picture = "tflite/coco_ssd_mobilenet_v1_quant/*.tflite", picture_of(photo)
    with opened(name, labels=COCO) as model:
        found = model.predict(picture)
        boxes, classes, scores, _ = litert(name, model.prepared(picture).feeds)
    sure = scores[0] >= 0.5
    size = np.asarray(picture.size * 2)
    same(found, [box[[1, 0, 3, 2]] * size for box in boxes[0][sure]], picture.size)
    assert [box.index for box in found] == classes[0][sure].astype(int).tolist()
    if photo == CATS:
        assert [box.label for box in found].count("cat") >= 2


@pytest.mark.parametrize("name", ["onnx/ultraface/*.onnx", "caffe/ultraface/RFB-320.*", "caffe/ultraface/slim-320.*"])
def test_ultraface(name: str) -> None:
    picture = picture_of(ASTRONAUTS)
    with opened(name) as model:
        found, feeds = model.predict(picture), model.prepared(picture).feeds
    if name.startswith("onnx"):
        outputs = onnxruntime(name, feeds)
        offsets, scores = outputs["boxes"], outputs["scores"]
    else:
        net = opencv(name)
        ((info, batch),) = feeds.items()
        net.setInput(batch, info)
        offsets, scores = net.forward(["boxes", "scores"])
    priors = [
        ((x + 0.5) / columns, (y + 0.5) / rows, side / 320, side / 240)
        for sides, columns, rows in (
            ((10, 16, 24), 40, 30),
            ((32, 48), 20, 15),
            ((64, 96), 10, 8),
            ((128, 192, 256), 5, 4),
        )
        for y in range(rows)
        for x in range(columns)
        for side in sides
    ]
    prior, offset = np.clip(np.asarray(priors), 0, 1), offsets.reshape(-1, 4)
    centre, half = prior[:, :2] + 0.1 * offset[:, :2] * prior[:, 2:], prior[:, 2:] * np.exp(0.2 * offset[:, 2:]) / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1) * np.asarray(picture.size * 2)
    same(found, distinct(boxes, scores.reshape(-1, 2)[:, 1], 0.7, 0.3), picture.size)


def test_yunet() -> None:
    """OpenCV reads YuNet's outputs, too."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV runs the original")
    (path,) = source("onnx/yunet/*.onnx")
    picture = picture_of(ASTRONAUTS)
    with opened("onnx/yunet/*.onnx") as model:
        found = model.predict(picture)
        (batch,) = model.prepared(picture).feeds.values()
    detector = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.6, 0.3)
    _, faces = detector.detect(np.ascontiguousarray(batch[0].transpose(1, 2, 0)).astype(np.uint8))
    scale = max(picture.size) / 320
    same(found, [(x * scale, y * scale, (x + w) * scale, (y + h) * scale) for x, y, w, h in faces[:, :4]], picture.size)
    eyes = sorted(face.points[0] for face in found)
    np.testing.assert_allclose(eyes, sorted(map(tuple, faces[:, 4:6] * scale)), atol=1.0)  # pixels


def test_blazeface() -> None:
    name, picture = "tflite/mediapipe_face_detection_short_range/*.tflite", picture_of(ASTRONAUTS)
    picture = picture.crop((60, 200, 400, 480))
    with opened(name) as model:
        found, (raw, scores) = model.predict(picture), litert(name, model.prepared(picture).feeds)
    anchors = [
        ((x + 0.5) / n, (y + 0.5) / n)
        for n, count in ((16, 2), (8, 6))
        for y in range(n)
        for x in range(n)
        for _ in range(count)
    ]
    centre, half = raw[0, :, :2] / 128 + anchors, raw[0, :, 2:4] / 256
    square = max(picture.size)  # the picture lies in the middle of a square
    margin = np.asarray([(square - side) / 2 for side in picture.size] * 2)
    boxes = np.concatenate([centre - half, centre + half], axis=1) * square - margin
    same(found, distinct(boxes, 1 / (1 + np.exp(-scores[0])), 0.5, 0.3), picture.size)


def test_mtcnn() -> None:
    """The cascade, with OpenCV as the runtime of its three nets."""
    names = [f"caffe/mtcnn/det{stage}.*" for stage in (1, 2, 3)]
    picture = picture_of(ASTRONAUTS)
    with opened("caffe/mtcnn/*.*") as model:
        found = model.predict(picture)
        for stage, name in zip((model, *model.following), names):
            stage.infer = _by_opencv(opencv(name), [info.name for info in stage.pair.outputs])
        wanted = model.predict(picture)
    assert len(wanted) == 23
    same(found, [face.box for face in wanted], picture.size)


def _by_opencv(net: Any, outputs: List[str]) -> Any:
    def infer(feeds: Mapping[str, Array]) -> Dict[str, Array]:
        for name, value in feeds.items():
            net.setInput(np.ascontiguousarray(value), name)
        return dict(zip(outputs, net.forward(outputs)))

    return infer


def test_fastestdet() -> None:
    name, picture = "onnx/fastestdet/*.onnx", picture_of(MODELS / "onnx" / "fastestdet" / "3.jpg")
    with opened(name) as model:
        found = model.predict(picture)
        (grid,) = onnxruntime(name, model.prepared(picture).feeds).values()
    boxes, scores = [], []
    for y, x in np.ndindex(22, 22):
        thing, dx, dy, w, h, *classes = grid[0, :, y, x]
        centre = np.asarray([x + np.tanh(dx), y + np.tanh(dy)]) / 22
        half = 0.5 / (1 + np.exp(-np.asarray([w, h])))
        boxes.append([*(centre - half), *(centre + half)])
        scores.append(thing**0.6 * max(classes) ** 0.4)
    wanted = distinct(np.asarray(boxes) * np.asarray(picture.size * 2), np.asarray(scores), 0.65, 0.45)
    same(found, wanted, picture.size)


def test_writing() -> None:
    """Each region of the map, as OpenCV sees it, grown as PaddleOCR grows it."""
    cv2 = pytest.importorskip("cv2", reason="OpenCV finds the regions")
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (640, 320), "white")
    for y, words in ((60, "Hello world"), (200, "second line")):
        ImageDraw.Draw(picture).text((60, y), words, fill="black", font_size=48)
    name = "onnx/ppocr_mobile_v1.1_det/*.onnx"
    with opened(name) as model:
        found = model.predict(picture)
        (plane,) = onnxruntime(name, model.prepared(picture).feeds).values()
    regions, _ = cv2.findContours((plane[0, 0] > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    wanted = []
    for region in regions:
        centre, (w, h), angle = cv2.minAreaRect(region)
        grown = 1.6 * w * h / (w + h)
        corners = cv2.boxPoints((centre, (w + grown, h + grown), angle))
        if min(w, h) >= 3:
            wanted.append([*corners.min(axis=0), *corners.max(axis=0)])
    same(found, wanted, picture.size)


def test_keypoints() -> None:
    name, picture = "tflite/movenet_lightning_ptq/*.tflite", picture_of(ASTRONAUTS)
    with opened(name) as model:
        points, (wanted,) = model.predict(picture), litert(name, model.prepared(picture).feeds)
    square = max(picture.size)
    assert len(points) == 17
    for point, (y, x, score) in zip(points, wanted[0, 0]):
        place = x * square - (square - picture.width) / 2, y * square - (square - picture.height) / 2
        assert np.abs(np.asarray(point.point) - place).max() < 1
        assert point.score == pytest.approx(score, abs=1e-5)


def test_masks() -> None:
    name, picture = "tflite/deeplabv3_257_float/*.tflite", picture_of(PHOTOS / "coral" / "bird_segmentation.bmp")
    with opened(name, preprocessing="-1..1") as model:
        mask, (scores,) = model.predict(picture), litert(name, model.prepared(picture).feeds)
    classes = scores[0].argmax(axis=-1)
    y, x = (np.arange(n) * 257 // n for n in mask.classes.shape)
    assert np.mean(mask.classes == classes[y][:, x]) > 0.98
    assert set(np.unique(mask.classes)) <= {0, 3, *np.unique(classes)}
    recorded = np.load(MODELS / "references" / "tflite_mediapipe_selfie_segmentation__selfie_segmentation.npz")
    with opened("tflite/mediapipe_selfie_segmentation/*.tflite") as model:
        person = model.predict({model.pair.inputs[0].name: recorded["input"]})
    assert np.mean((person.classes == 1) == (recorded["output0"][0, :, :, 0] >= 0.5)) > 0.999


def test_super_resolution() -> None:
    name, picture = "onnx/super_resolution_10/*.onnx", picture_of(LEMON)
    with opened(name, preprocessing="0..1") as model:
        made = model.predict(picture)
        (planes,) = onnxruntime(name, model.prepared(picture).feeds).values()
    luma = made.pixels @ np.asarray([0.299, 0.587, 0.114])
    assert np.abs(luma - np.clip(planes[0, 0], 0, 1) * 255).mean() < 3  # colours that leave the range are cut


def test_speech() -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime runs the original")
    (path,) = source("onnx/silero_vad/*.onnx")
    time = np.arange(16000) / 16000
    voice = np.sin(2 * np.pi * 140 * time) * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * time))  # of a kind
    wave = np.concatenate([np.zeros(8000), 0.4 * voice + 0.1 * np.sin(2 * np.pi * 900 * time)]).astype(np.float32)
    with opened("onnx/silero_vad/*.onnx") as model:
        (answer,) = model.answers(wave)
    (ours,) = answer.outputs.values()
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    state, padded = np.zeros((2, 1, 128), np.float32), np.concatenate([np.zeros(64), wave, np.zeros(512)])
    wanted = []
    for start in range(0, len(wave), 512):
        window = padded[start : start + 576].astype(np.float32)[None]
        score, state = session.run(None, {"input": window, "state": state, "sr": np.asarray(16000, np.int64)})
        wanted.append(score.reshape(-1))
    np.testing.assert_allclose(ours[0], wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("onnx/squeezenet_v1.1/*.onnx", {"preprocessing": "caffe", "labels": IMAGENET}),
        ("caffe/squeezenet_v1.0_deepcompressed/SqueezeNet_*.*o*", {"preprocessing": "caffe", "labels": IMAGENET}),
        ("tflite/mobilenet_v1_0.25_224_float/*.tflite", {"preprocessing": "inception", "labels": IMAGENET}),
        ("tflite/mobilenet_v1_0.25_224_quant/*.tflite", {}),
        ("tflite/mobilenet_v2_1.0_224_quant/*.tflite", {}),
        ("tflite/tf2_mobilenet_v2_1.0_224_ptq/*.tflite", {}),
    ],
)
def test_classes(name: str, options: Any) -> None:
    dog, lemon = picture_of(CATS).crop(CORGI), picture_of(LEMON)
    with opened(name, **options) as model:
        for picture, label in ((dog, "Pembroke, Pembroke Welsh corgi"), (lemon, "lemon")):
            found = model.predict(picture)
            assert isinstance(found, Classes)
            scores = _scores_of_the_original(name, model.prepared(picture).feeds)
            assert scores.shape == found.scores.shape
            np.testing.assert_allclose(found.scores, scores, atol=1e-3)
            assert found.index == int(scores.argmax())
            if "0.25_224_quant" not in name:  # the smallest one does not know the dog
                assert found.label == label


def _scores_of_the_original(name: str, feeds: Mapping[str, Array]) -> Array:
    if name.startswith("onnx"):
        (scores,) = onnxruntime(name, feeds).values()
    elif name.startswith("caffe"):
        net = opencv(name)
        ((info, batch),) = feeds.items()
        net.setInput(batch, info)
        scores = net.forward()
    else:
        (scores,) = litert(name, feeds)
        scores = scores / 256 if scores.dtype == np.uint8 else scores
    scores = scores.reshape(-1).astype(np.float64)
    if scores.min() < 0 or scores.sum() > 1.5:  # logits
        scores = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    return scores


def test_a_detector_never_answers_with_classes() -> None:
    for name in ("onnx/ultraface/*.onnx", "onnx/yunet/*.onnx", "onnx/fastestdet/*.onnx", "tflite/coco_ssd*/*.tflite"):
        with opened(name) as model:
            assert isinstance(model.predict(ASTRONAUTS), Boxes)


BIRD, PLAYERS = PHOTOS / "coral" / "bird_segmentation.bmp", MODELS / "onnx" / "fastestdet" / "3.jpg"


@pytest.mark.parametrize(
    ("name", "photo", "kind"),
    [
        ("tflite/coco_ssd_mobilenet_v1_quant/*.tflite", CATS, "boxes"),
        ("onnx/ultraface/*.onnx", ASTRONAUTS, "boxes"),
        ("caffe/ultraface/RFB-320.*", ASTRONAUTS, "boxes"),
        ("onnx/yunet/*.onnx", ASTRONAUTS, "boxes"),
        ("tflite/mediapipe_face_detection_short_range/*.tflite", ASTRONAUTS, "boxes"),
        ("onnx/fastestdet/*.onnx", PLAYERS, "boxes"),
        ("onnx/ppocr_mobile_v1.1_det/*.onnx", PHOTOS / "coral" / "hot_dog.jpg", "boxes"),
        ("tflite/deeplabv3_257_float/*.tflite", BIRD, "mask"),
        ("tflite/mediapipe_selfie_segmentation/*.tflite", ASTRONAUTS, "mask"),
        ("tflite/movenet_lightning_ptq/*.tflite", ASTRONAUTS, "keypoints"),
        ("onnx/super_resolution_10/*.onnx", LEMON, "image"),
        ("caffe2/superres_from_onnx/*.pb", LEMON, "image"),
        ("onnx/squeezenet_v1.1/*.onnx", LEMON, "classes"),
        ("tflite/mobilenet_v2_1.0_224_quant/*.tflite", LEMON, "classes"),
    ],
)
def test_the_command_says_what_predict_says(armnet: Armnet, tmp_path: Path, name: str, photo: Path, kind: str) -> None:
    status, out, err = armnet("run", *source(name), photo, "--json", "--draw", tmp_path, "--threads", 1)
    assert status == 0, err
    told = json.loads(out)["runs"][0]["result"]
    assert told["kind"] == kind
    with opened(name) as model:
        assert told == json.loads(json.dumps(model.predict(photo).to_dict()))
    (drawn,) = tmp_path.iterdir()
    assert picture_of(drawn).size == (picture_of(photo).size if kind != "image" else (672, 672))
