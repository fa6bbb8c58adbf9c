"""The processor's caches, and the size of the blocks that suit them."""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator, NamedTuple

LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 20  # bytes; rows of smaller blocks are short, and no larger one was faster

MOST = 8  # caches of a core
USUAL_ORDER = 2, 1, 3, 0  # where the second-level cache is looked for: mostly behind two of the first level


class Cache(NamedTuple):
    """kind: "data", "instruction" or "unified"."""

    level: int
    kind: str
    nbytes: int


def caches(root: str = "/") -> Iterator[Cache]:
    """Those of the first core, as Linux tells them, in its order; nothing where it does not."""
    for index in range(MOST):
        level, nbytes = _level(root, index), _nbytes(root, index)
        if level and nbytes:
            yield Cache(level, _read(root, index, "type").decode("ascii", "replace").lower(), nbytes)


def block_nbytes(root: str = "/") -> int:
    """What a block may take that stays in the second-level cache beside what is read and written: half of it."""
    found = (_nbytes(root, index) for index in USUAL_ORDER if _level(root, index) == 2)
    return min(max(LEAST_BLOCK, (next(found, 0) or 2 * MOST_BLOCK) // 2), MOST_BLOCK)


@lru_cache(None)
def usual_block_nbytes() -> int:
    """``block_nbytes`` of this machine."""
    return block_nbytes()


def _level(root: str, index: int) -> int:
    """0 where there is none."""
    text = _read(root, index, "level")
    return int(text) if text.isdigit() else 0


def _nbytes(root: str, index: int) -> int:
    """0 where that is not told."""
    text = _read(root, index, "size")
    return int(text[:-1]) * 1024 if text.endswith(b"K") and text[:-1].isdigit() else 0


def _read(root: str, index: int, name: str) -> bytes:
    try:
        with open(f"{root}/sys/devices/system/cpu/cpu0/cache/index{index}/{name}", "rb", buffering=0) as file:
            return file.read(64).strip()
    except OSError:
        return b""
