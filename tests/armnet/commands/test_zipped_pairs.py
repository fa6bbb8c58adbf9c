"""Commands on pairs in zip files: they take them and write them as they do folders."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from armnet.model_files import check_pair_output
from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair
from tests.support.commands import Armnet
from tests.support.paths import DEMO, ROOT

PICTURE, HELD_BACK = DEMO / "pictures" / "digit_7.png", DEMO / "held_back.npz"


@pytest.fixture
def zipped(digits: Path, tmp_path: Path) -> Path:
    """The demo's pair as a zip file."""
    Pair.load(digits).save(tmp_path / "digits.zip")
    return tmp_path / "digits.zip"


def nbytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("run", "PAIR", "--input", PICTURE, "--json"),
        ("inspect", "PAIR", "--json"),
        ("evaluate", "PAIR", HELD_BACK, "--json"),
        ("describe", "PAIR", "--json"),
        ("compare", DEMO / "digits.onnx", "PAIR", "--json"),
        ("compare", "PAIR", "PAIR", "--json"),
        ("support", "PAIR", "--json"),
    ],
)
def test_commands_say_of_a_zip_file_what_they_say_of_its_folder(
    armnet: Armnet, digits: Path, zipped: Path, tmp_path: Path, words: tuple[object, ...]
) -> None:
    folder = tmp_path / "digits"
    shutil.copytree(digits, folder)
    of_folder, of_zip = (armnet(*(pair if word == "PAIR" else word for word in words)) for pair in (folder, zipped))
    assert of_zip[0] == of_folder[0]
    assert _plain(of_zip[1]) == _plain(of_folder[1])
    assert len(of_zip[2].splitlines()) == len(of_folder[2].splitlines())


def _plain(out: str) -> str:
    """JSON without times and names of files."""
    return "\n".join(line for line in out.replace("digits.zip", "digits").splitlines() if "seconds" not in line)


@pytest.mark.parametrize(
    "words", [("optimize",), ("quantize",), ("quantize", "--activations", "dynamic"), ("export", "--to", "caffe2")]
)
def test_commands_write_a_zip_file_of_what_they_write_as_a_folder(
    armnet: Armnet, zipped: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for name in ("made", "made.zip"):
        status, _, err = armnet(words[0], zipped, *words[1:], "-o", tmp_path / name)
        assert status == 0, err
    with zipfile.ZipFile(tmp_path / "made.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()
        }


def test_like_is_compared_with_like(armnet: Armnet, digits: Path, zipped: Path, tmp_path: Path) -> None:
    """The bytes that quantize tells, from and to a folder and a zip file."""
    after = {}
    for given in (digits, zipped):
        for name in ("small", "small.zip"):
            status, out, _ = armnet("quantize", given, "-o", tmp_path / name, "--json")
            assert status == 0
            after[given.name, name] = json.loads(out)
    folders = {"before": nbytes(digits), "after": nbytes(tmp_path / "small")}
    zips = {"before": zipped.stat().st_size, "after": (tmp_path / "small.zip").stat().st_size}
    for given in (digits.name, zipped.name):
        assert (after[given, "small"]["files_nbytes"], after[given, "small"]["unzipped_nbytes"]) == (folders, None)
        assert (after[given, "small.zip"]["files_nbytes"], after[given, "small.zip"]["unzipped_nbytes"]) == (
            zips,
            folders,
        )
    assert ", zipped both; " in armnet("quantize", zipped, "-o", tmp_path / "small.zip")[1]


def test_what_is_known_of_a_pair_is_changed_in_its_file(armnet: Armnet, zipped: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("".join(f"n{number}\n" for number in range(10)))
    assert armnet("describe", zipped, "--labels", tmp_path / "names.txt")[0] == 0
    assert Pair.load(zipped).meta["labels"][3] == "n3"
    _, _, err = armnet("export", DEMO / "digits.onnx", "-o", zipped)
    assert "of the pair that was there kept" in err
    assert Pair.load(zipped).meta["labels"][3] == "n3"


def test_a_pair_that_is_taught_remembers_in_its_file(armnet: Armnet, zipped: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for name, pictures in (("first", "0123"), ("second", "4567"), ("third", "89")):
        place = tmp_path / ("more" if name == "third" else "data") / name
        place.mkdir(parents=True)
        for digit in pictures * 3:
            shutil.copy(DEMO / "pictures" / f"digit_{digit}.png", place / f"{draw.integers(1 << 30)}.png")
    words = ("--augment", "none", "--epochs", "3", "--hold-out", "0.3")
    taught = tmp_path / "taught.zip"
    assert armnet("teach", zipped, "--data", tmp_path / "data", "-o", taught, *words)[0] == 0
    with zipfile.ZipFile(taught) as archive:
        assert "taught.npz" in archive.namelist()
    status, _, err = armnet(
        "teach", taught, "--data", tmp_path / "more", "--add-class", "-o", tmp_path / "all.zip", *words
    )
    assert status == 0, err
    assert Pair.load(tmp_path / "all.zip").meta["labels"] == ["first", "second", "third"]
    status, _, err = armnet("teach", zipped, "--data", tmp_path / "more", "--add-class", "-o", taught, *words)
    assert (status, len(err.splitlines())) == (2, 1)


def test_files_that_are_no_pair_are_not_replaced(armnet: Armnet, zipped: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos.zip"
    with zipfile.ZipFile(photos, "w") as archive:
        archive.write(PICTURE, "7.png")
    before = photos.read_bytes()
    for output in (photos, PICTURE, zipped / "inside.zip"):
        status, _, err = armnet("optimize", zipped, "-o", output)
        assert (status, len(err.splitlines())) == (2, 1)
    assert photos.read_bytes() == before


def test_a_folder_whose_name_ends_with_zip_is_refused_before_the_work_begins(zipped: Path, tmp_path: Path) -> None:
    Pair.load(zipped).save(tmp_path / "pair")
    (tmp_path / "pair").rename(tmp_path / "pair.zip")
    with pytest.raises(UsageError, match=r"pair\.zip: is a folder; name a file"):
        check_pair_output(tmp_path / "pair.zip")


def test_mistakes_are_one_line(armnet: Armnet, zipped: Path, tmp_path: Path) -> None:
    whole = zipped.read_bytes()
    changed = bytes([whole[5000] ^ 1])
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"?")
    for name, content, told in (
        ("cut.zip", whole[:-100], "damaged zip archive"),
        ("other.zip", whole[:5000] + changed + whole[5001:], "init_net.pb: is damaged"),
        ("model.pt", (tmp_path / "model.pt").read_bytes(), "a PyTorch file"),
        ("pair.zip", None, "no such file"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        for command in (("run", "--input", PICTURE), ("inspect",)):
            status, _, err = armnet(command[0], tmp_path / name, *command[1:])
            assert (status, len(err.splitlines())) == (2, 1), err
            assert told in err
    status, _, err = armnet("export", zipped, "-o", tmp_path / "again")
    assert (status, "digits.zip is a pair already" in err) == (2, True)


def test_the_runtime_alone_runs_a_zip_file(zipped: Path) -> None:
    command = [sys.executable, "-m", "runtime_arm", zipped, PICTURE, "--top", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "7"
    done = subprocess.run([*command[:4], "--self-test"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
