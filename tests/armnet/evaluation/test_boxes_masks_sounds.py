"""Evaluating detectors, segmenters, listeners and readers: scripted networks whose numbers are known by hand."""

from __future__ import annotations

import json
import warnings
import wave
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("onnx", reason="the networks are written as ONNX")
pytest.importorskip("PIL", reason="pictures need Pillow")

from PIL import Image

import armnet
from armnet.evaluation.page import render
from armnet.evaluation.text_measures import distance
from tests.support.scripted_nets import detections, scripted_net

WIDTH, HEIGHT = 128, 96
LABELS = ["ant", "bee", "cow"]
WANTED = (20.0, 24.0, 84.0, 72.0)  # what the detector finds in every picture: a bee


def opened(outputs: Dict[str, Any], labels: Optional[Sequence[str]], **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return armnet.open(
            armnet.export(scripted_net(outputs, **options)), labels=labels, preprocessing="0..1", threads=1
        )


def pictures(folder: Path, count: int) -> List[str]:
    folder.mkdir(parents=True)
    names = [f"{number}.png" for number in range(count)]
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return names


class TestBoxes:
    @pytest.fixture
    def detector(self) -> Any:
        return opened(detections(WANTED, WIDTH, HEIGHT), LABELS)

    @pytest.fixture
    def annotations(self, tmp_path: Path) -> Path:
        """Four pictures: in two the box is there, in one it is elsewhere, in one it is not."""
        names = pictures(tmp_path / "val", 4)
        x0, y0, x1, y1 = WANTED
        there, elsewhere = [x0, y0, x1 - x0, y1 - y0], [90, 80, 30, 10]
        boxes = [(0, there), (1, there), (2, elsewhere)]
        content = {
            "images": [{"id": 10 + n, "file_name": name} for n, name in enumerate(names)],
            "annotations": [{"image_id": 10 + n, "category_id": 7, "bbox": box} for n, box in boxes],
            "categories": [{"id": 7, "name": "Bee"}, {"id": 9, "name": "dog"}],
        }
        (tmp_path / "annotations").mkdir()
        path = tmp_path / "annotations" / "instances_val.json"
        path.write_text(json.dumps(content))
        return path

    def test_precision_is_what_cocos_definition_gives(self, detector: Any, annotations: Path) -> None:
        pytest.importorskip("pycocotools", reason="COCO's metrics are pycocotools'")
        said: List[str] = []
        evaluation = armnet.evaluate(detector, annotations, notice=said.append)
        # Precision is 1 up to a recall of 2/3 and 0 beyond: 67 of COCO's 101 recalls.
        assert evaluation.metrics["map50"] == pytest.approx(67 / 101)
        assert evaluation.metrics["map"] == pytest.approx(67 / 101)
        assert evaluation.metrics["recall"] == pytest.approx(2 / 3)
        assert [row["class"] for row in evaluation.results[0].scores.rows] == ["Bee"]
        assert any("no such label: dog" in line for line in said)
        faults = [(example.name, fault.truth, fault.said) for example, _, fault in evaluation.faults()]
        assert faults[0] == ("2.png", "missed: Bee", "too many: Bee (0.90)")
        assert faults[1:] == [("3.png", "missed: nothing", "too many: Bee (0.90)")]
        assert render("boxes", evaluation).count("data:image/") == 4

    def test_annotations_that_are_none_are_refused(self, detector: Any, annotations: Path) -> None:
        content = json.loads(annotations.read_text())

        def refused(change: Any, problem: str) -> None:
            annotations.write_text(json.dumps({**content, **change}) if isinstance(change, dict) else change)
            with pytest.raises(armnet.ArmnetError, match=problem):
                armnet.evaluate(detector, annotations)

        refused("{", "cannot be read as JSON")
        refused("[]", "has no list 'images'")
        refused({"annotations": [{"image_id": 10, "category_id": 7, "bbox": [1, 2]}]}, "no bbox of four numbers")
        refused({"annotations": [{"image_id": 10, "category_id": 8, "bbox": [1, 2, 3, 4]}]}, "category_id is unknown")
        refused({"images": [{"id": 1, "file_name": "nowhere.png"}]}, "1 pictures are missing, such as nowhere.png")
        refused({"images": [{"id": 1, "file_name": "../val/0.png"}]}, "leads out of the folder")
        refused({"images": content["images"] * 2}, "the id 10 belongs to several")
        refused({"categories": [{"id": 7, "name": "wasp"}]}, "none of its categories")


class TestMasks:
    @pytest.fixture
    def segmenter(self) -> Any:
        """Class 3 in the right half of every picture, class 0 in the left one."""
        scores = np.zeros((1, 5, 64, 64))
        scores[0, 3, :, 32:] = 9.0
        return opened({"output": scores}, ["none", "a", "b", "c", "d"])

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        pictures(tmp_path / "voc" / "JPEGImages", 3)
        (tmp_path / "voc" / "SegmentationClass").mkdir()
        truth = np.zeros((HEIGHT, WIDTH), np.uint8)
        truth[:, 60:68] = 255  # where the halves meet, nothing counts
        Image.fromarray(truth).save(tmp_path / "voc" / "SegmentationClass" / "1.png")
        truth[:, 68:] = 3
        palette = Image.fromarray(truth, "P")
        palette.putpalette(list(range(256)) * 3)
        palette.save(tmp_path / "voc" / "SegmentationClass" / "0.png")
        return tmp_path / "voc"

    def test_intersections_are_those_of_the_pixels_that_count(self, segmenter: Any, folder: Path) -> None:
        said: List[str] = []
        evaluation = armnet.evaluate(segmenter, folder, notice=said.append)
        # In columns: class 0 is true in 180, said in 120, both in 120; class 3 true in 60, said in 120, both in 60.
        assert evaluation.metrics["miou"] == pytest.approx((120 / 180 + 60 / 120) / 2)
        assert evaluation.metrics["pixel_accuracy"] == pytest.approx(180 / 240)
        assert {row["class"]: row["iou"] for row in evaluation.results[0].scores.rows} == {"none": 2 / 3, "c": 0.5}
        assert "1 pictures are left out, because they have no mask" in said[0]
        ((example, _, fault),) = evaluation.faults()
        assert (example.name, fault.truth) == ("1.png", "none")
        assert render("masks", evaluation).count("data:image/") == 2

    def test_a_mask_of_another_size_is_skipped(self, segmenter: Any, folder: Path) -> None:
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "SegmentationClass" / "2.png")
        result = armnet.evaluate(segmenter, folder).results[0]
        assert list(result.skipped) == [2]
        assert "the mask has 4x4 pixels, the picture 128x96" in result.skipped[2]

    def test_255_is_the_class_of_masks_that_know_nothing_else(self, folder: Path, tmp_path: Path) -> None:
        outputs = {"mask": [("Sigmoid", np.where(np.arange(64) < 32, 9.0, -9.0) * np.ones((1, 1, 64, 1)))]}
        for name in ("0.png", "1.png"):
            truth = np.zeros((HEIGHT, WIDTH), np.uint8)
            truth[:, :64] = 255
            Image.fromarray(truth).save(folder / "SegmentationClass" / name)
        evaluation = armnet.evaluate(opened(outputs, ["background", "foreground"]), folder)
        assert evaluation.metrics["miou"] > 0.97


class TestSounds:
    @pytest.fixture
    def spotter(self) -> Any:
        """Hears "yes" in everything."""
        scores = [("Softmax", np.asarray([[-9.0, 9.0, -9.0]]))]
        return opened({"output": scores}, ["_silence_", "yes", "no"], shape=(1, 16000))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name in ("a", "b", "c"):
            with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                file.writeframes(np.zeros(16000, "<i2").tobytes())
        return tmp_path

    def test_a_list_of_sounds(self, spotter: Any, folder: Path) -> None:
        (folder / "sounds.txt").write_text("a.wav yes\nb.wav no\nc.wav silence\n")
        evaluation = armnet.evaluate(spotter, folder / "sounds.txt")
        assert evaluation.metrics["error_rate"] == pytest.approx(2 / 3)
        assert [(fault.truth, fault.said) for _, _, fault in evaluation.faults()] == [("no", "yes"), ("nothing", "yes")]
        (folder / "sounds.txt").write_text("a.wav maybe\n")
        with pytest.raises(armnet.ArmnetError, match="'maybe' is not one of the sounds that the model knows"):
            armnet.evaluate(spotter, folder / "sounds.txt")

    def test_a_folder_for_each_word(self, spotter: Any, folder: Path) -> None:
        for name, word in (("a", "yes"), ("b", "yes"), ("c", "no")):
            (folder / "words" / word).mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.wav").rename(folder / "words" / word / f"{name}.wav")
        assert armnet.evaluate(spotter, folder / "words").metrics["accuracy"] == pytest.approx(2 / 3)

    def test_the_wrong_data_for_a_model(self, spotter: Any, tmp_path: Path) -> None:
        np.savez(tmp_path / "data.npz", images=np.zeros((2, 16000), np.float32), labels=np.asarray([0, 1]))
        with pytest.raises(armnet.ArmnetError, match="the data holds classes, but the model gives sound events"):
            armnet.evaluate(spotter, tmp_path / "data.npz")


def test_outputs_that_may_be_anything_are_scores_where_the_data_tells_of_classes(tmp_path: Path) -> None:
    model = opened({"output": np.eye(10)[3:4]}, None)
    assert model.decoder.kind == "tensors"
    images = np.zeros((4, 64, 64, 3), np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.asarray([3, 3, 1, 3]))
    said: List[str] = []
    assert armnet.evaluate(model, tmp_path / "data.npz", notice=said.append).metrics["top1"] == 0.75
    assert any("taken as scores of classes" in line for line in said)


def test_lines_of_writing(tmp_path: Path) -> None:
    steps = np.full((1, 40, 38), -9.0)
    for step, index in enumerate([0, 8, 8, 0, 5, 5, 0, 0, 12, 0, 12, 15]):
        steps[0, step, index] = 9.0
    steps[0, 12:, 0] = 9.0
    reader = opened(
        {"softmax": [("Softmax", steps)]}, list("abcdefghijklmnopqrstuvwxyz0123456789"), shape=(1, 3, 48, 320)
    )
    pictures(tmp_path / "lines", 2)
    (tmp_path / "lines" / "list.tsv").write_text("0.png\thello\n1.png\thullo you\n")
    metrics = armnet.evaluate(reader, tmp_path / "lines" / "list.tsv").metrics
    assert metrics == {"error_rate": pytest.approx(5 / 14), "line_error_rate": 0.5}


@given(st.text("ab", max_size=5), st.text("ab", max_size=5))
def test_the_distance_of_texts_is_what_its_definition_says(one: str, other: str) -> None:
    def defined(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        same = defined(a[1:], b[1:]) + (a[0] != b[0])
        return min(same, defined(a[1:], b) + 1, defined(a, b[1:]) + 1)

    assert distance(one, other) == defined(one, other)
