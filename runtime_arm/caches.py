"""The processor's caches, and the size of the blocks that suit them."""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator, NamedTuple

LEAST_BLOCK, MOST_BLOCK = 1 << 18, 1 << 20  # bytes; rows of smaller blocks are short, and no larger one was faster


class Cache(NamedTuple):
    """kind: "data", "instruction" or "unified"."""

    level: int
    kind: str
    nbytes: int


def caches(root: str = "/") -> Iterator[Cache]:
    """Those of the first core, as Linux tells them, in its order; nothing where it does not."""
    for index in range(8):
        folder = f"{root}/sys/devices/system/cpu/cpu0/cache/index{index}"
        try:
            level, kind, size = (_line(f"{folder}/{name}") for name in ("level", "type", "size"))
        except OSError:
            return
        if level.isdecimal() and size[:-1].isdecimal() and size.endswith("K"):
            yield Cache(int(level), kind.lower(), int(size[:-1]) * 1024)


def block_nbytes(root: str = "/") -> int:
    """What a block may take that stays in the second-level cache beside what is read and written: half of it."""
    second = next((cache.nbytes for cache in caches(root) if cache.level == 2), 2 * MOST_BLOCK)
    return min(max(LEAST_BLOCK, second // 2), MOST_BLOCK)


@lru_cache(None)
def usual_block_nbytes() -> int:
    """``block_nbytes`` of this machine."""
    return block_nbytes()


def _line(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(64).strip()
