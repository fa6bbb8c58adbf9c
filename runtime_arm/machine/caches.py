"""The processor's caches, and the size of the blocks that suit them."""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator

from runtime_arm.records import NamedTuple

LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 20  # bytes; smaller blocks have short rows, and larger ones were not faster

MOST = 8  # the number of a core's caches
USUAL_ORDER = 2, 1, 3, 0  # in which the second-level cache is looked for; mostly it follows two of the first level


class Cache(NamedTuple):
    """kind: "data", "instruction" or "unified"."""

    level: int
    kind: str
    nbytes: int


def caches(root: str = "/") -> Iterator[Cache]:
    """The caches of the first core, in the order in which Linux lists them; none on other systems."""
    for index in range(MOST):
        level, nbytes = _level(root, index), _nbytes(root, index)
        if level and nbytes:
            yield Cache(level, _read(root, index, "type").decode("ascii", "replace").lower(), nbytes)


def block_nbytes(root: str = "/") -> int:
    """The size of blocks that stay in the second-level cache together with other data: half of the cache."""
    found = (_nbytes(root, index) for index in USUAL_ORDER if _level(root, index) == 2)
    return min(max(LEAST_BLOCK, (next(found, 0) or 2 * MOST_BLOCK) // 2), MOST_BLOCK)


@lru_cache(None)
def usual_block_nbytes() -> int:
    """``block_nbytes`` of this machine."""
    return block_nbytes()


def _level(root: str, index: int) -> int:
    """The level of a cache, 0 if there is no such cache."""
    text = _read(root, index, "level")
    return int(text) if text.isdigit() else 0


def _nbytes(root: str, index: int) -> int:
    """The size of a cache, 0 if it is unknown."""
    text = _read(root, index, "size")
    return int(text[:-1]) * 1024 if text.endswith(b"K") and text[:-1].isdigit() else 0


def _read(root: str, index: int, name: str) -> bytes:
    try:
        with open(f"{root}/sys/devices/system/cpu/cpu0/cache/index{index}/{name}", "rb", buffering=0) as file:
            return file.read(64).strip()
    except OSError:
        return b""
