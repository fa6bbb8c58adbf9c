"""Marks regions of a program, so that an emulator can count the instructions executed in each of them.

    with region("conv1"):
        y = convolve(x)

Elsewhere a region does nothing. Regions may nest, but not within a region of the same name.
"""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path
from typing import Dict

# Removed from the environment, because child processes are not counted and must not overwrite the names.
_NAMES_FILE = os.environ.pop("ARMNET_REGION_NAMES", None)

_MARK = 0x41520000  # the counting plugin's mark for the beginning of region 0
_MAX_REGIONS = 0x8000
_numbers: Dict[str, int] = {}


class region:  # noqa: N801 - a context manager, used like a function
    """A context manager; the instructions in its body are counted for the region ``name``."""

    def __init__(self, name: str):
        number = _numbers.setdefault(name, len(_numbers))
        if number >= _MAX_REGIONS:
            raise ValueError(f"{name!r}: there are more than {_MAX_REGIONS} regions")
        self._mark = _MARK + 2 * number

    # isatty of a descriptor that does not exist is one ioctl, which the plugin sees; EBADF raises no exception here.

    def __enter__(self) -> None:
        if _NAMES_FILE:
            os.isatty(self._mark)

    def __exit__(self, *error: object) -> None:
        if _NAMES_FILE:
            os.isatty(self._mark + 1)


if _NAMES_FILE:
    atexit.register(lambda: Path(str(_NAMES_FILE)).write_text(json.dumps(list(_numbers))))
