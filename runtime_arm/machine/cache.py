"""The cache on disk: data that can be made again, kept between processes.

    ~/.cache/armnet/pairs/KEY/       pairs made of the files of other formats
    ~/.cache/armnet/programs/KEY     compiled kernels of a device
    ~/.cache/armnet/code/KEY         bytecode of bundles; ``bytecode_cache`` reads it, and decides which to trust
    ~/.cache/armnet/plans/KEY        plans of nets, as private as code; ``planning/plan_cache.py`` reads them
    ~/.cache/armnet/evaluations/     answers of interrupted evaluations; removed when they end
    ~/.cache/armnet/certificates/    certificates that ``armnet serve`` has signed itself
    ~/.cache/armnet/qemu/ ...        emulated machines; ``device_tests/host/emulation`` builds them

``$ARMNET_CACHE`` is another place for it, ``$XDG_CACHE_HOME`` one for the caches of all programs. The parts ``pairs``,
``programs``, ``code`` and ``plans`` hold entries under a hash of their sources. An entry appears whole or not at all;
one that is damaged is removed. Together they hold at most ``$ARMNET_CACHE_LIMIT`` bytes (2G if it is not set): the
least recently used are removed. If the system refuses, nothing is kept, without further harm.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator, List, Optional, TypeVar

from runtime_arm.errors import ArmnetError, ResourceError, UsageError
from runtime_arm.machine.bytecode_cache import cache_folder
from runtime_arm.records import NamedTuple

PARTS = ("pairs", "programs", "code", "plans")  # the folders whose entries may go one by one
USUAL_LIMIT = 2 << 30  # bytes
PATIENCE = 120.0  # seconds to wait for another process that makes the same entry
STALE = 86400.0  # seconds after which half-written files of killed processes are removed

Made = TypeVar("Made")
_DAMAGED = (ArmnetError, OSError, ValueError, KeyError, TypeError, EOFError)  # what a reader raises for a damaged entry
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def cache_root() -> Path:
    """``$ARMNET_CACHE``, else ``$XDG_CACHE_HOME/armnet``, else ``~/.cache/armnet``. It need not exist.

    ResourceError if the user has no home.
    """
    folder = cache_folder()
    if not folder:
        raise ResourceError("no home folder for the cache: set ARMNET_CACHE to a folder")
    return Path(folder)


def limit_nbytes() -> int:
    """The value of ``$ARMNET_CACHE_LIMIT``: a number of bytes, perhaps with K, M, G or T. UsageError if it is none."""
    text = os.environ.get("ARMNET_CACHE_LIMIT", "").strip()
    if not text:
        return USUAL_LIMIT
    return nbytes_of(text, "ARMNET_CACHE_LIMIT")


def nbytes_of(text: str, what: str) -> int:
    """A number of bytes, perhaps with K, M, G or T, of 1024 each. UsageError, naming ``what``, if the text is none."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise UsageError(f"{what} takes a number of bytes such as 500M or 2G, got {text!r}")
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()])


class Entry(NamedTuple):
    """One entry of the cache; ``used``: when it was last used, in seconds since the epoch."""

    path: Path
    nbytes: int
    used: float


class CachePart:
    """One folder of the cache. A key is a file name, such as a hash."""

    def __init__(self, name: str, root: Optional[Path] = None):
        """root: the folder of the whole cache, if it is not ``cache_root()``."""
        self._name = name
        self._root = root

    def get(self, key: str, read: Callable[[Path], Made]) -> Optional[Made]:
        """The result of ``read`` for the entry's file or folder; None if there is none.

        If ``read`` raises an ArmnetError, OSError or ValueError, the entry is damaged: it is removed, None returned.
        """
        try:
            path = self._folder() / key
            if not path.exists():
                return None
        except (OSError, ArmnetError):
            return None
        try:
            made = read(path)
        except _DAMAGED:
            _remove(path)
            return None
        with suppress(OSError):
            os.utime(path)
        return made

    def put(self, key: str, write: Callable[[Path], None]) -> Optional[str]:
        """Keep the file or folder that ``write`` writes at the given path; entries not used for long are removed.

        Returns why nothing was kept, or None.
        """
        try:
            limit, folder = limit_nbytes(), self._folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = folder / f".{key}.{os.urandom(6).hex()}"
        except (OSError, ArmnetError) as error:
            return str(error)
        try:
            write(temporary)
            nbytes = _nbytes(temporary)
            if nbytes > limit:
                return f"{nbytes} bytes are more than the cache's limit of {limit}"
            _evict(folder.parent, limit - nbytes, folder / key)
            _replace(temporary, folder / key)
        except (OSError, ArmnetError) as error:
            return str(error)
        finally:
            _remove(temporary)
        return None

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Lets the processes that make the same entry take turns, as far as the system has locks.

        It only saves work: after PATIENCE seconds a process continues, and entries are still whole.
        """
        try:
            import fcntl

            folder = self._folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / f".{key}.lock"
            lock = path.open("w")
        except (ImportError, OSError, ArmnetError):
            yield
            return
        with lock:
            patience = time.monotonic() + PATIENCE
            while time.monotonic() < patience:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.02)
                except OSError:  # a file system without locks
                    break
            try:
                yield
            finally:
                _remove(path)

    def _folder(self) -> Path:
        return (self._root or cache_root()) / self._name


def entries(folder: Path) -> List[Entry]:
    """The entries of a part, those used last first; nothing half-written."""
    return sorted((entry_of(path) for path in _paths(folder) if not path.name.startswith(".")), key=lambda e: -e.used)


def clear(folder: Path) -> int:
    """Empties a part or another folder of the cache; returns how many bytes that frees. OSError if it cannot."""
    freed = _nbytes(folder)
    shutil.rmtree(folder)
    return freed


def _evict(root: Path, allowed: int, coming: Path) -> None:
    """Removes leftovers of killed processes, and the least recently used entries until the rest take ``allowed`` bytes.

    The entry ``coming`` does not count.
    """
    found: List[Entry] = []
    for part in PARTS:
        for path in _paths(root / part):
            entry = entry_of(path)
            if path.name.startswith("."):
                if entry.used < time.time() - STALE:
                    _remove(path)
            elif path != coming:
                found.append(entry)
    total = sum(entry.nbytes for entry in found)
    for entry in sorted(found, key=lambda entry: entry.used):
        if total <= allowed:
            break
        _remove(entry.path)
        total -= entry.nbytes


def _paths(folder: Path) -> List[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def entry_of(path: Path) -> Entry:
    """One entry of a part, or a whole folder of the cache."""
    try:
        return Entry(path, _nbytes(path), path.stat().st_mtime)
    except OSError:  # another process has removed it meanwhile
        return Entry(path, 0, 0.0)


def _nbytes(path: Path) -> int:
    """The size of a file, or of all files below a folder; files that disappear meanwhile do not count."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size if path.exists() else 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _replace(temporary: Path, target: Path) -> None:
    """Gives a written file or folder its name.

    A folder that another process has written meanwhile stays: it is the same.
    """
    try:
        os.replace(temporary, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _remove(path: Path) -> None:
    """Removes a file or folder if it can; a folder disappears at once."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            doomed = path if path.name.startswith(".") else path.with_name(f".{path.name}.{os.urandom(6).hex()}")
            if doomed is not path:
                os.rename(path, doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        else:
            path.unlink()
