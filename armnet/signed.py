"""Opens a bundle only if a trusted person has signed it."""

from __future__ import annotations

from typing import Tuple

from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.pair.archive import open_archive
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.signatures.keys import read_public_keys
from runtime_arm.pair.signatures.signature import Verified, require_signature


def open_signed(path: AnyPath, keys: AnyPath) -> Tuple[Pair, Verified]:
    """The pair of a bundle, and who signed it. keys: a file, or a folder of .pub files.

    The signature is checked before anything else in the file is read, and exactly the checked content is opened. None
    of the bundle's code runs. PairError if it is not signed with one of the keys, or was changed.
    """
    trusted = read_public_keys(keys)
    content = map_file(path)
    if bytes(content[:2]) not in (b"#!", b"PK"):
        raise UsageError(f"{path}: is not a bundle, and only bundles carry signatures; armnet pack makes them")
    found = require_signature(content, trusted, path)
    return Pair.from_buffers(open_archive(path, content).pair_files(), str(path)), found
