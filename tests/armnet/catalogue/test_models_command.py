"""``armnet models``: the catalogue, and what is made of its entries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from armnet.catalogue.download import require_https
from armnet.catalogue.entries import Entry, RemoteFile, read_catalogue
from runtime_arm.app.model import Model
from runtime_arm.errors import FormatError
from runtime_arm.pair.pair import Pair
from tests.armnet.catalogue.server import Server, serving
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO, SHARED

MODELS = SHARED / "models"
DIGITS = DEMO / "digits.onnx"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    with serving() as found:
        yield found


def written(server: Server, path: Path, **changes: Any) -> Path:
    """A catalogue of the demo's network, on the server."""
    files = [
        server.add("digits.onnx", DIGITS.read_bytes()),
        server.add("labels.txt", (DEMO / "labels.txt").read_bytes()),
    ]
    model: Dict[str, Any] = {
        "name": "digits",
        "what": "Digits",
        "task": "classes",
        "licence": "MIT",
        "source": "https://example.org",
        "accuracy": None,
        "preprocessing": {"scale": 0.00392157},
        "labels": files[1]._asdict(),
        "files": [files[0]._asdict()],
        **changes,
    }
    path.write_text(json.dumps({"schema": 1, "models": [model]}))
    return path


def test_a_model_comes_ready(server: Server, armnet: Armnet, tmp_path: Path) -> None:
    """The pair has its labels, its preprocessing and fewer operators; the second time needs no network."""
    catalogue = written(server, tmp_path / "models.json")
    words = ["models", "fetch", "digits", "--catalogue", catalogue, "-o", tmp_path / "digits"]
    status, out, _ = armnet(*words)
    assert status == 0
    assert "licence MIT" in out
    status, out, _ = armnet("run", tmp_path / "digits", DEMO / "pictures" / "digit_7.png", "--top", 1)
    assert status == 0
    assert "seven" in out or "7" in out
    count = len(server.asked)
    assert armnet(*words)[0] == 0
    assert len(server.asked) == count
    status, _, _ = armnet(*words[:-2], "--files", "-o", tmp_path / "published")
    assert status == 0
    assert (tmp_path / "published" / "digits.onnx").read_bytes() == DIGITS.read_bytes()


def test_the_list_and_a_model_are_shown(armnet: Armnet) -> None:
    status, out, _ = armnet("models")
    assert status == 0
    assert "yunet" in out
    status, out, _ = armnet("models", "--task", "faces", "--json")
    assert status == 0
    assert {one["task"] for one in json.loads(out)["models"]} == {"faces"}
    status, out, _ = armnet("models", "show", "yunet", "mnist")
    assert status == 0
    assert "Apache-2.0" in out
    assert "https://" in out


def test_mistakes_are_one_line(server: Server, armnet: Armnet, tmp_path: Path) -> None:
    refused(armnet("models", "fetch", "yunett"), "yunett", "yunet")
    refused(armnet("models", "fetch"), "names")
    refused(armnet("models", "list", "yunet"), "show yunet")
    refused(armnet("models", "--task", "poems"), "poems", "faces")
    refused(armnet("models", "--catalogue", tmp_path / "absent"), "absent")
    refused(armnet("models", "fetch", "mnist", "yunet", "-o", tmp_path / "x"), "-o")
    catalogue = written(server, tmp_path / "models.json")
    server.contents.clear()
    refused(armnet("models", "fetch", "digits", "--catalogue", catalogue, "-o", tmp_path / "d"), "digits.onnx", "404")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "../up"}, "name"),
        ({"name": 3}, "name"),
        ({"files": []}, "files"),
        ({"files": [{"name": "a/b", "urls": ["https://x"], "sha256": "0" * 64, "nbytes": 1}]}, r"files\[0\]\.name"),
        ({"files": [{"name": "a", "urls": ["https://x"], "sha256": "0" * 63, "nbytes": 1}]}, "sha256"),
        ({"files": [{"name": "a", "urls": [], "sha256": "0" * 64, "nbytes": 1}]}, "urls"),
        ({"files": [{"name": "a", "urls": ["https://x"], "sha256": "0" * 64, "nbytes": -1}]}, "nbytes"),
        ({"files": [{"name": "a", "urls": ["https://x"], "sha256": "0" * 64, "nbytes": 1}] * 2}, "different names"),
        ({"labels": 7}, "labels"),
        ({"accuracy": 0.9}, "accuracy"),
        ({"preprocessing": [1]}, "preprocessing"),
        ({"licence": ""}, "licence"),
    ],
)
def test_a_wrong_entry_is_named(server: Server, tmp_path: Path, changes: Dict[str, Any], told: str) -> None:
    with pytest.raises(FormatError, match=told):
        read_catalogue(written(server, tmp_path / "models.json", **changes))


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"schema": 2, "models": []}', '{"schema": 1}', '{"schema": 1, "models": [1]}']
)
def test_what_is_no_catalogue_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "models.json").write_text(content)
    with pytest.raises(FormatError, match=r"models\.json"):
        read_catalogue(tmp_path / "models.json")


def test_our_own_catalogue_is_sound() -> None:
    entries = read_catalogue()
    assert len(entries) >= 15
    for entry in entries.values():
        for file in files_of(entry):
            for url in file.urls:
                require_https(url)


@pytest.mark.skipif(not MODELS.is_dir(), reason="real networks are not beside the project")
def test_our_own_catalogue_names_the_files_that_are_known_to_work() -> None:
    known: Dict[str, List[str]] = {}
    for path in MODELS.rglob("*"):
        if path.is_file():
            known.setdefault(path.name, []).append(hashlib.sha256(path.read_bytes()).hexdigest())
    for entry in read_catalogue().values():
        for file in files_of(entry):
            assert file.sha256 in known[file.name], entry.name


@pytest.mark.skipif(not MODELS.is_dir(), reason="real networks are not beside the project")
@pytest.mark.parametrize("name", ["blazeface", "fastestdet", "mnist", "person-or-not", "selfie-segmentation", "yunet"])
def test_a_model_of_our_own_is_ready_to_be_asked(server: Server, armnet: Armnet, tmp_path: Path, name: str) -> None:
    pytest.importorskip("onnx", reason="exporting needs onnx")
    entry = read_catalogue()[name]
    for file in files_of(entry):
        path = next(found for found in MODELS.rglob(file.name) if found.stat().st_size == file.nbytes)
        server.add(file.name, path.read_bytes())
    status, _, err = armnet("models", "fetch", name, "-o", tmp_path / name, "--mirror", server.address)
    assert status == 0, err
    with Model(Pair.load(tmp_path / name), threads=1, notice=lambda text: None) as model:
        assert model.decoder.kind == {"faces": "boxes"}.get(entry.task, entry.task)
        assert entry.labels is None or model.labels is not None


def files_of(entry: Entry) -> List[RemoteFile]:
    """All files of a model."""
    return [*entry.files, *([entry.labels] if isinstance(entry.labels, RemoteFile) else [])]
