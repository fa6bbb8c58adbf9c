"""A pair in a zip file: what its folder holds, deflated, as one file to download, copy and mail.

    init_net.pb, predict_net.pb, model.json, tuning.json      as in the folder (see ``runtime_arm.pair.pair``)

Any program can unpack it, and a folder that somebody has zipped is read, too: its files lie at the top or in the one
folder of the archive.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Dict, Iterable, Iterator, List, Mapping, Tuple
from zipfile import ZIP_DEFLATED, ZipFile

from runtime_arm.errors import PairError, ResourceError
from runtime_arm.files import AnyPath, Chunk, map_file, one_line_errors, write_file
from runtime_arm.machine.memory import require_memory
from runtime_arm.pair.members import Member, entry_of, members_of, shown
from runtime_arm.pair.metadata import FILES, LARGEST, MODEL, PREDICT_NET, only_name
from runtime_arm.pair.tuned import TUNING

_STEP = 1 << 20  # bytes that are deflated at a time
_MOST = (1 << 31) - 1 - (1 << 27)  # bytes of a file that a zip file without extensions holds, deflated or not
_LISTED = 3  # names in an error


def pair_files(members: Mapping[str, Member], source: str) -> Dict[str, memoryview]:
    """The content of the files of the pair, by their names in a folder. PairError, saying what is there instead, for an
    archive of something else."""
    for name in members:
        path = _path(name)
        if path.is_absolute() or ".." in path.parts:
            raise PairError(f"{source}: the name {shown(name)!r} leads out of the archive")
    folder = members_in_folder(members, source)
    found = {name: folder[only_name(folder, name, source)] for name in FILES}
    found.update({name: folder[name] for name in (MODEL, TUNING) if name in folder})
    for name, member in found.items():
        if name not in FILES and member.nbytes > LARGEST:
            raise PairError(f"{member.place}: {member.nbytes} bytes are too many")
    require_memory(sum(member.nbytes for member in found.values()), source)
    return {name: member.content() for name, member in found.items()}


def members_in_folder(members: Mapping[str, Member], source: str) -> Dict[str, Member]:
    """The members that lie where the pair lies, by their names there."""
    paths = {_path(name): member for name, member in members.items()}
    if len(paths) < len(members):
        raise PairError(f"{source}: names a file twice")
    folders = {path.parent for path in paths if path.name.endswith(PREDICT_NET)}
    near = [folder for folder in folders if len(folder.parts) <= 1 and folder.name != "__MACOSX"]
    if len(near) != 1:
        if near:
            homes = sorted(shown(str(folder)) for folder in near)[:_LISTED]
            raise PairError(f"{source}: holds several pairs, in {' and '.join(homes)}")
        more = len(members) - _LISTED
        listed = ", ".join(map(shown, [*members][:_LISTED])) + (f" and {more} more" if more > 0 else "")
        raise PairError(f"{source}: a zip file without a pair: {listed or 'it is empty'}")
    return {path.name: member for path, member in paths.items() if path.parent == near[0]}


def _path(name: str) -> PurePosixPath:
    """The path that a name means. Windows PowerShell 5 separates folders by backslashes."""
    return PurePosixPath(name.replace("\\", "/"))


def holds_pair(path: AnyPath) -> bool:
    """Whether a zip file holds a pair, as far as the names in it tell."""
    try:
        return bool(members_in_folder(members_of(map_file(path), str(path)), str(path)))
    except PairError:
        return False


def file_in(path: AnyPath, name: str) -> memoryview:
    """The content of another file beside those of the pair. PairError if there is none of that name."""
    members = members_in_folder(members_of(map_file(path), str(path)), str(path))
    if name not in members:
        raise PairError(f"{path}: holds no {name}")
    return members[name].content()


def write_zip(path: AnyPath, files: Iterable[Tuple[str, Iterable[Chunk]]]) -> None:
    """Write these files, each a name and its content in pieces, as a zip file that appears whole or not at all."""
    with one_line_errors(path):
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    write_file(path, zipped(files))


def zipped(files: Iterable[Tuple[str, Iterable[Chunk]]]) -> Iterator[bytes]:
    """The bytes of a zip file of these files, in pieces. Equal files give equal bytes, where zlib is the same."""
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_DEFLATED) as archive:  # type: ignore[call-overload]  # needs no more than write
        for name, chunks in files:
            entry = entry_of(name)
            entry.compress_type = ZIP_DEFLATED
            with archive.open(entry, "w") as target:
                for piece in _steps(name, chunks):
                    target.write(piece)
                    yield sink.taken()
    yield sink.taken()


def _steps(name: str, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The content in pieces of a moderate size."""
    nbytes = 0
    for chunk in chunks:
        nbytes += len(chunk)
        if nbytes > _MOST:
            raise ResourceError(f"{name} is too large for a zip file, more than {_MOST:,} bytes: name a folder")
        for start in range(0, len(chunk), _STEP):
            yield chunk[start : start + _STEP]


class _Sink:
    """What was written to it and not taken yet."""

    def __init__(self) -> None:
        self._pieces: List[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """ZipFile asks for it."""

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
