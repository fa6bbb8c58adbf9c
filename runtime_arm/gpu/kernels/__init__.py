"""The kernels, in OpenCL C. ``common.cl`` says how blobs lie in memory and which words the kernels use."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from typing import Mapping, Union

Define = Union[int, float, str]


@lru_cache(maxsize=None)  # noqa: UP033
def _text(name: str) -> str:
    content = pkgutil.get_data(__name__, f"{name}.cl")
    assert content is not None, name
    return content.decode()


def source_of(name: str, defines: Mapping[str, Define]) -> str:
    """The source of a file of kernels, after macros and the functions that all kernels share."""
    macros = "".join(f"#define {key} {value}\n" for key, value in sorted(defines.items()))
    return f"{macros}{_text('common')}\n{_text(name)}"
