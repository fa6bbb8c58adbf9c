"""The page, in Chromium without a window: uploads, the camera, what is drawn."""

from __future__ import annotations

import io
import time
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the server is Starlette's")
pytest.importorskip("uvicorn", reason="the server runs by uvicorn")
pytest.importorskip("python_multipart", reason="forms are read by python-multipart")
pytest.importorskip("PIL", reason="pictures need Pillow")
pytest.importorskip("onnx", reason="the networks are written as ONNX")

from PIL import Image

import armnet
from tests.support.chromium import Browser, chromium, program
from tests.support.http import served
from tests.support.paths import DEMO
from tests.support.scripted_nets import detections, scripted_net

pytestmark = pytest.mark.skipif(program() is None, reason="there is no Chromium: apt-get install chromium")
FOUND = "[...document.querySelectorAll('#found .label')].map((one) => one.textContent)"
LATENCY = "document.getElementById('latency').textContent"
PROBLEM = "document.getElementById('problem').textContent"
WIDTH, HEIGHT = 128, 96
WANTED = (20, 24, 84, 72)
BEE = (60, 180, 75)  # the colour of class 1


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """With a camera that shows a 7."""
    folder = tmp_path_factory.mktemp("chromium")
    frame = io.BytesIO()
    Image.open(DEMO / "pictures" / "digit_7.png").convert("RGB").resize((320, 320)).save(frame, "JPEG", quality=95)
    (folder / "camera.mjpeg").write_bytes(frame.getvalue() * 10)
    camera = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={folder / 'camera.mjpeg'}",
    ]
    with chromium(folder, camera) as running:
        running.resize(420, 850)
        yield running


def model(outputs: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shape = options.pop("shape", (1, 3, 64, 64))
        return armnet.open(armnet.export(scripted_net(outputs, shape)), threads=1, preprocessing="0..1", **options)


def pixel(browser: Browser, x: float, y: float) -> Any:
    """Red, green, blue and alpha of what is drawn over a place of the picture, given in its pixels."""
    return browser.value(
        "(() => { const c = document.getElementById('over');"
        f" const s = c.width / {WIDTH};"
        f" return [...c.getContext('2d').getImageData(Math.round({x} * s), Math.round({y} * s), 1, 1).data]; }})()"
    )


def test_a_picture_is_sent_and_read(browser: Browser, digits: Path, tmp_path: Path) -> None:
    with armnet.open(digits, threads=1) as opened, served(opened) as server:
        browser.go(server.url)
        browser.wait("about !== null")
        assert browser.value("document.getElementById('name').textContent") == "a model"
        browser.choose("#picture", DEMO / "pictures" / "digit_3.png")
        browser.wait(f"{FOUND}.length === 5")
        assert browser.value(f"{FOUND}[0]") == "3"
        assert browser.value("document.getElementById('unnamed').hidden")
        assert " ms: model " in browser.value(LATENCY)
        (tmp_path / "broken.png").write_bytes(b"no picture")
        browser.choose("#picture", tmp_path / "broken.png")
        browser.wait(f"{PROBLEM}.includes('no picture of a format that Pillow knows')")
        assert browser.value(f"{FOUND}.length") == 0
        assert browser.value("document.getElementById('shown').hidden && document.getElementById('latency').hidden")
        assert browser.value("document.querySelector('#curl') !== null && !document.querySelector('#camera').hidden")


def test_the_camera_is_watched_until_it_is_stopped(browser: Browser, digits: Path) -> None:
    with armnet.open(digits, threads=1) as opened, served(opened) as server:
        browser.go(server.url)
        browser.wait("about !== null")
        browser.value("document.getElementById('camera').click()")
        browser.wait(f"{FOUND}[0] === '7'")
        browser.wait(f"{LATENCY}.includes(' a second')")
        first = server.ask("health")[1]["answered"]
        deadline = time.monotonic() + 30
        while server.ask("health")[1]["answered"] <= first:
            assert time.monotonic() < deadline, "no picture of the camera was answered any more"
            time.sleep(0.05)
        browser.value("document.getElementById('camera').click()")
        browser.wait("stream === null && document.getElementById('video').hidden")


def test_boxes_are_drawn_where_they_are(browser: Browser, tmp_path: Path) -> None:
    Image.new("RGB", (WIDTH, HEIGHT), "grey").save(tmp_path / "grey.png")
    with model(detections(WANTED, WIDTH, HEIGHT), labels=["ant", "bee", "cow"]) as opened, served(opened) as server:
        browser.go(server.url)
        browser.wait("about !== null")
        browser.choose("#picture", tmp_path / "grey.png")
        browser.wait(f"{FOUND}[0] === 'bee' && !document.getElementById('over').hidden")
        for x, y in ((20, 50), (84, 50), (50, 72)):
            assert tuple(pixel(browser, x, y)) == (*BEE, 255)
        assert pixel(browser, 50, 50)[3] == 0
        assert pixel(browser, 100, 50)[3] == 0
        seen = np.asarray(Image.open(io.BytesIO(browser.picture())).convert("RGB"))
        assert (np.abs(seen.astype(int) - BEE).sum(axis=2) < 30).sum() > 1000  # lines, label and legend


def test_labels_do_not_cover_each_other(browser: Browser) -> None:
    places = browser.value(
        "(() => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 200;"
        " const box = { box: [50, 60, 150, 120], index: 0, label: 'bee', score: 0.5 }; const taken = [];"
        " const context = canvas.getContext('2d');"
        " for (let count = 0; count < 6; count += 1) paintLabel(context, box, 1, 1, taken, [[100, 90]]);"
        " return taken.map((one) => one.foot); })()"
    )
    assert places == [60, 138, 78, 120]  # above the box, below it, twice inside; the others find no room


def test_masks_are_laid_over_the_picture(browser: Browser, tmp_path: Path) -> None:
    scores = np.zeros((1, 5, 64, 64))
    scores[0, 3, :, 32:] = 9.0
    Image.new("RGB", (WIDTH, HEIGHT), "grey").save(tmp_path / "grey.png")
    with model({"output": scores}) as opened, served(opened) as server:
        browser.go(server.url)
        browser.wait("about !== null")
        browser.choose("#picture", tmp_path / "grey.png")
        browser.wait("!document.getElementById('over').hidden")
        assert pixel(browser, 30, 50)[3] == 0
        assert 100 < pixel(browser, 100, 50)[3] < 180
        assert not browser.value("document.getElementById('unnamed').hidden")


def test_a_sound_is_heard_and_a_token_asked_for(browser: Browser, tmp_path: Path) -> None:
    import wave

    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((2, 2, 44100, 0, "NONE", ""))
        file.writeframes(np.zeros((44100, 2), "<i2").tobytes())
    spotter = {"output": [("Softmax", np.asarray([[-9.0, 9.0, -9.0]]))]}
    labels = ["_silence_", "yes", "no"]
    with model(spotter, shape=(1, 16000), labels=labels) as opened, served(opened, token="secret") as server:
        browser.go(server.url)
        browser.wait("!document.getElementById('login').hidden")
        assert browser.value("document.getElementById('sounds').hidden")
        browser.go(f"{server.url}?x#token=secret")
        browser.wait("about !== null && !document.getElementById('sounds').hidden")
        assert browser.value("location.hash") == ""
        browser.choose("#sound", tmp_path / "sound.wav")
        browser.wait(f"{FOUND}.length === 1 && !document.getElementById('timeline').hidden")
        assert browser.value(f"{FOUND}[0]").startswith("yes, 0.00 s")


def test_arrays_are_typed(browser: Browser) -> None:
    with model({"output": np.zeros((1, 7))}, shape=(1, 3)) as opened, served(opened) as server:
        browser.go(server.url)
        browser.wait("about !== null && !document.getElementById('arrays').hidden")
        browser.value("document.getElementById('json').value = '{\"inputs\": {\"data\": [[1, 2, 3]]}}'")
        browser.value("document.getElementById('send').click()")
        browser.wait(f"{FOUND}.length === 1")
        assert "float32 1x7" in browser.value(f"{FOUND}[0]")


def test_nothing_in_the_page_fails_or_breaks_its_policy(browser: Browser) -> None:
    """What the tests before it made the console say: refusals that they asked for, and nothing else."""
    assert [line for line in browser.said if "status of 4" not in line] == []


def test_the_files_of_the_page_come_with_the_package() -> None:
    from armnet.serving.application import STATIC

    assert {path.name for path in STATIC.iterdir()} == {"index.html", "page.css", "page.js"}
