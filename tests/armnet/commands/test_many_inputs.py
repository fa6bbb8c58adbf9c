"""Many inputs of every sort, whole and damaged: one line for each that is skipped, and memory that does not grow."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from armnet import console
from runtime_arm.app.pictures import MAX_PIXELS
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO, ROOT

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")

SEVEN = DEMO / "pictures" / "digit_7.png"


def grey() -> Any:
    with Image.open(SEVEN) as picture:
        return picture.convert("L").resize((64, 64))


def save_readable(folder: Path) -> List[str]:
    """Pictures of a seven in every form that can be read; their names."""
    seven = grey()
    pixels = np.asarray(seven)
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was turned to the right
    Image.fromarray((pixels.astype(np.uint16) << 8) + 7).save(folder / "deep.png")
    seven.convert("RGB").convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    seven.save(folder / "animated.gif", save_all=True, append_images=[seven.rotate(90)], duration=100)
    seven.convert("RGB").save(
        folder / "animated.webp", save_all=True, append_images=[seven.convert("RGB")], lossless=True
    )
    seven.convert("P").save(folder / "palette.png")
    seven.convert("RGBA").save(folder / "alpha.png")
    seven.rotate(90, expand=True).convert("RGB").save(folder / "turned.jpg", exif=turned, quality=95)
    return sorted(path.name for path in folder.iterdir())


def save_damaged(folder: Path) -> Dict[str, str]:
    """Files that are no pictures; what must be said about each."""
    noise = np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)
    Image.fromarray(noise).save(folder / "whole.jpg")
    content = (folder / "whole.jpg").read_bytes()
    (folder / "whole.jpg").unlink()
    (folder / "cut.jpg").write_bytes(content[: len(content) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "words.png").write_text("a text and no picture")
    Image.fromarray(np.zeros((8, 8), np.float32)).save(folder / "floats.tiff")
    header = b"P5\n20000 20000\n255\n"  # what follows is never read
    (folder / "huge.pgm").write_bytes(header + bytes(100))
    return {
        "cut.jpg": "truncated",
        "empty.jpg": "no picture",
        "words.png": "no picture",
        "floats.tiff": "mode F",
        "huge.pgm": str(MAX_PIXELS),
    }


@pytest.mark.parametrize("name", ["found.xml", "found.json", "drawn.PNG"])
def test_results_are_not_written_as_what_they_are_not(armnet: Armnet, digits: Path, tmp_path: Path, name: str) -> None:
    refused(
        armnet("run", digits, SEVEN, "--output", tmp_path / name), name, "results are written as .npz, .jsonl, .csv"
    )


def test_a_folder_of_every_sort_of_picture(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    readable, damaged = save_readable(tmp_path), save_damaged(tmp_path)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:  # the net takes none: not searched for
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(bytes(320))
    results, table, stacked = (tmp_path / f"results.{suffix}" for suffix in ("jsonl", "csv", "npz"))
    for target in (results, table, stacked):
        status, out, err = armnet("run", digits, tmp_path, "--top", 1, "--output", target)
        assert status == 1
        assert "Traceback" not in err
        told = [line for line in err.splitlines() if line.startswith("armnet: skipped: ")]
        assert len(told) == len(damaged)
        for name, problem in damaged.items():
            (line,) = (line for line in told if name in line)
            assert problem in line
        assert err.splitlines()[-1] == f"armnet: {len(damaged)} of {len(damaged) + len(readable)} inputs were skipped"
        assert [line.split()[-1] for line in out.splitlines()[1::2]] == ["7"] * len(readable)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [Path(line["input"]).name for line in lines] == readable
    assert {line["classes"][0]["label"] for line in lines} == {"7"}
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [Path(row["input"]).name for row in rows] == readable
    assert np.load(stacked)["probabilities"].shape == (len(readable), 1, 10)


def test_a_damaged_input_alone_is_a_mistake_in_one_line(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    for name, problem in save_damaged(tmp_path).items():
        refused(armnet("run", digits, tmp_path / name), name, problem)
    (tmp_path / "words.wav").write_text("no sound")
    refused(
        armnet("run", digits, tmp_path / "words.wav"),
        "words.wav: a sound, but the net is not known to take one; it takes image",
    )
    refused(armnet("run", digits, tmp_path / "*.bmp"), "no file fits this pattern")
    (tmp_path / "nothing").mkdir()
    refused(armnet("run", digits, tmp_path / "nothing"), "holds no picture, video or .npz")
    refused(armnet("run", digits, SEVEN, "--draw", tmp_path / "words.wav"), "words.wav", "File exists")
    refused(armnet("run", digits, SEVEN, "--every", 0), "--every must be 1 or more")
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\xfd")
    refused(armnet("run", digits, SEVEN, "--labels", tmp_path / "labels.txt"), "labels.txt", "UTF-8")
    refused(armnet("run", digits, SEVEN, "--labels", tmp_path / "none.txt"), "none.txt", "No such file")
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    refused(armnet("run", digits, SEVEN, "--labels", tmp_path / "labels.txt"), "has 2 labels, the net has 10 classes")


def test_a_picture_of_one_pixel_is_a_picture(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    Image.new("L", (1, 1), 128).save(tmp_path / "one.png")
    status, out, _ = armnet("run", digits, tmp_path / "one.png", "--json")
    assert status == 0
    assert json.loads(out)["runs"][0]["result"]["kind"] == "classes"


def test_large_pictures_cause_no_warnings(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    Image.new("1", (10000, 10000)).save(tmp_path / "large.png")
    status, _, err = armnet("run", digits, tmp_path / "large.png")
    assert status == 0
    assert "Warning" not in err


def test_patterns_and_standard_input_are_inputs(digits: Path, tmp_path: Path) -> None:
    def run(*words: object, given: bytes = b"") -> Any:
        command = [sys.executable, "-m", "armnet", "run", str(digits), *map(str, words), "--top", "1"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, input=given, capture_output=True, check=False, cwd=DEMO, env=env)

    done = run("pictures/digit_[37].png")
    assert done.stdout.split()[::3] == [b"pictures/digit_3.png", b"pictures/digit_7.png"]
    done = run("-", given=SEVEN.read_bytes())
    assert done.stdout.split()[-1] == b"7"
    done = run("-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"armnet: -: standard input is empty; send a picture or a sound through it\n"


def test_a_video_is_answered_frame_by_frame(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="videos need PyAV")
    clip = tmp_path / "clip.mp4"
    with av.open(str(clip), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for _ in range(5):
            frame = av.VideoFrame.from_ndarray(np.asarray(grey().convert("RGB")), format="rgb24")
            for packet in [*stream.encode(frame)]:
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    status, out, err = armnet("run", digits, clip, "--every", 2, "--top", 1, "--draw", tmp_path / "drawn")
    assert status == 0, err
    assert out.split()[::3] == [f"{clip}#{number}" for number in (0, 2, 4)]
    assert set(out.split()[2::3]) == {"7"}
    assert len(list((tmp_path / "drawn").iterdir())) == 3
    clip.write_bytes(b"no video")
    status, out, err = armnet("run", digits, clip)
    assert (status, out, len(err.splitlines())) == (1, "", 1)
    assert "clip.mp4: cannot be read as a video" in err


def test_progress_tells_rate_and_time_left(armnet: Armnet, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "INTERVAL", 0.0)
    _, _, err = armnet("run", digits, DEMO / "pictures")
    assert "a second, 0 s left, 10 of 10" in err


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc, which is not here")
def test_memory_does_not_grow_over_a_thousand_pictures(digits: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture = np.random.default_rng(0).integers(0, 255, (96, 128, 3), np.uint8)
    Image.fromarray(picture).save(tmp_path / "one.png")
    for number in range(1000):
        os.link(tmp_path / "one.png", folder / f"{number:03}.png")
    program = f"""
import sys
from runtime_arm.app import answering
from armnet.__main__ import main
pages, held = [], answering.Model.answers
def answers(self, x, *options):
    pages.append(int(open("/proc/self/statm").read().split()[1]))
    return held(self, x, *options)
answering.Model.answers = answers
status = main(["run", {str(digits)!r}, {str(folder)!r}, "--output", {str(tmp_path / "all.npz")!r}, "--threads", "1"])
print(status, len(pages), pages[100], pages[-1], file=sys.stderr)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    status, count, early, late = map(int, done.stderr.split()[-4:])
    assert (status, count) == (0, 1000)
    assert (late - early) * os.sysconf("SC_PAGE_SIZE") < 4 << 20  # 900 pictures of 37 kB were read meanwhile
    assert np.load(tmp_path / "all.npz")["probabilities"].shape == (1000, 1, 10)
