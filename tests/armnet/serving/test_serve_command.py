"""``armnet serve``, as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

pytest.importorskip("starlette", reason="the server is Starlette's")
pytest.importorskip("uvicorn", reason="the server runs by uvicorn")
pytest.importorskip("python_multipart", reason="forms are read by python-multipart")

from armnet.serving import certificate
from armnet.serving.run import is_local, names_of
from tests.support.commands import Armnet, refused
from tests.support.http import Client
from tests.support.interpreter import NUMPY_ALONE, python
from tests.support.paths import DEMO, ROOT

PICTURE = (DEMO / "pictures" / "digit_7.png").read_bytes()
OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by the program openssl")


@contextmanager
def running(*words: object, cache: Path) -> Iterator[Dict[str, Any]]:
    """The facts that a started command prints; it is ended as a user ends it."""
    command = [sys.executable, "-m", "armnet", "serve", *map(str, words), "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARMNET_CACHE": str(cache)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line == "}\n":
                break
        try:
            yield json.loads(text)
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "Traceback" not in err


def test_it_answers_until_ctrl_c(digits: Path, tmp_path: Path) -> None:
    with running(digits, cache=tmp_path) as facts:
        assert facts["url"].startswith("http://127.0.0.1:")
        assert facts["token"] is None
        status, said = Client(facts["url"]).ask("predict", PICTURE)
        assert status == 200
        assert said["result"]["classes"][0]["label"] == "7"


@OPENSSL
def test_https_with_a_certificate_of_its_own_and_a_new_token(digits: Path, tmp_path: Path) -> None:
    fingerprints = set()
    for _ in range(2):
        with running(digits, "--https", "--token", cache=tmp_path) as facts:
            url, _, token = facts["url"].partition("#token=")
            assert token == facts["token"]
            assert len(token) >= 16
            (made,) = tmp_path.glob("certificates/*/certificate.pem")
            context = ssl.create_default_context(cafile=str(made))  # checks that it is for 127.0.0.1
            client = Client(url, token)
            assert client.ask("predict", PICTURE, context=context)[0] == 200
            assert Client(url, "other").ask("model", context=context)[0] == 401
            fingerprints.add(facts["fingerprint"])
    assert len(fingerprints) == 1, "browsers would ask again"
    (key,) = tmp_path.glob("certificates/*/key.pem")
    assert key.stat().st_mode & 0o077 == 0


@OPENSSL
def test_a_certificate_that_has_run_out_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(certificate, "DAYS", 1)
    monkeypatch.setattr(certificate, "GOOD_FOR", 2 * 86400)
    first = certificate.self_signed(["localhost"], ["127.0.0.1"]).fingerprint
    monkeypatch.setattr(certificate, "DAYS", 365)
    second = certificate.self_signed(["localhost"], ["127.0.0.1"]).fingerprint
    assert first != second
    assert certificate.self_signed(["localhost"], ["127.0.0.1"]).fingerprint == second


def test_mistakes_are_one_line(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "noise.pem").write_text("no certificate")
    noise = tmp_path / "noise.pem"
    refused(armnet("serve", digits, "--port", -1), "--port must be 0 or more")
    refused(armnet("serve", digits, "--port", 70000), "--port must be at most 65535")
    refused(armnet("serve", digits, "--queue", -1), "--queue must be 0 or more")
    refused(armnet("serve", digits, "--token", "two words"), "--token must be one word")
    refused(armnet("serve", digits, "--key", noise), "--certificate and --key belong together")
    refused(armnet("serve", digits, "--key", noise, "--certificate", noise), "noise.pem: cannot be used")
    refused(armnet("serve", tmp_path / "nowhere"), "nowhere")
    refused(armnet("serve", digits, "--host", "256.1.1.1"), "cannot listen on 256.1.1.1 port 8000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(armnet("serve", digits, "--port", port), f"cannot listen on 127.0.0.1 port {port}: ", "--port 0")


def test_without_its_packages_it_says_what_to_install(digits: Path) -> None:
    program = f"""{NUMPY_ALONE}
sys.stderr = sys.stdout
from armnet.__main__ import main
print(main(["serve", {str(digits)!r}]))
"""
    line, status = python(program).splitlines()
    assert "pip install 'armnet[serve]'" in line
    assert status == "2"


def test_what_is_local() -> None:
    assert all(is_local(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    assert not any(is_local(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""))
    assert names_of("0.0.0.0") == ["*"]
    assert "*" not in names_of("localhost")
