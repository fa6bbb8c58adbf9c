"""Evaluating classifiers: from Python and as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import armnet as package
from tests.support.commands import Armnet, refused
from tests.support.interpreter import NUMPY_ALONE, python
from tests.support.paths import DEMO

HELD_BACK = DEMO / "held_back.npz"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder for each digit, with its picture."""
    for picture in (DEMO / "pictures").glob("*.png"):
        folder = tmp_path / "photos" / picture.stem.split("_")[1]
        folder.mkdir(parents=True)
        shutil.copy(picture, folder)
    return tmp_path / "photos"


def test_the_digits_are_read_as_the_demo_says(armnet: Armnet, digits: Path) -> None:
    status, out, err = armnet("evaluate", digits, HELD_BACK, "--json", "--must", "top1=0.997", "top5=99%")
    assert status == 0, err
    facts = json.loads(out)
    (place,) = facts["places"]
    assert place["metrics"] == {"top1": 359 / 360, "top5": 1.0}
    (wrong,) = facts["wrong"]
    counts = np.asarray(facts["confusion"]["counts"])
    assert counts.sum() == 360
    assert np.trace(counts) == 359
    assert counts[int(wrong["truth"]), int(wrong["answer"].split()[0])] == 1
    labels = np.load(HELD_BACK)["labels"]
    assert str(labels[int(wrong["example"][7:-1])]) == wrong["truth"]
    text = armnet("evaluate", digits, HELD_BACK)[1]
    assert "99.72%" in text.splitlines()[2]


def test_a_broken_bound_is_status_1_and_says_so(armnet: Armnet, digits: Path) -> None:
    status, _, err = armnet("evaluate", digits, HELD_BACK, "--must", "top1=0.998")
    assert status == 1
    assert err.splitlines()[-1] == "armnet: here: top1 is 0.997222, must be >= 0.998"


def test_a_program_asks_for_the_numbers(digits: Path) -> None:
    evaluation = package.evaluate(digits, HELD_BACK, most=50)
    assert len(evaluation.results[0].findings) == 50
    assert evaluation.metrics["top1"] >= 0.98
    source = package.evaluate(DEMO / "digits.onnx", HELD_BACK)
    assert source.metrics["top1"] == 359 / 360
    assert [fault.truth for _, _, fault in source.faults()] == ["class 9"]


def test_a_folder_for_each_class(armnet: Armnet, digits: Path, photos: Path) -> None:
    status, out, err = armnet("evaluate", digits, photos, "--json")
    assert status == 0
    assert json.loads(out)["places"][0]["metrics"]["top1"] == 1.0
    assert "10 files of 10 classes" in err
    (photos / "7" / "broken.png").write_bytes(b"no picture")
    status, out, err = armnet("evaluate", digits, photos, "--json")
    assert status == 1
    assert json.loads(out)["places"][0]["examples"] == 10
    assert "7/broken.png: cannot be read as a picture" in err
    assert "1 of 11 examples were skipped" in err
    (photos / "7").rename(photos / "seven")
    refused(armnet("evaluate", digits, photos), "'seven': no class of the model", "'0', '1'")


def test_names_of_classes_are_numbers_or_in_order_where_the_model_has_no_labels(digits: Path, photos: Path) -> None:
    pair = package.Pair.load(digits)
    pair = pair.replace(meta={**pair.meta, "labels": None})
    assert package.evaluate(pair, photos).metrics["top1"] == 1.0
    for number, name in enumerate(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]):
        (photos / str(number)).rename(photos / name)
    said = []
    assert package.evaluate(pair, photos, notice=said.append).metrics["top1"] == 1.0
    assert any("in the order of names" in line for line in said)
    (photos / "j").rename(photos.parent / "away")
    with pytest.raises(package.ArmnetError, match="must be classes of a model without labels"):
        package.evaluate(pair, photos)


def test_images_in_other_forms(digits: Path, tmp_path: Path) -> None:
    held_back = np.load(HELD_BACK)
    images, labels = held_back["images"][:60], held_back["labels"][:60]
    np.savez(tmp_path / "flat.npz", images=images[:, 0].astype(np.float64), labels=labels.astype(str))
    assert package.evaluate(digits, tmp_path / "flat.npz").metrics["top1"] >= 0.98
    pixels = np.rint(images[:, 0] * 255).astype(np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    np.savez(tmp_path / "pixels.npz", images=pixels, labels=labels)
    assert package.evaluate(digits, tmp_path / "pixels.npz").metrics["top1"] >= 0.98


def test_a_list_of_files(armnet: Armnet, digits: Path, photos: Path) -> None:
    lines = ["file,class", "1/digit_1.png,1", "2/digit_2.png,2", "3/digit_3.png,4"]
    (photos / "list.csv").write_text("\n".join(lines))
    status, out, _ = armnet("evaluate", digits, photos / "list.csv", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["places"][0]["metrics"]["top1"] == pytest.approx(2 / 3)
    assert [wrong["example"] for wrong in facts["wrong"]] == ["3/digit_3.png"]


def test_the_page_shows_what_went_wrong(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need Pillow")
    page = tmp_path / "wrong.html"
    assert armnet("evaluate", digits, HELD_BACK, "--html", page)[0] == 0
    content = page.read_text(encoding="utf-8")
    assert content.count('src="data:image/png;base64,') == 1
    assert "99.72%" in content
    assert "<script" not in content
    assert "http" not in content.partition("</head>")[2]


def test_with_numpy_alone(digits: Path) -> None:
    program = f"""{NUMPY_ALONE}
import armnet
print(armnet.evaluate({str(digits)!r}, {str(HELD_BACK)!r}, most=40).metrics["top1"])
"""
    assert float(python(program)) >= 0.97


class TestRefusals:
    """Each is one line and exit status 2."""

    def test_bounds(self, armnet: Armnet, digits: Path) -> None:
        refused(armnet("evaluate", digits, HELD_BACK, "--must", "top2=0.9"), "'top2=0.9'", "top1, top5, map")
        refused(armnet("evaluate", digits, HELD_BACK, "--must", "top1=97"), "from 0 to 1")
        refused(armnet("evaluate", digits, HELD_BACK, "--must", "top1=high"), "'high' is no number")
        refused(armnet("evaluate", digits, HELD_BACK, "--must", "top1"), "METRIC=NUMBER, got 'top1'")

    def test_a_metric_that_is_not_measured(self, armnet: Armnet, digits: Path) -> None:
        status, out, err = armnet("evaluate", digits, HELD_BACK, "--must", "map=0.5")
        assert (status, out) == (2, "")
        assert err.splitlines()[-1] == "armnet: --must map: is not measured here; measured are top1, top5"

    def test_data(self, armnet: Armnet, digits: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04" + bytes(40))
        (tmp_path / "list.csv").write_text("a,b,c\n")
        (tmp_path / "alone.txt").write_text("a.png 1\nb.png\n")
        refused(armnet("evaluate", digits, tmp_path / "alone.txt"), "'b.png' is alone on its line")
        np.savez(tmp_path / "other.npz", data=np.zeros(3))
        np.savez(tmp_path / "shape.npz", images=np.zeros((3, 9, 9), np.float32), labels=np.zeros(3, int))
        np.savez(tmp_path / "many.npz", images=np.zeros((3, 8, 8), np.float32), labels=np.asarray([1, 2, 11]))
        np.savez(tmp_path / "fewer.npz", images=np.zeros((3, 8, 8), np.float32), labels=np.zeros(2, int))
        refused(armnet("evaluate", digits, tmp_path / "nowhere"), "nowhere: there is no such file")
        refused(armnet("evaluate", digits, tmp_path / "empty"), "a folder for each class")
        refused(armnet("evaluate", digits, tmp_path / "noise.npz"), "noise.npz: cannot be read")
        refused(armnet("evaluate", digits, tmp_path / "list.csv"), "a line must be a file and its true class")
        refused(armnet("evaluate", digits, tmp_path / "other.npz"), "has no array 'images'")
        refused(armnet("evaluate", digits, tmp_path / "shape.npz"), "image float32 (batch, 1, 8, 8)")
        refused(armnet("evaluate", digits, tmp_path / "many.npz"), "labels from 1 to 11", "10 classes")
        refused(armnet("evaluate", digits, tmp_path / "fewer.npz"), "differ in number")
        refused(armnet("evaluate", digits, DEMO / "digits.onnx"), "is not a data set that armnet knows")
