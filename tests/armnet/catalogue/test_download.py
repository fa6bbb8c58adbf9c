"""Files over HTTP from a server on this machine: resumed, checked, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, List

import numpy as np
import pytest

from armnet.catalogue.download import fetched
from armnet.catalogue.entries import RemoteFile
from runtime_arm.errors import ResourceError, UsageError
from tests.armnet.catalogue.server import Server, serving

CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    with serving() as found:
        yield found


def test_a_file_is_fetched_once(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    steps: List[int] = []
    path = fetched(file, progress=lambda text, done, total: steps.append(done))
    assert path.read_bytes() == CONTENT
    assert steps == sorted(steps)
    assert steps[-1] == len(CONTENT)
    assert fetched(file) == path
    assert len(server.asked) == 1


def test_a_fetch_that_breaks_off_goes_on_where_it_was(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    server.breaks_off = [100_000, 50_000]
    assert fetched(file).read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=150000-"]


def test_the_next_process_goes_on_too(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    server.breaks_off = [1000] * 5
    with pytest.raises(ResourceError, match=r"net\.onnx could not be fetched"):
        fetched(file)
    assert fetched(file).read_bytes() == CONTENT
    assert server.asked[-1] == ("/net.onnx", "bytes=5000-")


def test_a_server_without_ranges_sends_all_again(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    server.ranges, server.breaks_off = False, [100_000]
    assert fetched(file).read_bytes() == CONTENT


def test_mirrors_are_asked_first_and_checked_as_strictly(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    server.contents["/mirror/net.onnx"] = CONTENT[:-1] + b"x"
    mirrors = [f"{server.address}/absent/", f"{server.address}/mirror"]
    assert fetched(file, mirrors).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/absent/net.onnx", "/mirror/net.onnx", "/net.onnx"]


def test_a_damaged_entry_of_the_cache_is_fetched_again(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    path = fetched(file)
    path.write_bytes(CONTENT[:10])
    assert fetched(file).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("served", "told"),
    [(CONTENT[:-5] + b"other", "SHA-256 differs"), (CONTENT + b"more", "more than"), (CONTENT[:500], "500 of 300000")],
    ids=["another file", "too long", "too short"],
)
def test_another_file_is_refused(server: Server, tmp_path: Path, served: bytes, told: str) -> None:
    file = server.add("net.onnx", CONTENT)
    server.contents["/net.onnx"] = served
    with pytest.raises(ResourceError, match=told):
        fetched(file)
    assert not list(tmp_path.rglob("net.onnx"))


def test_a_server_that_never_stops_is_left(server: Server, tmp_path: Path) -> None:
    """No more is written than the file has, but for the last chunk."""
    file = server.add("net.onnx", CONTENT[:1000])
    server.contents["/net.onnx"] = CONTENT * 20
    with pytest.raises(ResourceError, match="more than"):
        fetched(file)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 100_000


@pytest.mark.parametrize(
    "address", ["http://example.org/net.onnx", "file:///etc/passwd", "ftp://example.org/x", "http://["]
)
def test_only_https_is_fetched(server: Server, address: str) -> None:
    file = server.add("net.onnx", CONTENT)
    with pytest.raises(UsageError, match="only https"):
        fetched(RemoteFile(file.name, [address], file.sha256, file.nbytes))
    with pytest.raises(UsageError, match="only https"):
        fetched(file, [address])


def test_a_redirect_does_not_lead_away_from_https(server: Server) -> None:
    file = server.add("net.onnx", CONTENT)
    server.redirects["/net.onnx"] = "http://example.org/net.onnx"
    with pytest.raises(ResourceError, match="only https"):
        fetched(file)
    server.redirects["/net.onnx"] = f"{server.address}/elsewhere"
    server.contents["/elsewhere"] = CONTENT
    assert fetched(file).read_bytes() == CONTENT
