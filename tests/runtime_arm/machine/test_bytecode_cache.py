"""Kept bytecode is that of the bundle's sources, or is not used: whoever else could have written it, whatever became of
it."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from runtime_arm.machine.bytecode_cache import BytecodeCache, only_ours
from runtime_arm.machine.cache import CachePart

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and permissions are POSIX's")
BUNDLE = "/somewhere/app.pyz"
SOURCES = {"pkg/__init__.py": b"X = 1", "pkg/sub/__init__.py": b"", "pkg/sub/a.py": b"def f():\n    return __file__"}


def manifest(sources: Dict[str, bytes]) -> bytes:
    return json.dumps({"parts": {name: hashlib.sha256(part).hexdigest() for name, part in sources.items()}}).encode()


class Start:
    """One start of a bundle: what it read, and what its modules contain."""

    def __init__(self, sources: Dict[str, bytes] = SOURCES, declared: Dict[str, bytes] = SOURCES):
        self.read_files: List[str] = []
        self.files = {"MANIFEST.json": manifest(declared), **sources}
        self.code = BytecodeCache(BUNDLE, self.read)
        self.modules = {name: self.load(name) for name in ("pkg", "pkg.sub", "pkg.sub.a")}

    def read(self, path: str) -> bytes:
        name = os.path.relpath(path, BUNDLE)
        self.read_files.append(name)
        return self.files[name]

    def load(self, name: str) -> Dict[str, Any]:
        spec = self.code.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        namespace: Dict[str, Any] = {"__file__": spec.origin}
        exec(spec.loader.get_code(name), namespace)  # type: ignore[attr-defined]
        return namespace

    def keep(self) -> Start:
        self.code.keep(CachePart("code").put)
        return self

    @property
    def compiled(self) -> bool:
        return "pkg/sub/a.py" in self.read_files


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The entry that a first start has left."""
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert Start().keep().compiled
    (path,) = (tmp_path / "cache" / "code").iterdir()
    assert not Start().compiled
    return path


def hostile(entry: Path) -> bytes:
    """An entry with its seal in order, whose code is not that of the bundle."""
    start = Start()
    module = marshal.loads(entry.read_bytes()[32:])
    code = compile("X = 'hostile'", "pkg/__init__.py", "exec")
    content = marshal.dumps({**module, "pkg": module["pkg"][:16] + marshal.dumps(code)})
    return hashlib.sha256(start.code.key.encode() + content).digest() + content


def test_the_second_start_compiles_nothing_and_finds_the_same(entry: Path) -> None:
    start = Start()
    assert start.read_files == ["MANIFEST.json"]
    assert start.modules["pkg"]["X"] == 1
    assert start.modules["pkg.sub.a"]["f"]() == f"{BUNDLE}/pkg/sub/a.py"
    assert start.modules["pkg.sub.a"]["f"].__code__.co_filename == f"{BUNDLE}/pkg/sub/a.py"
    assert start.code.find_spec("numpy") is None
    assert start.code.find_spec("pkg.missing") is None
    assert entry.stat().st_mode & 0o777 == 0o600
    assert entry.parent.stat().st_mode & 0o777 == 0o700


def test_modules_that_later_starts_import_are_kept_beside_the_others(entry: Path) -> None:
    more = {**SOURCES, "pkg/b.py": b"Y = 2"}
    for _ in range(2):
        start = Start(more, more)
        start.load("pkg.b")
        start.keep()
    assert not Start(more, more).compiled
    last = Start(more, more)
    last.load("pkg.b")
    assert last.read_files == ["MANIFEST.json"]


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _of_another_bundle(path: Path) -> None:
    other = {name: part + b"\nX = 'other'" for name, part in SOURCES.items()}
    Start(other, other).keep()
    (written,) = (one for one in path.parent.iterdir() if one != path)
    os.replace(written, path)


def _no_dictionary(path: Path) -> None:
    content = marshal.dumps([1])
    path.write_bytes(hashlib.sha256(Start().code.key.encode() + content).digest() + content)


def _no_bytecode(path: Path) -> None:
    content = marshal.dumps({name.replace("/", ".")[:-3]: b"not bytecode" for name in SOURCES})
    path.write_bytes(hashlib.sha256(Start().code.key.encode() + content).digest() + content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [_shorten, _empty, _change, _of_another_bundle, _no_dictionary, _no_bytecode, _folder, _pipe]
)
def test_a_damaged_entry_costs_time_alone(entry: Path, damage: Callable[[Path], None]) -> None:
    damage(entry)
    start = Start().keep()
    assert start.compiled
    assert start.modules["pkg"]["X"] == 1
    if damage is not _folder:
        assert not Start().compiled, "it is kept again"


def _writable_by_group(path: Path) -> None:
    path.chmod(0o660)


def _writable_by_all(path: Path) -> None:
    path.chmod(0o606)


def _in_a_writable_room(path: Path) -> None:
    path.parent.chmod(0o770)


def _below_an_open_folder(path: Path) -> None:
    path.parents[1].chmod(0o777)


def _link(path: Path) -> None:
    path.rename(path.parents[2] / "elsewhere")
    path.symlink_to(path.parents[2] / "elsewhere")


def _linked_room(path: Path) -> None:
    path.parent.rename(path.parents[2] / "elsewhere")
    path.parent.symlink_to(path.parents[2] / "elsewhere")


@pytest.mark.parametrize(
    "open_it",
    [_writable_by_group, _writable_by_all, _in_a_writable_room, _below_an_open_folder, _link, _linked_room],
)
def test_what_others_may_have_written_is_not_run(entry: Path, open_it: Callable[[Path], None]) -> None:
    entry.write_bytes(hostile(entry))
    assert Start().modules["pkg"]["X"] == "hostile", "this test's code would run where only this user can write"
    open_it(entry)
    assert Start().modules["pkg"]["X"] == 1


@pytest.mark.parametrize("foreign", ["entry", "part", "folder above"])
def test_what_somebody_else_owns_is_not_run(entry: Path, foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry.write_bytes(hostile(entry))
    if os.geteuid() == 0:
        os.chown({"entry": entry, "part": entry.parent, "folder above": entry.parents[1]}[foreign], 12345, -1)
    else:
        other = os.geteuid() + 1  # who runs the program is somebody else
        monkeypatch.setattr(os, "geteuid", lambda: other)
    assert Start().modules["pkg"]["X"] == 1


def test_a_cache_behind_a_link_of_this_user_is_trusted(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = entry.parents[1]
    (root.parent / "link").symlink_to(root)
    monkeypatch.setenv("ARMNET_CACHE", str(root.parent / "link"))
    assert not Start().compiled
    root.parent.joinpath("open").mkdir(mode=0o700)
    (root.parent / "open").chmod(0o777)
    (root.parent / "open" / "link").symlink_to(root)
    monkeypatch.setenv("ARMNET_CACHE", str(root.parent / "open" / "link"))
    assert Start().compiled


def test_code_of_sources_that_the_manifest_does_not_name_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    changed = {**SOURCES, "pkg/__init__.py": b"X = 3"}
    assert Start(changed, SOURCES).keep().modules["pkg"]["X"] == 3
    assert Start(SOURCES, SOURCES).modules["pkg"]["X"] == 1


def test_nothing_is_kept_where_python_is_not_to_write_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Start().keep()
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_or_found_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        assert Start().keep().modules["pkg"]["X"] == 1
    monkeypatch.delenv("ARMNET_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert Start().keep().compiled
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_room_of_somebody_else_is_not_written(entry: Path) -> None:
    entry.unlink()
    entry.parent.chmod(0o777)
    Start().keep()
    assert list(entry.parent.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"parts": 5}', b'{"parts": {"a.py": 5}}'])
def test_a_manifest_that_is_none_is_an_error_or_finds_nothing(content: bytes) -> None:
    try:
        code = BytecodeCache(BUNDLE, lambda path: content)
    except (ValueError, KeyError, TypeError):
        return
    assert code.find_spec("runtime_arm") is None


def test_no_folder_is_nobodys(tmp_path: Path) -> None:
    assert not only_ours(str(tmp_path / "missing"))
