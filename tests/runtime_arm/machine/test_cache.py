"""What the cache keeps is whole, the right one, and within its limit; where it cannot keep, nothing else suffers."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Callable, List, Optional

import pytest

from runtime_arm.errors import FormatError, ResourceError, UsageError
from runtime_arm.machine import cache
from runtime_arm.machine.cache import PARTS, CachePart, cache_root, clear, entries, limit_nbytes


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CachePart:
    monkeypatch.delenv("ARMNET_CACHE_LIMIT", raising=False)
    return CachePart("pairs", tmp_path)


def _file(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


def _folder(content: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir()
        (path / "a").write_text(content)

    return write


def _text(path: Path) -> str:
    return (path / "a" if path.is_dir() else path).read_text()


def _names(root: Path) -> List[str]:
    return sorted(path.name for path in (root / "pairs").iterdir())


@pytest.mark.parametrize("write", [_file, _folder])
def test_what_is_put_is_got(part: CachePart, tmp_path: Path, write: Callable[[str], Callable[[Path], None]]) -> None:
    assert part.get("k", _text) is None
    assert part.put("k", write("abc")) is None
    assert part.get("k", _text) == "abc"
    assert part.get("other", _text) is None
    assert _names(tmp_path) == ["k"]


@pytest.mark.parametrize("write", [_file, _folder])
def test_a_damaged_entry_is_removed_and_made_again(
    part: CachePart, tmp_path: Path, write: Callable[[str], Callable[[Path], None]]
) -> None:
    def damaged(path: Path) -> str:
        raise FormatError("not what was written")

    part.put("k", write("abc"))
    assert part.get("k", damaged) is None
    assert _names(tmp_path) == []
    part.put("k", write("abc"))
    assert part.get("k", _text) == "abc"


def test_what_is_half_written_is_never_seen(part: CachePart, tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        _folder("abc")(path)
        raise OSError(28, "No space left on device")

    assert "No space left" in str(part.put("k", fail))
    assert _names(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_folder_that_cannot_be_written_costs_the_cache_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    part = CachePart("pairs", tmp_path / "file")
    with part.turn("k"):
        assert part.get("k", _text) is None
        assert part.put("k", _file("abc"))


def test_what_was_not_used_for_longest_goes(part: CachePart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMNET_CACHE_LIMIT", "1000")
    for at, key in enumerate("abc"):
        part.put(key, _folder("x" * 300))
        os.utime(tmp_path / "pairs" / key, (at, at))
    part.get("a", _text)
    CachePart(PARTS[1], tmp_path).put("d", _file("x" * 300))  # the limit is that of all parts
    assert _names(tmp_path) == ["a", "c"]
    assert part.put("e", _file("x" * 1001)) == "1001 bytes are more than the cache's limit of 1000"
    assert _names(tmp_path) == ["a", "c"]


def test_leftovers_of_killed_processes_go_after_a_day(part: CachePart, tmp_path: Path) -> None:
    for name, age in ((".old", cache.STALE + 60), (".new", 60.0)):
        part.put("k", _file("abc"))
        _folder("half")(tmp_path / "pairs" / name)
        os.utime(tmp_path / "pairs" / name, (time.time() - age,) * 2)
    part.put("l", _file("abc"))
    assert _names(tmp_path) == [".new", "k", "l"]
    assert [entry.path.name for entry in entries(tmp_path / "pairs")] == ["l", "k"]


def _make(root: Path, started: Optional[Callable[[], object]] = None) -> str:
    part = CachePart("pairs", root)
    with part.turn("k"):
        found = part.get("k", _text)
        if found is None:
            if started is not None:
                started()
            with (root / "made").open("a") as file:
                file.write("x")
            time.sleep(0.2)
            part.put("k", _folder("abc"))
            found = part.get("k", _text)
    return str(found)


def _make_at_once(root: Path) -> None:
    """Four processes make the same entry."""
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=_make, args=(root,)) for _ in range(3)]
    for other in others:
        other.start()
    assert _make(root) == "abc"
    for other in others:
        other.join()
        assert other.exitcode == 0


def test_several_processes_make_an_entry_once(tmp_path: Path) -> None:
    _make_at_once(tmp_path)
    assert (tmp_path / "made").read_text() == "x"
    assert _names(tmp_path) == ["k"]


def test_processes_that_do_not_wait_leave_one_whole_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.0)
    _make_at_once(tmp_path)
    assert _names(tmp_path) == ["k"]


def test_emptying_frees_the_bytes(part: CachePart, tmp_path: Path) -> None:
    part.put("k", _folder("x" * 300))
    assert clear(tmp_path / "pairs") == 300
    assert part.get("k", _text) is None


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ARMNET_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache/armnet"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg/armnet"
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"


@pytest.mark.parametrize("home", ["unknown", "missing"])
def test_a_user_without_a_home_has_no_cache(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ARMNET_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home == "unknown":
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    else:
        monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    with pytest.raises(ResourceError, match="ARMNET_CACHE"):
        cache_root()
    assert CachePart("pairs").get("k", _text) is None
    assert "ARMNET_CACHE" in str(CachePart("pairs").put("k", _file("abc")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("", 2 << 30), ("0", 0), ("123", 123), ("500M", 500 << 20), ("1.5g", 3 << 29), ("2GiB", 2 << 30)],
)
def test_the_limit_has_units(text: str, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMNET_CACHE_LIMIT", text)
    assert limit_nbytes() == nbytes


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, part: CachePart) -> None:
    monkeypatch.setenv("ARMNET_CACHE_LIMIT", "much")
    with pytest.raises(UsageError, match="ARMNET_CACHE_LIMIT takes a number of bytes"):
        limit_nbytes()
    assert "ARMNET_CACHE_LIMIT" in str(part.put("k", _file("abc")))
