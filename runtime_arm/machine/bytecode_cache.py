"""Compiled code of a bundle, kept from start to start: ``~/.cache/armnet/code/KEY``.

Python compiles modules from a zip file again in each start. An entry belongs to one bundle, by the hash of its
manifest, and to one Python. It holds the bytecode of the modules that were imported, after a hash of all that. Code is
kept only for sources that match the manifest. Bytecode that somebody else wrote could do anything, so an entry is used
only if this user owns it and its folder, nobody else may write to either, and no folder above lets others replace it.
Otherwise, or if the entry is damaged, the sources are compiled.

A bundle runs this file before it can import anything of the runtime, so it imports nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import stat
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from typing import Any, Callable, Dict, Optional

PART = "code"


def cache_folder() -> str:
    """``$ARMNET_CACHE``, else ``$XDG_CACHE_HOME/armnet``, else ``~/.cache/armnet``; "" if the user has no home.

    A home that does not exist is none: the folder of a system's user, such as ``/nonexistent``, is never made.
    """
    chosen = os.environ.get("ARMNET_CACHE")
    if chosen:
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if not base:
        home = os.path.expanduser("~")
        if not os.path.isdir(home):
            return ""
        base = os.path.join(home, ".cache")
    return os.path.join(os.path.abspath(base), "armnet")


def only_ours(folder: str) -> bool:
    """Whether the folder is this user's, only this user can write to it, and nobody else can replace it."""
    try:
        return _is_private(os.lstat(folder)) and _stands_fast(folder) and _stands_fast(os.path.realpath(folder))
    except (OSError, AttributeError):  # AttributeError: a system whose files have no owners
        return False


def _is_private(found: os.stat_result) -> bool:
    private = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return private and not stat.S_ISLNK(found.st_mode)


def _stands_fast(path: str) -> bool:
    """Whether every folder above, and every link among them, is this user's or the system's, and not open to all."""
    if hasattr(sys, "getandroidapilevel"):  # an app's files lie below folders of the system's users, closed to others
        return True
    above = os.path.dirname(path)
    found = os.lstat(above)
    is_open = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX and not stat.S_ISLNK(found.st_mode)
    return not is_open and found.st_uid in (0, os.geteuid()) and (above == path or _stands_fast(above))


class BytecodeCache:
    """Finds the modules of a bundle, and keeps their code.

    bundle: its path. read: the content of a file in it. OSError, ValueError, KeyError or TypeError if the manifest is
    invalid; then Python's own finder is used, and the runtime reports the error.
    """

    def __init__(self, bundle: str, read: Callable[[str], bytes]):
        manifest = read(os.path.join(bundle, "MANIFEST.json"))
        python = (sys.implementation.cache_tag, sys.hexversion, MAGIC_NUMBER, sys.flags.optimize)
        self.key = hashlib.sha256(manifest + repr(python).encode()).hexdigest()
        self.bundle = bundle
        self.read = read
        self.hashes: Dict[str, str] = dict(json.loads(manifest)["parts"])
        self.new: Dict[str, bytes] = {}
        self.kept = self._entry()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """The protocol of ``sys.meta_path``."""
        stem = name.replace(".", "/")
        for part, below in ((f"{stem}/__init__.py", [os.path.join(self.bundle, stem)]), (f"{stem}.py", None)):
            if part in self.hashes:
                loader = _Loader(name, os.path.join(self.bundle, part), self, self.hashes[part])
                return spec_from_file_location(name, loader.path, loader=loader, submodule_search_locations=below)
        return None

    def keep(self, put: Callable[[str, Callable[[Any], None]], Any]) -> None:
        """Keep the code that was compiled. put: that of the cache's part, which is made if it is not there."""
        if self.new:
            put_sealed(PART, self.key, marshal.dumps({**self._entry(), **self.new}), put)

    def _entry(self) -> Dict[str, bytes]:
        """The bytecode that is kept, by module."""
        try:
            return dict(marshal.loads(sealed_entry(PART, self.key) or b""))
        except (ValueError, EOFError, TypeError):
            return {}


def sealed_entry(part: str, key: str) -> Optional[bytes]:
    """The content of an entry of a part to which nobody else can write.

    None if there is no entry, or if it is damaged or could be someone else's.
    """
    root = cache_folder()
    if not root:
        return None
    folder = os.path.join(root, part)
    try:
        with open(os.path.join(folder, key), "rb", opener=_opened) as file:
            if not (_is_private(os.fstat(file.fileno())) and only_ours(folder)):
                return None
            content = file.read()
            if _seal(key, content[32:]) != content[:32]:
                return None
            os.utime(file.fileno())
            return content[32:]
    except (OSError, AttributeError):
        return None


def put_sealed(part: str, key: str, content: bytes, put: Callable[[str, Callable[[Any], None]], Any]) -> None:
    """Keep an entry, unless others could write to the part. put: that of the part, which is made if it is not there."""
    root = cache_folder()
    folder = os.path.join(root, part)
    if root and (only_ours(folder) or not os.path.lexists(folder)):
        put(key, lambda path: _write(path, _seal(key, content) + content))


def _seal(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()


class _Loader(SourceFileLoader):
    """Loads one module: from bytecode that is kept, else from its source."""

    def __init__(self, name: str, path: str, code: BytecodeCache, sha256: str):
        super().__init__(name, path)
        self._code = code
        self._sha256 = sha256
        self._is_genuine = False

    def path_stats(self, path: Any) -> Dict[str, Any]:
        return {"mtime": 0, "size": None}

    def get_data(self, path: Any) -> bytes:
        if str(path).endswith(".pyc"):
            if self.name not in self._code.kept:
                raise OSError("not kept")
            return self._code.kept.pop(self.name)
        source = self._code.read(path)
        self._is_genuine = hashlib.sha256(source).hexdigest() == self._sha256
        return source

    def set_data(self, path: Any, data: Any, *, _mode: int = 0) -> None:
        if self._is_genuine:
            self._code.new[self.name] = bytes(data)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _write(path: Any, content: bytes) -> None:
    with open(path, "wb", opener=lambda path, flags: os.open(path, flags | os.O_EXCL, 0o600)) as file:
        file.write(content)
