"""The threads of NumPy's BLAS, set around a run without any package but NumPy.

OpenBLAS is found among the libraries that the process has mapped and spoken to through ctypes; NumPy's wheels carry
it under prefixed or suffixed symbol names. Wheels of other packages, such as OpenCV's, carry an OpenBLAS of their own,
which is none of NumPy's. Another BLAS, or a system without /proc, is left as it is.
"""

from __future__ import annotations

import ctypes
import os
from threading import Lock
from typing import Any, Callable, Iterable, List, Optional

import numpy as np

from runtime_arm.records import NamedTuple

# OpenBLAS's kernels without NEON. Debian's for 32-bit ARM has those for ARMV6, whatever the CPU, which may lack it.
SCALAR_CORES = ("ARMV5", "ARMV6")
WIDE_CORES = ("SkylakeX", "Cooperlake", "SapphireRapids")  # its kernels for AVX-512
_SPELLINGS = tuple(prefix + "openblas_{}" + suffix for prefix in ("scipy_", "") for suffix in ("64_", ""))


class OpenBlas(NamedTuple):
    """The loaded OpenBLAS: its file, its functions and its description. spelling: of the names of its functions."""

    path: str
    get_threads: Callable[[], int]
    set_threads: Callable[[int], None]
    core: str
    config: str
    spelling: str = "openblas_{}"


_found: List[Optional[OpenBlas]] = []  # the result of the search, once it is done
_searching = Lock()


def loaded() -> Optional[OpenBlas]:
    """The OpenBLAS with which NumPy multiplies, or None. It is searched for once, after NumPy is imported."""
    if not _found:
        with _searching:
            if not _found:
                spoken = (_speak_to(path) for path in _mapped_libraries())
                _found.append(next((blas for blas in spoken if blas is not None), None))
    return _found[0]


def is_wide() -> bool:
    """Whether NumPy multiplies with OpenBLAS's kernels for AVX-512."""
    library = loaded()
    return library is not None and library.core in WIDE_CORES


def _mapped_libraries() -> List[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = dict.fromkeys(line.split(maxsplit=5)[5].strip() for line in maps if "/" in line)
    except OSError:
        return []
    return numpys_first(path for path in paths if _is_blas(os.path.basename(path)))


def _is_blas(name: str) -> bool:
    return "openblas" in name or name.startswith("libblas")


def numpys_first(paths: Iterable[str]) -> List[str]:
    """The libraries that NumPy can have: those of its own wheel, then the system's; none of other packages' wheels."""
    home = os.path.dirname(np.__file__)
    own = (home + os.sep, home + ".libs" + os.sep)
    candidates = [path for path in paths if path.startswith(own) or ".libs" + os.sep not in path]
    return sorted(candidates, key=lambda path: not path.startswith(own))


def _speak_to(path: str) -> Optional[OpenBlas]:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for spelling in _SPELLINGS:
        setter: Any = getattr(library, spelling.format("set_num_threads"), None)
        getter: Any = getattr(library, spelling.format("get_num_threads"), None)
        if setter is None or getter is None:
            continue
        setter.argtypes, setter.restype = [ctypes.c_int], None
        getter.argtypes, getter.restype = [], ctypes.c_int
        core, config = (_text(library, spelling.format(name)) for name in ("get_corename", "get_config"))
        if "USE_OPENMP" not in config:  # such threads are not OpenBLAS's own, and OpenMP has a number of its own
            setter = _quiet_setter(library, setter)
        return OpenBlas(path, getter, setter, core, config, spelling)
    return None


def _quiet_setter(library: Any, setter: Callable[[int], None]) -> Callable[[int], None]:
    """Sets the number of threads, and starts none.

    A fork ends OpenBLAS's threads. Its own function starts them again, and each then spins for 2**26 ticks, 20 to 30
    ms, on a core that a worker needs: the first ten runs with workers took twice as long. So while there are no threads
    the number is written to its variable; the next product that is split starts them (``exec_blas`` in OpenBLAS's
    driver/others/blas_server.c).
    """
    try:
        number, most, are_running = (
            ctypes.c_int.in_dll(library, name) for name in ("blas_cpu_number", "blas_num_threads", "blas_server_avail")
        )
    except ValueError:  # a build that hides them, or one for one thread
        return setter

    def set_threads(count: int) -> None:
        if are_running.value or not 0 < count <= most.value:
            setter(count)
        else:
            number.value = count

    return set_threads


def routine(name: str) -> Optional[Any]:
    """A routine of the loaded OpenBLAS by C's interface ("sgemm" for ``cblas_sgemm``), without argument types; None
    where there is none."""
    library = loaded()
    if library is None:
        return None
    return getattr(ctypes.CDLL(library.path), library.spelling.replace("openblas_", "cblas_").format(name), None)


def integer() -> Any:
    """The C type of the sizes that the loaded OpenBLAS takes."""
    library = loaded()
    return ctypes.c_int64 if library is not None and "USE64BITINT" in library.config else ctypes.c_int32


def _text(library: Any, symbol: str) -> str:
    function: Any = getattr(library, symbol, None)
    if function is None:
        return ""
    function.argtypes, function.restype = [], ctypes.c_char_p
    return (function() or b"").decode("utf-8", "replace")


_lock = Lock()
_wanted: List[int] = []  # by the bodies that are running, possibly in several threads
_former = 0  # before the first of them
_now = 0  # the present number of threads


class Threads:
    """``with Threads(count):`` runs the body with this many BLAS threads, and then restores the former number.

    The number holds for the whole process: bodies that run at the same time use the smallest of their numbers, and the
    last one to end restores the former number. It may be used again, and by several bodies at a time.
    """

    def __init__(self, count: int):
        self._count = count
        self._blas = loaded()

    def __enter__(self) -> None:
        global _former, _now
        if self._blas is not None:
            with _lock:
                if not _wanted:
                    _former = _now = self._blas.get_threads()
                _wanted.append(self._count)
                if _now != self._count:
                    _set(self._blas, min(_wanted))

    def __exit__(self, *exception: object) -> None:
        if self._blas is not None:
            with _lock:
                _wanted.remove(self._count)
                if _wanted:
                    _set(self._blas, min(_wanted))
                elif _now != _former:
                    self._blas.set_threads(_former)


def _set(blas: OpenBlas, count: int) -> None:
    global _now
    if _now != count:
        blas.set_threads(count)
        _now = blas.get_threads()  # a build for one core stays at one
