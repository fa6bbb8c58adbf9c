"""Answers of real networks about real photographs, by ``armnet.open`` and by the command."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import pytest

import armnet
from runtime_arm.results import Boxes, Classes, Faces, Image, Keypoints, Mask
from runtime_arm.results.nms import intersection_over_union
from tests.support.commands import Armnet
from tests.support.paths import SHARED

pytest.importorskip("onnx", reason="exporting needs onnx")
pytest.importorskip("tflite", reason="exporting needs tflite")
pytest.importorskip("PIL", reason="pictures need Pillow")
MODELS = SHARED / "models"
PHOTOS = MODELS / "photos"
pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="real networks and photographs are not beside the project")

ASTRONAUTS = PHOTOS / "caffe2_tutorials" / "astronauts.jpg"
LEMON = PHOTOS / "caffe2_tutorials" / "lemon.jpg"
IMAGENET = PHOTOS / "coral" / "imagenet_labels.txt"
COCO = PHOTOS / "coral" / "coco_labels.txt"


def source(name: str) -> List[Path]:
    """The files of a network: all that have this path, whatever their suffix."""
    found = sorted(MODELS.glob(name))
    assert found, name
    return found


def opened(name: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return armnet.open(source(name), threads=1, **options)


def armnet_open(paths: Sequence[str]) -> Any:
    return armnet.open(paths, threads=1)


def overlap(box: Sequence[float], wanted: Sequence[float]) -> float:
    return float(intersection_over_union(np.asarray(box), np.asarray([wanted]))[0])


def test_ssd_finds_the_cat() -> None:
    with opened("tflite/coco_ssd_mobilenet_v1_quant/*.tflite", labels=COCO) as model:
        result = model.predict(PHOTOS / "coral" / "cat_720p.jpg")
        assert isinstance(result, Boxes)
        assert [box.label for box in result] == ["cat"]
        found = result.to_dict()["boxes"][0]
        assert set(found) == {"label", "index", "score", "box"}
        assert overlap(found["box"], [111, 95, 912, 704]) > 0.9
        cats = model.predict(PHOTOS / "tflite_support" / "cats_and_dogs.jpg")
        assert [box.label for box in cats].count("cat") >= 2


@pytest.mark.parametrize(
    "name",
    [
        "onnx/ultraface/*.onnx",
        "caffe/ultraface/RFB-320.*",
        "caffe/ultraface/slim-320.*",
        "onnx/yunet/*.onnx",
    ],
)
def test_the_faces_of_a_crew_are_found(name: str) -> None:
    with opened(name) as model:
        faces = model.predict(ASTRONAUTS)
    assert isinstance(faces, Faces)
    assert 20 <= len(faces) <= 24  # there are 23
    assert max(overlap(face.box, [631, 91, 673, 150]) for face in faces) > 0.7


def test_fastestdet_finds_four_players() -> None:
    sample = MODELS / "onnx" / "fastestdet" / "3.jpg"
    with opened("onnx/fastestdet/*.onnx", labels=MODELS / "onnx" / "fastestdet" / "coco.names") as model:
        found = model.predict(sample)
    assert [box.label for box in found] == ["person"] * 4


def test_a_bird_a_person_and_points_are_found() -> None:
    with opened("tflite/deeplabv3_257_float/*.tflite") as model:
        mask = model.predict(PHOTOS / "coral" / "bird_segmentation.bmp")
        assert isinstance(mask, Mask)
        assert [region.index for region in mask.regions[:2]] == [0, 3]  # PASCAL's background and bird
        assert 0.1 < mask.regions[1].share < 0.3
    with opened("tflite/mediapipe_selfie_segmentation/*.tflite", preprocessing="0..1") as model:
        mask = model.predict(ASTRONAUTS)
        assert mask.classes[300, 120] == 1  # an astronaut's face
        assert mask.classes[30, 700] == 0  # the wall
    with opened("tflite/movenet_lightning_ptq/*.tflite") as model:
        points = model.predict(ASTRONAUTS)
        assert isinstance(points, Keypoints)
        assert len(points) == 17
        assert points[0].name == "nose"


def test_a_picture_is_enlarged_with_its_colours() -> None:
    with opened("onnx/super_resolution_10/*.onnx", preprocessing="0..1") as model:
        result = model.predict(LEMON)
    assert isinstance(result, Image)
    assert result.pixels.shape == (672, 672, 3)
    yellow = result.pixels[300:372, 300:372].reshape(-1, 3).mean(axis=0)
    assert yellow[0] > yellow[2] + 40


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("onnx/squeezenet_v1.1/*.onnx", {"preprocessing": "caffe", "labels": IMAGENET}),
        ("caffe/squeezenet_v1.0_deepcompressed/SqueezeNet_*.*o*", {"preprocessing": "caffe", "labels": IMAGENET}),
        ("onnx/shufflenet_v2_12_int8/*.onnx", {"preprocessing": "imagenet", "labels": IMAGENET}),
        ("tflite/mobilenet_v1_0.25_224_float/*.tflite", {"preprocessing": "inception", "labels": IMAGENET}),
        ("tflite/mobilenet_v2_1.0_224_quant/*.tflite", {}),
        ("tflite/tf2_mobilenet_v2_1.0_224_ptq/*.tflite", {}),
    ],
)
def test_classifiers_name_the_lemon(name: str, options: Any) -> None:
    with opened(name, **options) as model:
        result = model.predict(LEMON)
    assert isinstance(result, Classes)
    assert result.label == "lemon"
    assert 0.3 < result.score <= 1


def test_the_command_prints_boxes_for_a_detector(armnet: Armnet, tmp_path: Path) -> None:
    (model,) = source("tflite/coco_ssd_mobilenet_v1_quant/*.tflite")
    cat = PHOTOS / "coral" / "cat_720p.jpg"
    (tmp_path / "broken.jpg").write_bytes(cat.read_bytes()[:2000])
    words = [cat, tmp_path / "broken.jpg", "--labels", COCO, "--draw", tmp_path / "drawn"]
    status, out, err = armnet("run", model, *words, "--output", tmp_path / "found.jsonl")
    assert status == 1
    assert "cat  at (" in out
    assert "300x300 RGB" in err
    assert "broken.jpg: cannot be read as a picture" in err
    (line,) = (tmp_path / "found.jsonl").read_text().splitlines()
    assert json.loads(line)["boxes"][0]["label"] == "cat"
    assert [path.name for path in (tmp_path / "drawn").iterdir()] == ["cat_720p.png"]


def test_the_command_says_how_classes_get_names(armnet: Armnet) -> None:
    model, picture = MODELS / "onnx" / "fastestdet" / "FastestDet.onnx", MODELS / "onnx" / "fastestdet" / "3.jpg"
    assert "--labels FILE names them" in armnet("run", model, picture)[2]
    named = armnet("run", model, picture, "--labels", MODELS / "onnx" / "fastestdet" / "coco.names")
    assert "--labels" not in named[2]
    faces = armnet("run", *source("onnx/yunet/*.onnx"), ASTRONAUTS)
    assert "--labels" not in faces[2]


def test_a_small_quantised_classifier_has_the_lemon_among_its_best() -> None:
    with opened("tflite/mobilenet_v1_0.25_224_quant/*.tflite") as model:
        assert "lemon" in [one.label for one in model.predict(LEMON)]


def test_a_short_range_face_detector_finds_large_faces() -> None:
    from PIL import Image as Pictures

    with Pictures.open(ASTRONAUTS) as picture:
        part = picture.crop((60, 200, 400, 480))
    with opened("tflite/mediapipe_face_detection_short_range/*.tflite") as model:
        faces = model.predict(part)
    assert max(overlap(face.box, [30, 75, 84, 140]) for face in faces) > 0.7
    assert len(faces[0].points) == 6


def test_the_three_nets_of_mtcnn_find_the_crew(armnet: Armnet) -> None:
    stages = [str(source(f"caffe/mtcnn/det{stage}.prototxt")[0]) for stage in (1, 2, 3)]
    status, out, _ = armnet("run", stages[0], ASTRONAUTS, "--then", *stages[1:], "--json", "--threads", 1)
    assert status == 0
    boxes = json.loads(out)["runs"][0]["result"]["boxes"]
    assert len(boxes) == 23
    assert all(len(face["points"]) == 5 for face in boxes)
    with armnet_open([*stages[1:], stages[0]]) as model:
        assert len(model.predict(ASTRONAUTS)) == 23


def test_a_text_detector_boxes_lines_of_writing() -> None:
    from PIL import Image as Pictures
    from PIL import ImageDraw

    picture = Pictures.new("RGB", (640, 320), "white")
    draw = ImageDraw.Draw(picture)
    wanted = []
    for y, words in ((60, "Hello world"), (200, "second line")):
        draw.text((60, y), words, fill="black", font_size=48)
        wanted.append(draw.textbbox((60, y), words, font_size=48))
    with opened("onnx/ppocr_mobile_v1.1_det/*.onnx") as model:
        found = model.predict(picture)
    assert len(found) == 2
    for line in wanted:
        assert max(overlap(box.box, line) for box in found) > 0.6
    assert all(box.label == "text" and len(box.points) == 4 for box in found)


def test_speech_is_heard_and_silence_is_not(tmp_path: Path) -> None:
    speaker = shutil.which("espeak-ng")
    with opened("onnx/silero_vad/*.onnx") as model:
        silence = model.predict(np.zeros(32000, np.float32))
        assert silence.kind == "sound events"
        assert len(silence) == 0
        if speaker is None:
            pytest.skip("espeak-ng, which speaks, is not installed")
        words = "this is a test of a detector of speech"
        subprocess.run([speaker, "-w", str(tmp_path / "speech.wav"), words], check=True)
        heard = model.predict(tmp_path / "speech.wav")
        assert heard[0].label == "speech"
        assert heard[0].start < 0.3
        assert sum(event.end - event.start for event in heard) > 1.5
        (tmp_path / "notes.wav").write_text("no sound")
        with pytest.raises(armnet.ArmnetError, match=r"notes\.wav"):
            model.predict(tmp_path / "notes.wav")


@pytest.mark.parametrize("name", ["kws_ref_model_float32", "kws_ref_model"])
def test_spoken_words_are_heard(name: str, tmp_path: Path) -> None:
    """MLPerf Tiny's keyword spotter, which takes cepstral coefficients."""
    labels = [*["down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes"], "_silence_", "_unknown_"]
    with opened(f"tflite/mlperf_tiny_kws_dscnn/{name}.tflite", labels=labels) as model:
        assert len(model.predict(np.zeros(24000, np.float32))) == 0
        speaker = shutil.which("espeak-ng")
        if speaker is None:
            pytest.skip("espeak-ng, which speaks, is not installed")
        for word in ("yes", "left", "off"):
            spoken = tmp_path / f"{word}.wav"
            subprocess.run([speaker, "-v", "en-us", "-s", "120", "-w", str(spoken), word], check=True)
            heard = model.predict(spoken)
            assert heard[0].label == word
            assert heard[0].score > 0.8


def test_boxes_are_those_of_the_original_runtime() -> None:
    """The SSD's recorded tensors, decoded here again, and what ``predict`` says about the same pixels."""
    recorded = np.load(MODELS / "references" / "tflite_coco_ssd_photos.npz")
    with opened("tflite/coco_ssd_mobilenet_v1_quant/*.tflite") as model:
        for pixels, boxes, scores in zip(recorded["input"], recorded["boxes"], recorded["scores"]):
            wanted = [box[[1, 0, 3, 2]] * 300 for box, score in zip(boxes[0], scores[0]) if score >= 0.5]
            found = model.predict(pixels)
            assert len(found) == len(wanted)
            for box, expected in zip(found, wanted):
                small = np.abs(np.asarray(box.box) - expected).max() < 1  # pixel: a kite is 4 pixels wide
                assert small or overlap(box.box, np.clip(expected, 0, 300)) > 0.9
