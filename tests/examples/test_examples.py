"""The programs of ``examples/``, run as their READMEs say."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import wave
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Dict, Iterator, List
from urllib.request import urlopen

import numpy as np
import pytest

import armnet
from runtime_arm.app.labels import read_labels
from tests.support.paths import DEMO, ROOT

pytest.importorskip("onnx", reason="exporting needs onnx")
pytest.importorskip("PIL", reason="pictures need Pillow")

from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from tests.support.scripted_nets import scripted_net

EXAMPLES = ROOT / "examples"
SEVEN = DEMO / "pictures" / "digit_7.png"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's network as a pair that knows its labels."""
    folder: Path = tmp_path_factory.mktemp("pairs") / "digits"
    labels = read_labels(DEMO / "labels.txt")
    armnet.export(DEMO / "digits.onnx", labels=labels, preprocessing={"scale": 1 / 255}).save(folder)
    return folder


@pytest.fixture(scope="module")
def bees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector that finds a bee in every picture, in the middle."""
    folder: Path = tmp_path_factory.mktemp("pairs") / "bees"
    outputs = {
        "detection_boxes": np.asarray([[[0.25, 0.25, 0.75, 0.75]]]),
        "detection_classes": np.asarray([[2.0]]),  # counted from 1
        "detection_scores": np.asarray([[0.9]]),
        "num_detections": np.asarray([1.0]),
    }
    armnet.export(scripted_net(outputs), labels=["ant", "bee"], preprocessing="0..1").save(folder)
    return folder


def carried(folder: Path, *files: str) -> None:
    """Copies files of an example beside the folder runtime_arm, as its README says for a Pi."""
    for file in files:
        shutil.copy(EXAMPLES / file, folder)
    shutil.copytree(ROOT / "runtime_arm", folder / "runtime_arm", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def bell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net that hears "ding" in all that is loud."""
    folder: Path = tmp_path_factory.mktemp("pairs") / "bell"
    nodes = [
        helper.make_node("Abs", ["sound"], ["size"]),
        helper.make_node("ReduceMax", ["size"], ["loudest"], axes=[1]),
        helper.make_node("Gemm", ["loudest", "factors", "offsets"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["words"]),
    ]
    weights = {"factors": np.float32([[-40, 40]]), "offsets": np.float32([10, -10])}
    graph = helper.make_graph(
        nodes,
        "bell",
        [helper.make_tensor_value_info("sound", TensorProto.FLOAT, (1, 16000))],
        [helper.make_tensor_value_info("words", TensorProto.FLOAT, (1, 2))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    armnet.export(model, labels=["_silence_", "ding"]).save(folder)
    return folder


def loaded(name: str) -> Any:
    """The module ``service`` of an example."""
    spec = importlib.util.spec_from_file_location(f"{name}_service", EXAMPLES / name / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_readme_and_a_line_in_the_list() -> None:
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
    assert folders
    listed = (EXAMPLES / "README.md").read_text()
    for folder in folders:
        assert (EXAMPLES / folder / "README.md").is_file()
        assert f"[{folder}]({folder}/)" in listed


def rows(table: Path) -> List[List[str]]:
    with open(table, newline="") as file:
        return list(csv.reader(file))


def test_the_digit_reader_reads_each_picture_once(digits: Path, tmp_path: Path) -> None:
    """It runs with the folder runtime_arm beside it, as on a Pi."""
    inbox, table = tmp_path / "inbox", tmp_path / "found.csv"
    inbox.mkdir()
    for number in (3, 7):
        shutil.copy(DEMO / "pictures" / f"digit_{number}.png", inbox)
    (inbox / "broken.png").write_bytes(SEVEN.read_bytes()[:40])
    carried(tmp_path, "digit_reader/read_digits.py")
    command = [sys.executable, "-E", "read_digits.py", str(digits), "inbox", "found.csv", "--once"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    found = {row[1]: row for row in rows(table)[1:]}
    assert {name: row[2] for name, row in found.items() if row[2]} == {"digit_3.png": "3", "digit_7.png": "7"}
    assert float(found["digit_7.png"][3]) > 0.9
    assert "broken.png" in found["broken.png"][4]
    shutil.copy(DEMO / "pictures" / "digit_1.png", inbox)
    again = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert again.stdout.startswith("digit_1.png 1 ")
    assert len(rows(table)) == 5


def test_the_flask_service_answers(digits: Path) -> None:
    pytest.importorskip("flask", reason="this example needs Flask")
    client = loaded("flask_service").create_app(str(digits)).test_client()
    answer = client.post("/predict", data=SEVEN.read_bytes())
    assert answer.status_code == 200
    assert answer.get_json()["classes"][0]["label"] == "7"
    refused = client.post("/predict", data=b"no picture")
    assert refused.status_code == 400
    assert "picture" in refused.get_json()["error"]


def test_the_fastapi_service_answers(digits: Path) -> None:
    pytest.importorskip("fastapi", reason="this example needs FastAPI")
    testing = pytest.importorskip("fastapi.testclient", reason="this example's test needs httpx")
    client = testing.TestClient(loaded("fastapi_service").create_app(str(digits)))
    headers = {"Content-Type": "application/octet-stream"}
    answer = client.post("/predict", content=SEVEN.read_bytes(), headers=headers)
    assert answer.status_code == 200
    assert answer.json()["kind"] == "classes"
    assert answer.json()["result"]["classes"][0]["label"] == "7"
    refused = client.post("/predict", content=b"no picture", headers=headers)
    assert refused.status_code == 400
    assert "picture" in refused.json()["detail"]
    assert "/predict" in client.get("/openapi.json").json()["paths"]


def test_the_camera_page_shows_what_is_found(bees: Path, tmp_path: Path) -> None:
    """A folder of pictures plays the camera; one of them is broken, which is told and passed over."""
    carried(tmp_path, "camera/watch.py", "camera/page.html")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(SEVEN.read_bytes()[:40])
    Image.new("RGB", (160, 120), "white").save(tmp_path / "photos" / "b.png")
    command = [sys.executable, "-E", "watch.py", str(bees), "photos", "--pause", "0.05"]
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            address = program.stdout.readline().strip()
            found = json.load(urlopen(f"{address}found", timeout=30))
            (bee,) = found["result"]["boxes"]
            assert (bee["label"], bee["box"]) == ("bee", [40, 30, 120, 90])
            assert b'src="live"' in urlopen(address, timeout=30).read()
            with urlopen(f"{address}live", timeout=30) as stream:
                head = [stream.readline() for _ in range(4)]
                picture = Image.open(io.BytesIO(stream.read(int(head[2].split()[1])))).convert("RGB")
            assert picture.size == (160, 120)
            red, green, blue = picture.getpixel((119, 60))
            assert green > red + 30
            assert green > blue + 30
        finally:
            program.terminate()
            said = program.stderr.read()
    assert "photos/a.png" in said
    assert "Traceback" not in said


def test_a_camera_that_is_not_there_is_told_in_a_line(bees: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "camera" / "watch.py"), str(bees)]
    for source, problem in (("photos", "photos: "), ("camera:7", "camera")):
        ended = subprocess.run(
            [*command, source, "--port", "0"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"watch: {problem}")
        assert ended.stderr.count("\n") == 1


class Mailbox(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    events: ClassVar[List[Dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def mailbox() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Mailbox) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


SECOND = 16000  # samples
DING = (0.5 * np.sin(np.arange(SECOND) / 5) * 32767).astype("<i2")


def test_the_doorbell_rings_looks_and_tells(bell: Path, bees: Path, mailbox: str, tmp_path: Path) -> None:
    carried(tmp_path, "doorbell/doorbell.py")
    with wave.open(str(tmp_path / "door.wav"), "wb") as file:
        file.setparams((1, 2, SECOND, 0, "NONE", ""))
        file.writeframes(np.concatenate([np.zeros(2 * SECOND, "<i2"), DING, np.zeros(2 * SECOND, "<i2")]).tobytes())
    Image.new("RGB", (160, 120), "white").save(tmp_path / "visitor.png")
    command = [sys.executable, "-E", "doorbell.py", str(bell), str(bees), "--look", "visitor.png", "--listen"]
    options = ["door.wav", "--word", "ding", "--keep", "visits", "--post", mailbox]
    done = subprocess.run([*command, *options], cwd=tmp_path, check=True, capture_output=True, text=True)
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert event["heard"] == "ding"
    assert event["seen"] == ["0.9 bee at (40, 30)-(120, 90)"]
    assert Image.open(tmp_path / event["picture"]).size == (160, 120)
    assert Mailbox.events == [event]
    unknown = subprocess.run([*command, "door.wav", "--word", "dong"], cwd=tmp_path, capture_output=True, text=True)
    assert unknown.returncode == 1
    assert unknown.stderr == "doorbell: the ear does not know 'dong', but _silence_, ding\n"


def test_the_doorbell_listens_to_a_microphone(bell: Path, bees: Path, tmp_path: Path) -> None:
    """``arecord`` is a program that plays a recording here, and then ends."""
    (tmp_path / "recording").write_bytes(np.concatenate([np.zeros(SECOND, "<i2"), DING, DING]).tobytes())
    (tmp_path / "arecord").write_text(f"#!/bin/sh\nexec cat {tmp_path / 'recording'}\n")
    (tmp_path / "arecord").chmod(0o755)
    Image.new("RGB", (160, 120), "white").save(tmp_path / "visitor.png")
    command = [sys.executable, str(EXAMPLES / "doorbell" / "doorbell.py"), str(bell), str(bees), "--look"]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, str(tmp_path / "visitor.png")], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    (event,) = [json.loads(line) for line in done.stdout.splitlines()]  # two seconds of ringing are one event
    assert event["heard"] == "ding"
    assert done.returncode == 1
    assert done.stderr == "doorbell: arecord has ended, for the reason that it gives\n"


def test_the_notebook_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("matplotlib", "onnxruntime", "ipykernel"):
        pytest.importorskip(package, reason=f"the notebook needs {package}")
    client = pytest.importorskip("nbclient", reason="nbclient runs notebooks")
    files = pytest.importorskip("nbformat", reason="nbclient runs notebooks")
    (tmp_path / "demo").symlink_to(DEMO)
    folder = tmp_path / "examples" / "notebook"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = files.read(EXAMPLES / "notebook" / "digits.ipynb", 4)
    shown = printed(notebook)
    client.NotebookClient(
        notebook, resources={"metadata": {"path": str(folder)}}, timeout=300, startup_timeout=300
    ).execute()
    assert printed(notebook) == shown, "run it again: jupyter execute --inplace examples/notebook/digits.ipynb"


def printed(notebook: Any) -> List[str]:
    """What each cell has printed, without decimals, which depend on the machine; "a picture" for a plot."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or ("a picture" if "image/png" in output["data"] else "")
            found.append(re.sub(r"\d+\.\d+", "...", text.replace("\r", "")))
    assert len(found) > 5
    return found
