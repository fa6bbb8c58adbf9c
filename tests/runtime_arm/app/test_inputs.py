"""Files become feeds; unsuitable files are refused in one line."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import List

import numpy as np
import pytest

from runtime_arm.app.inputs import read_npy, read_npz, read_runs
from runtime_arm.errors import FeedError
from runtime_arm.pair.metadata import TensorInfo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(header: bytes) -> bytes:
    """An .npy file with this header and almost no data."""
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"xx"


@pytest.mark.parametrize("array", [X.astype(">f4"), np.asfortranarray(X), X[:0], X[:, ::2], np.float32(3)])
def test_arrays_are_read_whatever_their_layout(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    np.testing.assert_array_equal(read_npy(str(tmp_path / "x.npy")), array)


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY\x01\x00",
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
        npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999), }"),
        npy(b"((("),
        npy(b"\xff\0"),
    ],
)
def test_invalid_arrays_are_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    for name in ("x.npy", "x.npz"):
        (tmp_path / name).write_bytes(content)
    for refuse in (lambda: read_npy(str(tmp_path / "x.npy")), lambda: read_npz(str(tmp_path / "x.npz"), ["x"])):
        with pytest.raises(FeedError, match=r"x\.np[yz]: cannot be read as an \.np") as refusal:
            refuse()
        assert len(str(refusal.value).splitlines()) == 1


def test_files_that_are_neither_arrays_nor_named_as_pictures_are_refused(tmp_path: Path) -> None:
    for name, content in (("photo.heic", b"\0\0\0\x24ftypheic"), ("notes.txt", b"hello"), ("nothing", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FeedError, match=rf"{name}: not an \.npy array; the names of pictures end in \.jpg, "):
            read_npy(str(tmp_path / name))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(FeedError, match=r"x\.npy: cannot be read: Is a directory"):
        read_npy(str(tmp_path / "x.npy"))
    with pytest.raises(FeedError, match=r"y\.npz: cannot be read: No such file"):
        read_npz(str(tmp_path / "y.npz"), ["x"])


def test_a_damaged_archive_causes_only_one_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=X)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:100] + b"zzzz" + whole[104:]):
        path.write_bytes(damaged)
        with pytest.raises(FeedError, match=r"x\.npz: cannot be read as an \.npz archive"):
            read_npz(str(path), ["x"])
    assert capfd.readouterr().err == ""


def test_an_archive_named_as_an_array_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(FeedError, match=r"this is an archive; rename it to \.npz"):
        read_npy(str(tmp_path / "x.npy"))


def test_keys_are_names_with_or_without_their_prefix(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", in_x=X, y=X + 1, other=X)
    read = read_npz(str(tmp_path / "x.npz"), ["x", "y", "z"])
    assert sorted(read) == ["x", "y"]
    with pytest.raises(FeedError, match="holds in_x, y, other; the net takes a, b"):
        read_npz(str(tmp_path / "x.npz"), ["a", "b"])


def test_files_make_runs(tmp_path: Path) -> None:
    infos: List[TensorInfo] = [TensorInfo("a"), TensorInfo("b")]
    for name in ("1.npy", "2.npy", "b=3.npy"):
        np.save(tmp_path / name, X)
    words = [str(tmp_path / "1.npy"), f"b={tmp_path / '2.npy'}"]
    ((name, feeds),) = read_runs(words, infos, {})
    assert (name, sorted(feeds)) == ("a, b", ["a", "b"])
    with pytest.raises(FeedError, match="no input 'c'; the net takes a, b"):
        list(read_runs([f"c={tmp_path / '1.npy'}"], infos, {}))
    with pytest.raises(FeedError, match="more files than the net's 2 inputs"):
        list(read_runs([str(tmp_path / "1.npy")] * 3, infos, {}))
    assert next(read_runs([str(tmp_path / "b=3.npy")], infos, {}))[0] == "a"
