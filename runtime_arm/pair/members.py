"""The members of a zip archive, where they lie in the mapped file (PKWARE's APPNOTE 6.3.10, sections 4.3 to 4.5).

Nothing that an archive says is believed: sizes are held against the file and against memory before anything is
inflated, and what was inflated against its size and its CRC-32. ``zipfile`` checks less, and takes longer to import
than a small network takes to load.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Dict, Iterator, Tuple

import numpy as np

from runtime_arm.errors import PairError
from runtime_arm.files import own_pages
from runtime_arm.machine.memory import memory_for, require_memory
from runtime_arm.records import NamedTuple

if TYPE_CHECKING:
    from zipfile import ZipInfo

STORED, DEFLATED = 0, 8  # methods of compression
_ENCRYPTED = 1  # a flag
_MOST_MEMBERS = 1 << 14  # a bundle has a few hundred
_MOST_INFLATED = 1032  # bytes that deflate can make of one: 258 bytes take two bits (zlib's technical details)
_ALIGNMENT = 64  # bytes, of a stored member that is used where it lies
_PIECE = 1 << 16  # bytes that are inflated at a time
_LONGEST_NAME = 200  # characters of it in an error
_MOST_AT_ONCE = 1 << 20  # bytes that they become at a time

_LOCAL = struct.Struct("<4s5H3L2H")  # ..., length of name, length of extra field
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")  # ..., size and offset of the central directory, length of the comment
_LOCATOR_64, _END_64 = struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_LONGEST_COMMENT = 0xFFFF
_ELSEWHERE, _EXTRA_64 = 0xFFFFFFFF, 1  # a size that stands in the extra field of that number


class Member(NamedTuple):
    """A file in an archive. packed: its content as it lies there; nbytes: its size when it is inflated; aligned:
    whether it lies at a multiple of 64 bytes; place: what errors call it."""

    place: str
    method: int
    flags: int
    crc: int
    packed: memoryview
    nbytes: int
    aligned: bool

    def content(self) -> memoryview:
        """The content, read-only: where it lies in the mapped file if it is stored in a place that suits arrays, else
        in memory of its own. PairError if it is damaged, encrypted or compressed in another way than by deflate."""
        if self.flags & _ENCRYPTED:
            raise PairError(f"{self.place}: is encrypted")
        if self.method not in (STORED, DEFLATED):
            raise PairError(f"{self.place}: is compressed by method {self.method}; only deflate is read")
        import zlib

        try:
            if self.method == STORED and self.aligned:
                content, crc = self.packed, zlib.crc32(self.packed)
            else:
                content, crc = self._inflated()
        except zlib.error as error:
            raise PairError(f"{self.place}: is damaged: {error}") from None
        if len(content) != self.nbytes or crc != self.crc:
            raise PairError(f"{self.place}: is damaged: its size or its CRC-32 differs")
        return content

    def _inflated(self) -> Tuple[memoryview, int]:
        """As much as is there of what should be, in memory of its own, and its CRC-32."""
        import zlib

        if self.nbytes > _MOST_INFLATED * len(self.packed):
            raise PairError(f"{self.place}: {len(self.packed)} bytes cannot become {self.nbytes}")
        require_memory(self.nbytes, self.place)
        with memory_for(self.place):
            content = memoryview(own_pages((self.nbytes,), np.dtype(np.uint8)))
        done, crc = 0, 0
        for piece in self._pieces():
            if done + len(piece) > self.nbytes:
                raise PairError(f"{self.place}: is larger than the archive says")
            content[done : done + len(piece)] = piece
            done, crc = done + len(piece), zlib.crc32(piece, crc)
        return content[:done].toreadonly(), crc

    def _pieces(self) -> Iterator[memoryview]:
        import zlib

        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        for start in range(0, len(self.packed), _PIECE):
            left = self.packed[start : start + _PIECE]
            if self.method == STORED:
                yield left
                continue
            while True:
                piece = inflater.decompress(left, _MOST_AT_ONCE)
                yield memoryview(piece)
                left = memoryview(inflater.unconsumed_tail)
                if inflater.eof or (not left and len(piece) < _MOST_AT_ONCE):
                    break


def entry_of(name: str) -> ZipInfo:
    """A file of an archive that does not depend on when and where it is written."""
    from zipfile import ZipInfo

    entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def shown(name: str) -> str:
    """A name as errors tell it: in one line that is not too long."""
    return (name if name.isprintable() else repr(name))[:_LONGEST_NAME]


def members_of(data: memoryview, source: str) -> Dict[str, Member]:
    """The members of an archive by name, without folders. PairError, beginning with ``source``, if it is damaged, or
    names a file twice."""
    members: Dict[str, Member] = {}
    for text, flags, method, crc, sizes in _entries(data, source):
        nbytes, packed, offset = sizes
        name = text.decode("utf-8", "replace")
        place = f"{source}/{shown(name)}"
        if name in members:
            raise PairError(f"{place}: is there twice")
        begin = _content_start(data, offset, text, place)
        if begin + packed > len(data):
            raise PairError(f"{place}: is cut off")
        content = data[begin : begin + packed]
        members[name] = Member(place, method, flags, crc, content, nbytes, begin % _ALIGNMENT == 0)
    return members


def _entries(data: memoryview, source: str) -> Iterator[Tuple[bytes, int, int, int, Tuple[int, ...]]]:
    """Name, flags, method, CRC-32 and (size, size in the archive, offset) of every file that the directory names."""
    at, end = _directory(data, source)
    count = 0
    while at < end:
        head = at + _CENTRAL.size
        if head > end or count == _MOST_MEMBERS:
            raise PairError(f"{source}: its directory is {'damaged' if head > end else 'too long'}")
        mark, _, _, flags, method, _, _, crc, packed, nbytes, *lengths, _, _, _, offset = _CENTRAL.unpack(data[at:head])
        at, count = head + sum(lengths), count + 1
        text = bytes(data[head : head + lengths[0]])
        if mark != b"PK\1\2" or at > end or not text or 0 in text:
            raise PairError(f"{source}: its directory is damaged")
        if text.endswith(b"/") and not nbytes:
            continue
        extra = data[head + lengths[0] : head + lengths[0] + lengths[1]]
        yield text, flags, method, crc, _wide((nbytes, packed, offset), extra)


def _directory(data: memoryview, source: str) -> Tuple[int, int]:
    """Where the central directory begins and ends."""
    tail = max(0, len(data) - _END.size - _LONGEST_COMMENT)
    at = tail + bytes(data[tail:]).rfind(b"PK\5\6")
    if at < tail or at + _END.size > len(data):
        raise PairError(f"{source}: is no zip archive, or is cut off")
    *_, size, start, _ = _END.unpack(data[at : at + _END.size])
    before = at - _LOCATOR_64.size
    if before >= 0 and bytes(data[before : before + 4]) == b"PK\6\7":
        _, _, wide, _ = _LOCATOR_64.unpack(data[before:at])
        if wide + _END_64.size <= before and bytes(data[wide : wide + 4]) == b"PK\6\6":
            *_, size, start = _END_64.unpack(data[wide : wide + _END_64.size])
    if start + size > at:
        raise PairError(f"{source}: its directory is damaged")
    return start, start + size


def _wide(sizes: Tuple[int, int, int], extra: memoryview) -> Tuple[int, ...]:
    """Size, size in the archive and offset, as 64-bit numbers where the extra field has them (4.5.3)."""
    at = 0
    while at + 4 <= len(extra):
        number, length = struct.unpack("<HH", extra[at : at + 4])
        if number == _EXTRA_64:
            count = min(length, len(extra) - at - 4) // 8
            given = iter(struct.unpack_from(f"<{count}Q", extra, at + 4))
            return tuple(next(given, size) if size == _ELSEWHERE else size for size in sizes)
        at += 4 + length
    return sizes


def _content_start(data: memoryview, offset: int, name: bytes, place: str) -> int:
    """Where a member's content begins, behind its local header, which must be of the same name."""
    end = offset + _LOCAL.size
    if end <= len(data) and bytes(data[offset : offset + 4]) == b"PK\3\4":
        *_, length, extra = _LOCAL.unpack(data[offset:end])
        if bytes(data[end : end + length]) == name:
            return int(end + length + extra)
    raise PairError(f"{place}: has no header in the archive")
