"""Pairs in zip files: round trips, archives that other programs wrote, and archives that lie."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError, PairError, ResourceError
from runtime_arm.machine import memory
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair import members
from runtime_arm.pair.archive import is_bundle
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.places import is_pair
from runtime_arm.pair.tuning import Tuning
from tests.runtime_arm.pair.test_pair import make_pair
from tests.support.paths import ROOT

LARGE = np.tile(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), (8, 1))
TUNING = Tuning("net", {}, ())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a pair by name."""
    folder = tmp_path_factory.mktemp("pair")
    make_pair().save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def archive(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as target:
        for name, data in files.items():
            target.writestr(name, data)
    return content.getvalue()


def loaded(tmp_path: Path, content: bytes) -> Pair:
    path = tmp_path / "pair.zip"
    path.write_bytes(content)
    return Pair.load(path)


def refusal(tmp_path: Path, content: bytes) -> str:
    with pytest.raises(PairError) as caught:
        loaded(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path / "pair.zip"))
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(tmp_path / "pair.zip"), "")


def large_pair() -> Pair:
    init = NetDef("init", (OperatorDef.of("GivenTensorFill", [], ["w"], values=LARGE),))
    predict = NetDef.from_text('net "p": x, w -> y\nMatMul(x, w) -> y')
    return Pair(init, predict, (TensorInfo("x", (1, len(LARGE)), "float32"),))


@pytest.mark.parametrize("pair", [make_pair(), large_pair(), make_pair(tuning=TUNING)])
def test_a_pair_survives_its_zip_file(tmp_path: Path, pair: Pair) -> None:
    pair.save(tmp_path / "new" / "pair.ZIP")
    pair.save(tmp_path / "pair")
    assert os.listdir(tmp_path / "new") == ["pair.ZIP"]
    again, of_folder = Pair.load(tmp_path / "new" / "pair.ZIP"), Pair.load(tmp_path / "pair")
    assert again == of_folder == pair
    assert again.tuning == of_folder.tuning == pair.tuning
    assert again.digest == of_folder.digest != ""
    assert is_pair(tmp_path / "new" / "pair.ZIP")
    assert not is_bundle(tmp_path / "new" / "pair.ZIP")


def test_what_it_holds_is_what_the_folder_holds(tmp_path: Path) -> None:
    make_pair(tuning=TUNING).save(tmp_path / "pair")
    make_pair(tuning=TUNING).save(tmp_path / "pair.zip")
    with zipfile.ZipFile(tmp_path / "pair.zip") as found:
        assert found.testzip() is None
        assert {name: found.read(name) for name in found.namelist()} == {
            path.name: path.read_bytes() for path in (tmp_path / "pair").iterdir()
        }
        assert {info.compress_type for info in found.infolist()} == {zipfile.ZIP_DEFLATED}


def test_equal_pairs_give_equal_bytes_and_an_existing_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pair.zip"
    large_pair().save(path)
    first, pair = path.read_bytes(), Pair.load(path)
    pair.save(path)
    assert path.read_bytes() == first
    pair.replace(meta={"labels": ["x"]}).save(path)
    assert path.read_bytes() != first
    assert Pair.load(path).init_net == pair.init_net
    assert os.listdir(tmp_path) == ["pair.zip"]


def test_a_pair_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "pair.zip"
    make_pair().save(path)
    before = path.read_bytes()
    with pytest.raises(PairError):
        make_pair(meta={"labels": [1]}).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["pair.zip"]


def test_a_file_that_a_zip_file_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime_arm.pair.zipped._MOST", 1000)
    with pytest.raises(ResourceError, match=r"init_net\.pb is too large for a zip file, more than 1,000 bytes"):
        large_pair().save(tmp_path / "pair.zip")
    assert os.listdir(tmp_path) == []


def test_weights_are_aligned_and_cannot_be_changed(tmp_path: Path) -> None:
    large_pair().save(tmp_path / "pair.zip")
    weights = Pair.load(tmp_path / "pair.zip").init_net.op[0].get_tensor("values")
    np.testing.assert_array_equal(weights, LARGE)
    assert weights.ctypes.data % 64 == 0
    assert not weights.flags.writeable


def test_archives_of_other_programs_are_read(tmp_path: Path, files: dict[str, bytes]) -> None:
    pair = make_pair()
    assert loaded(tmp_path, archive(files, zipfile.ZIP_STORED)) == pair
    nested = {f"digits/{name}": data for name, data in files.items()}
    mac = {"__MACOSX/digits/._init_net.pb": b"?", "__MACOSX/._predict_net.pb": b"?", "digits/.DS_Store": b"?"}
    assert loaded(tmp_path, archive({"digits/": b"", **nested, **mac})) == pair
    assert loaded(tmp_path, archive({"README": b"a net", **files})) == pair
    assert loaded(tmp_path, archive({f"digits\\{name}": data for name, data in files.items()})) == pair
    alone = {f"squeeze_{name}": data for name, data in files.items() if name.endswith(".pb")}
    assert loaded(tmp_path, archive(alone)).init_net == pair.init_net
    wide = io.BytesIO()
    with zipfile.ZipFile(wide, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in files.items():
            with target.open(name, "w", force_zip64=True) as member:
                member.write(data)
    assert loaded(tmp_path, wide.getvalue()) == pair


def test_a_stored_member_is_used_where_it_lies(tmp_path: Path) -> None:
    large_pair().save(tmp_path / "pair")
    named = {path.name: path.read_bytes() for path in (tmp_path / "pair").iterdir()}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, data in named.items():
            entry = zipfile.ZipInfo(name)
            filler = -(content.tell() + 30 + len(name) + 4) % 64
            entry.extra = struct.pack("<HH", 0xD935, filler) + bytes(filler)
            target.writestr(entry, data)
    (tmp_path / "pair.zip").write_bytes(content.getvalue())
    found = members.members_of(memoryview(content.getvalue()), "pair.zip")
    assert all(member.content().obj is member.data.obj for member in found.values())
    assert loaded(tmp_path, content.getvalue()) == large_pair()


def wide_directory(content: bytes) -> bytes:
    """The archive with its directory's place, and the sizes in it, in fields of 64 bits."""
    end = content.rfind(b"PK\5\6")
    _, _, _, count, _, size, start, _ = struct.unpack("<4s4H2LH", content[end : end + 22])
    directory, at = b"", start
    while at < start + size:
        entry = bytearray(content[at : at + 46])
        packed, nbytes, name, extra, comment = struct.unpack_from("<2L3H", entry, 20)
        (offset,) = struct.unpack_from("<L", entry, 42)
        struct.pack_into("<2L2H", entry, 20, 0xFFFFFFFF, 0xFFFFFFFF, name, 28)
        struct.pack_into("<L", entry, 42, 0xFFFFFFFF)
        directory += bytes(entry) + content[at + 46 : at + 46 + name]
        directory += struct.pack("<2H3Q", 1, 24, nbytes, packed, offset)
        at += 46 + name + extra + comment
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return content[:start] + directory + record + locator + last


def test_a_directory_of_64_bits_is_read(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = wide_directory(archive(files))
    assert zipfile.ZipFile(io.BytesIO(content)).testzip() is None
    assert loaded(tmp_path, content) == make_pair()


def test_what_is_no_pair_is_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    torch = archive({f"archive/{name}": b"?" for name in ("data.pkl", "version", "data/0", "data/1")})
    assert refusal(tmp_path, torch) == (
        ": a zip file without a pair: archive/data.pkl, archive/version, archive/data/0 and 1 more"
    )
    assert refusal(tmp_path, archive({"a.jpg": b"?"})) == ": a zip file without a pair: a.jpg"
    assert refusal(tmp_path, archive({})) == ": a zip file without a pair: it is empty"
    assert "no zip archive" in refusal(tmp_path, b"nothing of the kind")
    assert "no zip archive" in refusal(tmp_path, b"")
    deep = {f"models/digits/{name}": data for name, data in files.items()}
    assert "a zip file without a pair" in refusal(tmp_path, archive(deep))
    two = {f"{folder}/{name}": data for folder in "ab" for name, data in files.items()}
    assert refusal(tmp_path, archive(two)) == ": holds several pairs, in a and b"
    without = {name: data for name, data in files.items() if name != "init_net.pb"}
    assert refusal(tmp_path, archive(without)) == ": holds no init_net.pb"


def test_names_of_newer_pythons_are_read(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an entry has its name in UTF-8, too, Python 3.13 gives that one; the header has the other."""

    class Newer(zipfile.ZipFile):
        def infolist(self) -> list[zipfile.ZipInfo]:
            for entry in super().infolist():
                entry.filename = entry.orig_filename.replace("mod\u00e8le", "\u6a21\u578b")
            return super().infolist()

    monkeypatch.setattr(members, "ZipFile", Newer)
    nested = {f"mod\u00e8le/{name}": data for name, data in files.items()}
    assert loaded(tmp_path, archive({**nested, "mod\u00e8le/\u00e8": b"?"})) == make_pair()


def test_a_name_that_goes_on_behind_a_nul_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive({**files, "init_net.pb_": b"?"}).replace(b"init_net.pb_", b"init_net.pb\0")
    assert "/init_net.pb: " in refusal(tmp_path, content)
    content = archive({**files, "README_": b"?"}).replace(b"README_", b"README\0")
    assert refusal(tmp_path, content) == "/README: has no header in the archive"


@pytest.mark.parametrize("name", ["../init_net.pb", "/init_net.pb", "a/../b", "..\\model.json", "\\model.json"])
def test_names_that_lead_out_of_the_archive_are_refused(tmp_path: Path, files: dict[str, bytes], name: str) -> None:
    assert "leads out of the archive" in refusal(tmp_path, archive({**files, name: b"?"}))


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive({**files, "Init_net.pb": files["init_net.pb"]}).replace(b"Init_net.pb", b"init_net.pb")
    assert refusal(tmp_path, content) == "/init_net.pb: is there twice"
    assert refusal(tmp_path, archive({**files, "./init_net.pb": b"?"})) == ": names a file twice"


def test_names_are_told_in_one_line(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert refusal(tmp_path, archive({"a\nb": b"?"})) == ": a zip file without a pair: 'a\\nb'"
    assert len(refusal(tmp_path, archive({"x" * 60000: b"?"}))) < 300
    assert "\\n" in refusal(tmp_path, archive({**files, "../a\n": b"?"}))


def with_entry(content: bytes, name: str, at: int, form: str, value: int) -> bytes:
    """The archive with another number in the entry of a file in its directory."""
    changed = bytearray(content)
    entry = content.index(name.encode(), content.index(b"PK\1\2")) - 46
    struct.pack_into(form, changed, entry + at, value)
    return bytes(changed)


def test_sizes_that_lie_are_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive(files)
    nbytes = len(files["init_net.pb"])
    assert "Bad CRC-32" in refusal(tmp_path, with_entry(content, "init_net.pb", 24, "<L", nbytes - 1))
    assert "is shorter than the archive says" in refusal(
        tmp_path, with_entry(content, "init_net.pb", 24, "<L", nbytes + 1)
    )
    assert "cannot become 4294967294" in refusal(tmp_path, with_entry(content, "predict_net.pb", 24, "<L", 0xFFFFFFFE))
    assert "is cut off" in refusal(tmp_path, with_entry(content, "init_net.pb", 20, "<L", 0xFFFFFFFE))
    assert "has no header in the archive" in refusal(tmp_path, with_entry(content, "init_net.pb", 42, "<L", 1))
    assert "67108865 bytes are too many" in refusal(
        tmp_path, with_entry(content, "model.json", 24, "<L", (1 << 26) + 1)
    )


def test_a_bomb_is_refused_before_it_goes_off(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros that deflate to a thousandth, more of them than the machine has memory."""
    monkeypatch.setattr(memory, "memory_limit", lambda: 1 << 24)
    monkeypatch.setattr(members, "own_pages", None)
    with pytest.raises(ResourceError, match="more than the 16,777,216 of this machine"):
        loaded(tmp_path, archive({**files, "init_net.pb": bytes(1 << 25)}))


def test_encrypted_and_otherwise_compressed_files_are_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive(files)
    assert refusal(tmp_path, with_entry(content, "init_net.pb", 8, "<H", 1)) == "/init_net.pb: is encrypted"
    assert "is compressed by method 14" in refusal(tmp_path, archive(files, zipfile.ZIP_LZMA))


def test_damage_is_refused_by_the_crc_and_by_the_hash(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive(files)
    assert "Bad CRC-32" in refusal(tmp_path, with_entry(content, "predict_net.pb", 16, "<L", 1))
    stored = bytearray(archive(files, zipfile.ZIP_STORED))
    stored[stored.index(files["init_net.pb"]) + len(files["init_net.pb"]) - 1] ^= 1
    assert "CRC-32" in refusal(tmp_path, bytes(stored))
    other = files["init_net.pb"][:-1] + bytes([files["init_net.pb"][-1] ^ 1])
    assert "its SHA-256 differs" in refusal(tmp_path, archive({**files, "init_net.pb": other}))


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    content = archive(files)
    for size in range(0, len(content), 7):
        refusal(tmp_path, content[:size])


def test_damage_anywhere_is_refused_in_one_line_or_does_no_harm(tmp_path: Path, files: dict[str, bytes]) -> None:
    whole, pair, draw = archive(files), make_pair(), random.Random(0)
    directory, harmless = whole.index(b"PK\1\2"), 0
    path = tmp_path / "pair.zip"
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            start = directory if draw.random() < 0.5 else 0
            damaged[draw.randrange(start, len(damaged))] = draw.choice([0, 1, 8, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        path.write_bytes(damaged)
        with suppress(ArmnetError):
            assert Pair.load(path) == pair
            harmless += 1
    assert harmless < 1000  # of dates, modes and local headers


def test_loading_takes_no_more_memory_than_what_is_inflated(tmp_path: Path) -> None:
    """Beside what a process takes that loads a small one."""
    values = np.random.default_rng(0).integers(-8, 8, (1 << 23,)).astype(np.float32)  # 32 MB
    init = NetDef("init", (OperatorDef.of("GivenTensorFill", [], ["w"], values=values),))
    pair = Pair(init, NetDef.from_text('net "p": x, w -> y\nAdd(x, w) -> y'), (TensorInfo("x"),))
    pair.save(tmp_path / "large.zip")
    make_pair().save(tmp_path / "small.zip")
    small, large = peak(tmp_path / "small.zip"), peak(tmp_path / "large.zip")
    packed = (tmp_path / "large.zip").stat().st_size
    assert large - small < values.nbytes + packed + (3 << 20)


def peak(path: Path) -> int:
    """Bytes that a process takes at most which loads the pair."""
    program = "import sys; from runtime_arm.pair.pair import Pair; Pair.load(sys.argv[1])\n"
    program += "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout) << 10


def test_zipfile_is_not_imported_for_a_folder(tmp_path: Path) -> None:
    make_pair().save(tmp_path / "pair")
    program = "import sys, numpy\nknown = set(sys.modules)\nfrom runtime_arm.pair.pair import Pair\n"
    program += "Pair.load(sys.argv[1]); print({'zipfile', 'zlib', 'runtime_arm.pair.zipped'} & {*sys.modules} - known)"
    command = [sys.executable, "-c", program, tmp_path / "pair"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "set()\n"


def test_deflate_cannot_make_more_of_a_byte_than_is_allowed() -> None:
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflated.compress(bytes(1 << 24)) + deflated.flush()
    assert (1 << 24) / len(packed) <= members.MOST_INFLATED
