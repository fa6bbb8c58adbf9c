"""What the server answers to programs, over HTTP."""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the server is Starlette's")
pytest.importorskip("uvicorn", reason="the server runs by uvicorn")
pytest.importorskip("python_multipart", reason="forms are read by python-multipart")
pytest.importorskip("PIL", reason="pictures need Pillow")

from PIL import Image

import armnet
from armnet.serving.openapi import RESULTS
from armnet.serving.replies import finite
from runtime_arm import results
from runtime_arm.app.model import Model
from tests.support.http import Client, served
from tests.support.paths import DEMO
from tests.support.scripted_nets import scripted_net

PICTURES = {n: (DEMO / "pictures" / f"digit_{n}.png").read_bytes() for n in range(10)}


@pytest.fixture(scope="module")
def model(digits: Path) -> Iterator[Model]:
    with armnet.open(digits, threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(model: Model) -> Iterator[Client]:
    with served(model, most_bytes=1 << 20, most_pixels=1 << 20) as running:
        yield running


def opened(outputs: Dict[str, Any], **options: Any) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return armnet.open(armnet.export(scripted_net(outputs)), threads=1, preprocessing="0..1", **options)


def form(name: str, content: bytes) -> Dict[str, Any]:
    """A form with a file."""
    head = f'--edge\r\nContent-Disposition: form-data; name="{name}"; filename="x"\r\n\r\n'.encode()
    return {"body": head + content + b"\r\n--edge--\r\n", "Content_Type": "multipart/form-data; boundary=edge"}


def best(said: Dict[str, Any]) -> str:
    return str(said["result"]["classes"][0]["label"])


def test_a_picture_in_the_body_or_in_a_form(client: Client, model: Model) -> None:
    for n in (3, 7):
        status, said = client.ask("predict", PICTURES[n])
        assert status == 200
        assert said["result"] == model.predict(PICTURES[n]).to_dict()
        assert best(said) == str(n)
        assert said["picture"] == {"width": 64, "height": 64}
        assert 0 < said["seconds"] < 10
        assert client.ask("predict", **form("file", PICTURES[n]))[1]["result"] == said["result"]
    status, said = client.ask("predict?top=2&outputs=1&score=0.5", PICTURES[1])
    assert len(said["result"]["classes"]) == 2
    assert np.argmax(said["outputs"]["probabilities"]) == 1


def test_arrays(client: Client) -> None:
    images = np.load(DEMO / "held_back.npz")["images"][:3]
    wanted = client.ask(
        "predict", json.dumps({"inputs": {"image": images[:1].tolist()}}).encode(), Content_Type="application/json"
    )[1]
    for save, given in ((np.save, images[:1]), (lambda file, x: np.savez_compressed(file, image=x), images[:1])):
        content = io.BytesIO()
        save(content, given)  # type: ignore[operator]
        status, said = client.ask("predict", content.getvalue())
        assert status == 200
        assert said["result"] == wanted["result"]
    content = io.BytesIO()
    np.save(content, images)
    said = client.ask("predict?outputs=1", content.getvalue())[1]
    assert [one["kind"] for one in said["results"]] == ["classes"] * 3
    assert np.asarray(said["outputs"]["probabilities"]).shape == (3, 1, 10)


def test_about_health_and_description(client: Client) -> None:
    status, about = client.ask("model")
    assert (status, about["kind"], about["takes"], about["labels"]) == (200, "classes", "picture", 10)
    assert about["limits"] == {"bytes": 1 << 20, "pixels": 1 << 20}
    before = client.ask("health")[1]["answered"]
    client.ask("predict", PICTURES[1])
    assert client.ask("health")[1] == {"status": "ok", "waiting": 0, "answered": before + 1}
    document = client.ask("openapi.json")[1]
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {"/predict", "/model", "/health"}
    said = client.ask("predict?outputs=1&overlay=1", PICTURES[1])[1]
    answer = document["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(answer["required"]) <= set(said) <= set(answer["properties"])
    schema = document["components"]["schemas"]["Result"]["properties"]
    assert set(said["result"]) <= set(schema)
    kinds = {getattr(results, name).kind for name in results.__all__ if hasattr(getattr(results, name), "kind")}
    assert set(RESULTS) == kinds


@pytest.mark.parametrize(
    ("body", "headers", "status", "problem"),
    [
        (b"", {}, 422, "the request is empty"),
        (b"nonsense", {}, 422, "no picture of a format that Pillow knows"),
        (PICTURES[1][:60], {}, 422, "cannot be read as a picture"),
        (b"{", {"Content_Type": "application/json"}, 422, "not JSON"),
        (b"[" * 100000, {"Content_Type": "application/json"}, 422, "not JSON"),
        (b"[]", {"Content_Type": "application/json"}, 422, "JSON must be"),
        (b'{"inputs": {"other": [1]}}', {"Content_Type": "application/json"}, 422, "no input 'other'; the net takes"),
        (b'{"inputs": {"image": [[1], [2, 3]]}}', {"Content_Type": "application/json"}, 422, "no array of float32"),
        (b'{"inputs": {"image": [1]}}', {"Content_Type": "application/json"}, 422, "4 dimensions"),
        (b"\x93NUMPY\x01\x00nonsense", {}, 422, "cannot be read as arrays"),
        (b"x" * ((1 << 20) + 1), {}, 413, "more than 1048576 bytes"),
    ],
    ids=range(11),
)
def test_bodies_that_are_refused(
    client: Client, body: bytes, headers: Dict[str, str], status: int, problem: str
) -> None:
    answered, said = client.ask("predict", body, **headers)
    assert (answered, list(said)) == (status, ["error"])
    assert problem in said["error"]
    assert client.ask("predict", PICTURES[4])[0] == 200


def test_forms_without_a_file_and_pickles_are_refused(client: Client) -> None:
    assert client.ask("predict", **form("other", b"x")) == (422, {"error": "the form has no file in its field 'file'"})
    content = io.BytesIO()
    np.save(content, np.asarray([print], object), allow_pickle=True)
    assert client.ask("predict", content.getvalue())[0] == 422


def test_pictures_and_archives_that_unpack_to_too_much_are_refused(client: Client) -> None:
    def chunk(name: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")

    header = (20000).to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    status, said = client.ask("predict", picture)
    assert status == 413
    assert "pixels" in said["error"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", bytes(64 << 20))
    status, said = client.ask("predict", packed.getvalue())
    assert status == 413
    assert "unpacks to" in said["error"]


def test_questions_that_make_no_sense(client: Client) -> None:
    for query, problem in (
        ("size=3", "no parameter 'size'; there are top, score, overlay, outputs"),
        ("top=many", "must be numbers"),
        ("top=0", "1 or more"),
        ("score=nan", "score a number"),
        ("overlay=yes", "overlay and outputs 0 or 1"),
    ):
        status, said = client.ask(f"predict?{query}", PICTURES[1])
        assert status == 400
        assert problem in said["error"]
    assert client.ask("predict")[0] == 405
    assert client.ask("nowhere")[0] == 404
    assert client.ask("../../setup.py")[0] == 404


def test_a_page_of_a_stranger_does_not_reach_a_local_server(model: Model) -> None:
    with served(model, hosts=["127.0.0.1"]) as running:
        assert running.ask("model")[0] == 200
        request = urllib.request.Request(running.url + "model", headers={"Host": "stranger.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(request, timeout=10)


def test_the_token_is_asked_for(model: Model) -> None:
    with served(model, token="secret-1") as running:
        assert running.ask("predict", PICTURES[1])[0] == 200
        stranger = Client(running.url)
        for path in ("model", "health", "openapi.json"):
            assert stranger.ask(path) == (401, {"error": "the token is missing or wrong"})
        for given in ("", "Bearer", "Bearer secret-2", "Basic secret-1", "Bearer \u00e4"):
            status, _ = stranger.ask("predict", PICTURES[1], Authorization=given.encode().decode("latin-1"))
            assert status == 401, given
        with urllib.request.urlopen(running.url, timeout=10) as page:  # it asks for the token
            assert page.status == 200
            assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert "securitySchemes" in running.ask("openapi.json")[1]["components"]


def test_several_clients_at_once_get_their_own_answers(client: Client) -> None:
    wanted = list(range(10)) * 4
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: client.ask("predict", PICTURES[n]), wanted))
    assert [(status, best(answer)) for status, answer in said] == [(200, str(n)) for n in wanted]


def test_who_comes_when_too_many_wait_is_turned_away(digits: Path) -> None:
    with armnet.open(digits, threads=1) as slow:
        quick, go = slow.infer, threading.Event()

        def infer(feeds: Any) -> Any:
            go.wait(20)
            return quick(feeds)

        slow.infer = infer
        with served(slow, most_waiting=2) as running, ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(running.ask, "predict", PICTURES[n]) for n in range(3)]
            deadline = time.monotonic() + 20
            while running.ask("health")[1]["waiting"] < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            status, said = running.ask("predict", PICTURES[3])
            assert (status, said) == (503, {"error": "2 requests are already waiting; try again later"})
            go.set()
            assert [best(one.result(20)[1]) for one in waiting] == ["0", "1", "2"]
            assert best(running.ask("predict", PICTURES[3])[1]) == "3"


def test_clients_that_are_slow_or_break_off_hold_nobody_up(model: Model) -> None:
    with served(model, body_seconds=0.3) as running:
        place = urllib.parse.urlsplit(running.url)
        head = f"POST /predict HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 1000\r\n\r\nabc".encode()
        with socket.create_connection((place.hostname, place.port), 20) as slow:
            slow.sendall(head)
            with socket.create_connection((place.hostname, place.port), 20) as broken:
                broken.sendall(head)
            assert running.ask("predict", PICTURES[5])[0] == 200
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        assert running.ask("health")[1]["waiting"] == 0


def test_more_than_is_allowed_without_a_length_is_refused(client: Client) -> None:
    place = urllib.parse.urlsplit(client.url)
    with socket.create_connection((place.hostname, place.port), 20) as sender:
        sender.sendall(f"POST /predict HTTP/1.1\r\nHost: {place.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"40000\r\n" + bytes(0x40000) + b"\r\n"
        for _ in range(16):  # 4 MiB, which are read and forgotten
            sender.sendall(chunk)
        sender.sendall(b"1\r\nx\r\n")
        assert sender.recv(100).startswith(b"HTTP/1.1 413 ")


def test_masks_come_with_a_picture_to_lay_over() -> None:
    scores = np.zeros((1, 5, 64, 64))
    scores[0, 3, :, 32:] = 9.0
    picture = io.BytesIO()
    Image.new("RGB", (128, 96)).save(picture, "PNG")
    with opened({"output": scores}) as segmenter, served(segmenter) as running:
        said = running.ask("predict?overlay=1", picture.getvalue())[1]
        kind, _, content = said["overlay"].partition(",")
        over = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
        assert kind == "data:image/png;base64"
        assert over.shape == (96, 128, 4)
        assert (over[:, :60, 3] == 0).all()
        assert (over[:, 68:, 3] > 0).all()
        assert "overlay" not in running.ask("predict", picture.getvalue())[1]


def test_nan_is_a_problem_of_one_line_and_a_bug_tells_strangers_nothing(
    digits: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with armnet.open(digits, threads=1) as broken, served(broken) as running:
        broken.infer = lambda feeds: {"probabilities": np.full((1, 10), np.nan, np.float32)}
        status, said = running.ask("predict", PICTURES[1])
        assert status == 500
        assert "NaN" in said["error"]

        def fails(feeds: Any) -> Any:
            raise RuntimeError("a secret")

        broken.infer = fails
        assert running.ask("predict", PICTURES[1]) == (500, {"error": "the server failed; its terminal tells more"})
    assert "RuntimeError: a secret" in capfd.readouterr().err


def test_without_pillow_arrays_are_answered(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with served(model) as running:
        content = io.BytesIO()
        np.save(content, np.load(DEMO / "held_back.npz")["images"][:1])
        assert running.ask("predict", content.getvalue())[0] == 200
        assert running.ask("model")[0] == 200
        status, said = running.ask("predict", PICTURES[1])
        assert status == 500
        assert "pip install 'armnet[image]'" in said["error"]


def test_numbers_that_json_cannot_say_are_null() -> None:
    assert finite({"a": [1.0, float("nan"), (float("inf"), "x")], "b": 2}) == {"a": [1.0, None, [None, "x"]], "b": 2}
