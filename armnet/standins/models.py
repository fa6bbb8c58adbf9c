"""Makes pairs of the files and bytes that programs hand to a stand-in."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import Iterator, Optional, Union

from runtime_arm.files import AnyPath, one_line_errors, write_file
from runtime_arm.pair.pair import Pair

Content = Union[AnyPath, bytes]


def pair_of(source: Content, suffix: str, optimised: bool = True, signature: Optional[str] = None) -> Pair:
    """The pair of a model's file, or of the bytes of one; suffix: that of its format. signature: see ``export``.
    ArmnetError if it cannot be translated."""
    with as_file(source, suffix) as path:
        if optimised and signature is None:
            from armnet.opening import pair_of as optimised_pair_of

            return optimised_pair_of(path)
        from exporter import export
        from optimize import optimize

        pair = export(path, signature=signature)
        return optimize(pair) if optimised else pair


@contextmanager
def as_file(source: Content, suffix: str) -> Iterator[str]:
    """The path of a file with this content and this suffix, which exists inside the block."""
    if not isinstance(source, bytes) and (os.fspath(source).lower().endswith(suffix) or not os.path.isfile(source)):
        yield os.fspath(source)
        return
    with one_line_errors("a temporary folder"):
        folder = tempfile.TemporaryDirectory()
    with folder:
        path = os.path.join(folder.name, "model" + suffix)
        if isinstance(source, bytes):
            write_file(path, [source])
        else:
            os.symlink(os.path.abspath(source), path)
        yield path
