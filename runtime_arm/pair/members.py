"""The members of a zip archive, some of them where they lie in the mapped file.

``zipfile`` reads archives. Here sizes are also compared with memory and with what deflate can do, before anything is
inflated. What ``zipfile`` raises becomes one line.
"""

from __future__ import annotations

import struct
import zlib
from typing import Dict, Iterator
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from runtime_arm.errors import PairError
from runtime_arm.files import own_pages
from runtime_arm.machine.memory import memory_for, require_memory
from runtime_arm.records import NamedTuple

# What zipfile raises for damaged archives: RuntimeError for a flag that is wrong, OverflowError for an offset.
UNREADABLE = (OSError, ValueError, EOFError, OverflowError, RuntimeError, struct.error, zlib.error, BadZipFile)

_ENCRYPTED, _UTF_8 = 1, 0x800  # flags: of the content, of the name
MOST_INFLATED = 1032  # bytes that deflate can make of one: 258 bytes take two bits (zlib's technical details)
_ALIGNMENT = 64  # bytes, of a stored member that is used where it lies
_PIECE = 1 << 20  # bytes that are inflated at a time
_LONGEST_NAME = 200  # characters of it in an error
_LENGTHS = struct.Struct("<H2LH")  # the archive's last fields: number of entries, three others
_MANY = 0xFFFF  # a number that stands elsewhere
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # ..., length of name, length of extra field (APPNOTE 6.3.10, 4.3.7)


class Member(NamedTuple):
    """A file in an archive. place: what errors call it; data: the content of the archive, in which that of the file
    lies from begin on."""

    place: str
    entry: ZipInfo
    archive: ZipFile
    data: memoryview
    begin: int

    @property
    def nbytes(self) -> int:
        """Its size when it is inflated, as the archive says."""
        return self.entry.file_size

    @property
    def is_stored(self) -> bool:
        """Whether it is not compressed."""
        return self.entry.compress_type == ZIP_STORED

    def stored(self) -> memoryview:
        """The content of a member that is stored, where it lies; its CRC-32 is not checked."""
        if self.nbytes != self.entry.compress_size:
            raise PairError(f"{self.place}: its sizes differ, though it is not compressed")
        return self.data[self.begin : self.begin + self.nbytes]

    def content(self) -> memoryview:
        """The content, read-only: where it lies in the mapped file if it is stored in a place that suits arrays, else
        in memory of its own. PairError if it is damaged, encrypted or compressed in another way than by deflate."""
        if self.entry.flag_bits & _ENCRYPTED:
            raise PairError(f"{self.place}: is encrypted")
        if self.entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise PairError(f"{self.place}: is compressed by method {self.entry.compress_type}; only deflate is read")
        if self.is_stored and self.begin % _ALIGNMENT == 0:
            content = self.stored()
            if zlib.crc32(content) != self.entry.CRC:
                raise PairError(f"{self.place}: is damaged: its CRC-32 differs")
            return content
        return self._inflated()

    def _inflated(self) -> memoryview:
        if self.nbytes > MOST_INFLATED * self.entry.compress_size:
            raise PairError(f"{self.place}: {self.entry.compress_size} bytes cannot become {self.nbytes}")
        require_memory(self.nbytes, self.place)
        with memory_for(self.place):
            content = memoryview(own_pages((self.nbytes,), np.dtype(np.uint8)))
        done = 0
        try:
            for piece in self._pieces():
                content[done : done + len(piece)] = piece
                done += len(piece)
        except UNREADABLE as error:
            raise PairError(f"{self.place}: is damaged: {_one_line(error)}") from None
        if done != self.nbytes:
            raise PairError(f"{self.place}: is damaged: it is shorter than the archive says")
        return content.toreadonly()

    def _pieces(self) -> Iterator[bytes]:
        """Its content, no more than the archive says; the last piece only if the CRC-32 is right."""
        with self.archive.open(self.entry) as file:
            while True:
                piece = file.read(_PIECE)
                if not piece:
                    return
                yield piece


def members_of(data: memoryview, source: str) -> Dict[str, Member]:
    """The members of an archive by name, without folders. PairError, beginning with ``source``, if it is damaged, or
    names a file twice."""
    try:
        archive = ZipFile(_Content(data))
    except UNREADABLE as error:
        raise PairError(f"{source}: is no zip archive, or is damaged: {_one_line(error)}") from None
    entries = archive.infolist()
    if _count(archive, data) not in (len(entries), _MANY):
        raise PairError(f"{source}: its directory is damaged")
    members: Dict[str, Member] = {}
    for entry in entries:
        name = entry.filename
        place = f"{source}/{shown(name)}"
        if name in members:
            raise PairError(f"{place}: is there twice")
        if not name.endswith("/") or entry.file_size:
            members[name] = Member(place, entry, archive, data, _content_start(data, entry, place))
    return members


def _count(archive: ZipFile, data: memoryview) -> int:
    """How many entries the directory has, as its end says (4.3.16)."""
    end = len(data) - len(archive.comment) - _LENGTHS.size
    count, *_ = _LENGTHS.unpack_from(data, end)
    return int(count)


def _content_start(data: memoryview, entry: ZipInfo, place: str) -> int:
    """Where a member's content begins, behind its local header, which must be of the same name."""
    start = entry.header_offset
    end = start + _LOCAL_HEADER.size
    if start >= 0 and end <= len(data):
        *_, length, extra_length = _LOCAL_HEADER.unpack(data[start:end])
        name = bytes(data[end : end + length]).decode("utf-8" if entry.flag_bits & _UTF_8 else "cp437", "replace")
        if name == entry.orig_filename != "" and "\0" not in name:
            begin = int(end + length + extra_length)
            if begin + entry.compress_size > len(data):
                raise PairError(f"{place}: is cut off")
            return begin
    raise PairError(f"{place}: has no header in the archive")


def entry_of(name: str) -> ZipInfo:
    """A file of an archive that does not depend on when and where it is written."""
    entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def shown(name: str) -> str:
    """A name as errors tell it: in one line that is not too long."""
    return (name if name.isprintable() else repr(name))[:_LONGEST_NAME]


def _one_line(error: Exception) -> str:
    return shown(str(error) or type(error).__name__)


class _Content:
    """The content of an archive as the file from which ``zipfile`` reads."""

    def __init__(self, data: memoryview):
        self._data, self._at = data, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        at = offset + (0, self._at, len(self._data))[whence]
        if at < 0:
            raise OSError(f"there is nothing at {at}")
        self._at = at
        return at

    def read(self, count: int = -1) -> bytes:
        end = len(self._data) if count < 0 else self._at + count
        piece = bytes(self._data[self._at : end])
        self._at += len(piece)
        return piece
