"""Pairs made of the files of other formats, kept in the cache: a model is exported and optimised once.

The name of an entry depends on the content of all files of the model, including its weights, on the options of the
export, and on the version of armnet. Beside the pair's files is the hash of model.json, which holds the hashes of the
other files.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Sequence, Tuple, Union

from runtime_arm import version
from runtime_arm.errors import OptimizationError, PairError
from runtime_arm.files import AnyPath, map_file, write_file
from runtime_arm.machine.cache import CachePart
from runtime_arm.pair.metadata import MODEL
from runtime_arm.pair.pair import Pair

Source = Union[AnyPath, bytes, bytearray, memoryview]
Notice = Callable[[str], None]
Progress = Callable[[str, int, int], None]

PART = "pairs"
SEAL = "model.sha256"  # the file with the SHA-256 of model.json
RECIPE = 1  # raised when the same version of armnet makes other pairs
# An entry of a tensor's external_data: key "location" and the path, whose length is a varint of one or two bytes.
_LOCATION = re.compile(rb"\n\x08location\x12([\x00-\x7f]|[\x80-\xff][\x01-\x7f])")


def source_pair(
    sources: Sequence[Source],
    *,
    signature: Optional[str] = None,
    notice: Optional[Notice] = None,
    progress: Optional[Progress] = None,
) -> Pair:
    """The optimised pair of a model's files, or of the content of one; from the cache if it is there.

    signature: the signature of a TFLite model. notice: called with what the user should know. progress: as for
    ``exporter.export``. ExportError, FormatError, ResourceError or UsageError, naming the file, if it is no model.
    """
    part, key = CachePart(PART), _key(sources, signature)
    pair = part.get(key, _read)
    if pair is None:
        with part.turn(key):
            pair = part.get(key, _read)  # another process may have made it meanwhile
            if pair is None:
                pair = _made(sources, signature, notice, progress)
                part.put(key, pair_writer(pair))
    return _renamed(pair, sources[0])


def pair_writer(pair: Pair) -> Callable[[Path], None]:
    """Writes a pair and the seal of its model.json into a new folder."""

    def write(folder: Path) -> None:
        pair.save(folder)
        write_file(folder / SEAL, [hashlib.sha256(map_file(folder / MODEL)).digest()])

    return write


def _read(folder: Path) -> Pair:
    """The pair in the cache. PairError if it is damaged."""
    if hashlib.sha256(map_file(folder / MODEL)).digest() != bytes(map_file(folder / SEAL)):
        raise PairError(f"{folder}: {MODEL} is damaged")
    return Pair.load(folder)


def _made(
    sources: Sequence[Source], signature: Optional[str], notice: Optional[Notice], progress: Optional[Progress]
) -> Pair:
    from exporter import export
    from optimize import optimize
    from optimize.rewriting.report import quiet

    plain = export(*sources, signature=signature, progress=progress)
    try:
        return optimize(plain, progress=progress or quiet)
    except OptimizationError as error:
        if notice is not None:
            notice(f"the model runs as it is, not optimised: {error}")
        return plain


def _renamed(pair: Pair, source: Source) -> Pair:
    """The pair with this file's name as the name of its source: another file may have had the same content."""
    origin = pair.meta.get("source") or {}
    if not isinstance(source, (str, os.PathLike)) or origin.get("name") == os.path.basename(source):
        return pair
    return pair.replace(meta={**pair.meta, "source": {**origin, "name": os.path.basename(source)}})


# The key of an entry


def _key(sources: Sequence[Source], signature: Optional[str]) -> str:
    digest = hashlib.sha256(repr((RECIPE, version.VERSION, _checkout(), signature)).encode())
    for source in sources:
        if isinstance(source, (bytes, bytearray, memoryview)):
            digest.update(hashlib.sha256(source).digest())
            continue
        content = map_file(source)
        digest.update(Path(source).suffix.lower().encode() + hashlib.sha256(content).digest())
        for path in _weight_files(Path(source), content):
            digest.update(hashlib.sha256(map_file(path)).digest())
    return digest.hexdigest()


def _weight_files(model: Path, content: memoryview) -> Iterator[Path]:
    """The files beside an ONNX model that hold weights."""
    if model.suffix.lower() != ".onnx":
        return
    names = {_text(content, found.end(), found.group(1)) for found in _LOCATION.finditer(content)}
    for name in sorted(names):
        path = model.parent / os.fsdecode(name)
        if b"\0" not in name and not os.path.isabs(name) and path.is_file():
            yield path


def _text(content: memoryview, at: int, size: bytes) -> bytes:
    """The text of so many bytes."""
    length = size[0] if len(size) == 1 else (size[0] & 0x7F) | size[1] << 7
    return bytes(content[at : at + length])


def _checkout() -> Tuple[Tuple[str, int, int], ...]:
    """Name, size and time of every file that makes pairs, if armnet runs from a checkout; else nothing."""
    root = Path(version.__file__).parents[1]
    if not (root / "pyproject.toml").is_file():
        return ()
    found: List[Tuple[str, int, int]] = []
    for package in ("exporter", "optimize", "runtime_arm"):
        for folder, _, names in os.walk(root / package):
            for name in names:
                if name.endswith(".py"):
                    facts = os.stat(os.path.join(folder, name))
                    found.append((os.path.join(folder, name), facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))
