"""Files and folders appear whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Any, Iterator, Optional

import numpy as np
import pytest

from runtime_arm.errors import ResourceError
from runtime_arm.files import OWN_PAGES, drop_pages, map_file, own_pages, replaced_folder, write_file


def failing_chunks() -> Iterator[bytes]:
    yield b"half"
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.npz"
    write_file(target, [b"first"])
    write_file(target, [b"sec", memoryview(b"ond")])
    assert target.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["out.npz"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.npz"
    write_file(target, [b"old"])
    with pytest.raises(ResourceError) as caught:
        write_file(target, failing_chunks())
    assert str(caught.value) == f"{target}: No space left on device"
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.npz"]


def test_any_other_failure_cleans_up_too(tmp_path: Path) -> None:
    def interrupted() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "out", interrupted())
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_device_is_written_to_and_not_replaced() -> None:
    with pytest.raises(ResourceError, match=r"/dev/full: No space left on device"):
        write_file("/dev/full", [b"x" * 100_000])
    assert not Path("/dev/full").is_file()
    write_file("/dev/null", [b"x"])
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("place", ["missing/out", "file/out"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ResourceError) as caught:
        write_file(tmp_path / place, [b"x"])
    assert str(caught.value).startswith(f"{tmp_path / place}: ")
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_folder_appears_whole_with_its_parents(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    with replaced_folder(target) as temporary:
        write_file(temporary / "one", [b"1"])
        assert not target.exists()
    assert os.listdir(target) == ["one"]
    assert os.listdir(tmp_path / "a") == ["b"]


def test_in_an_existing_folder_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old")
    (tmp_path / "mine").write_bytes(b"kept")
    with replaced_folder(tmp_path) as temporary:
        write_file(temporary / "one", [b"new"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"one": b"new", "mine": b"kept"}


@pytest.mark.parametrize("exists", [False, True])
def test_a_failed_folder_leaves_things_as_they_were(tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "pair"
    if exists:
        target.mkdir()
        (target / "one").write_bytes(b"old")

    def fill() -> None:
        with replaced_folder(target) as temporary:
            write_file(temporary / "one", [b"new"])
            write_file(temporary / "two", failing_chunks())

    with pytest.raises(ResourceError, match="No space left on device"):
        fill()
    found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")}
    assert found == ({"pair", "pair/one"} if exists else set())
    assert not exists or (target / "one").read_bytes() == b"old"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "pair").write_bytes(b"")
    with pytest.raises(ResourceError, match="is a file, not a folder"), replaced_folder(tmp_path / "pair"):
        pass


@pytest.mark.parametrize("content", [b"", b"content"])
def test_a_file_is_mapped(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert bytes(map_file(tmp_path / "file")) == content


def test_a_file_is_read_where_it_cannot_be_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_keywords: Any) -> None:
        raise OSError(errno.ENODEV, "no maps here")

    (tmp_path / "file").write_bytes(b"content")
    monkeypatch.setattr("runtime_arm.files.mmap.mmap", refuse)
    assert bytes(map_file(tmp_path / "file")) == b"content"


def test_a_mapped_file_keeps_its_content_when_it_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_file(target, [b"old"])
    mapped = map_file(target)
    write_file(target, [b"new"])
    assert (bytes(mapped), target.read_bytes()) == (b"old", b"new")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"nothing: No such file or directory"):
        map_file(tmp_path / "nothing")


def test_pages_of_a_mapped_file_are_given_back_and_read_again(tmp_path: Path) -> None:
    content = np.arange(1 << 18, dtype=np.int32)
    (tmp_path / "file").write_bytes(b"head" * 3 + content.tobytes())
    mapped = np.frombuffer(map_file(tmp_path / "file"), np.uint8)[12:].view(np.int32).reshape(512, 512)
    assert mapped.sum() == content.sum()
    before = _resident(tmp_path / "file")
    drop_pages(mapped)
    if before is not None:
        assert _resident(tmp_path / "file") <= 8 < 900 < before
    np.testing.assert_array_equal(mapped.reshape(-1), content)
    drop_pages(content)  # of no file
    drop_pages(np.frombuffer(map_file(tmp_path / "file"), np.uint8)[:0])


def _resident(path: Path) -> Optional[int]:
    """The kilobytes of a mapped file that are in memory; None where the system does not tell."""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return None
    place = next(at for at, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[place:] if line.startswith("Rss:"))


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes no pages back")
def test_pages_that_the_program_has_locked_stay(tmp_path: Path) -> None:
    write_file(tmp_path / "file", [b"\1" * 4 * mmap.PAGESIZE])
    mapped = np.frombuffer(map_file(tmp_path / "file"), np.uint8)
    place = ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(mapped.nbytes)
    library = ctypes.CDLL(None)
    if library.mlock(*place):
        pytest.skip("the system lets nobody lock memory")
    try:
        drop_pages(mapped)
        assert mapped.all()
    finally:
        library.munlock(*place)


def test_an_array_lies_among_others_where_no_more_can_be_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    array = own_pages((OWN_PAGES,), np.dtype(np.float32))
    assert (array.shape, array.dtype) == ((OWN_PAGES,), np.float32)
