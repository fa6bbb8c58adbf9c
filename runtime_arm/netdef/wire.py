"""Reads protobuf's wire format from a buffer: the fields of a message as spans, runs of scalars as NumPy arrays.

A run is an unpacked repeated scalar: equal one-byte tags, each followed by a value. ``fields`` yields a run as one
span, and the decoders in this module convert such a span to an array without a loop over its elements.
"""

from __future__ import annotations

from typing import Iterator, Optional

import numpy as np

from runtime_arm.netdef.values import Array

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10  # bytes of seven bits each, which hold 64 bits

_MASK64 = (1 << 64) - 1
_SINGLE_STEPS = 8  # elements of a run that are read one by one before NumPy reads the rest
_FIRST_BLOCK, _BLOCK = 1 << 10, 1 << 20  # bytes


class WireError(Exception):
    """What is wrong with the bytes, where, and in which fields, outermost first."""

    def __init__(self, problem: str, offset: Optional[int] = None, number: Optional[int] = None):
        """``number``: that of the field that was about to begin."""
        super().__init__(problem)
        self.problem = problem
        self.offset = offset
        self.number = number
        self.path: list[str] = []


class Buffer:
    """The bytes, as a memoryview for single bytes and slices, and as an array for runs."""

    def __init__(self, data: bytes | bytearray | memoryview):
        self.view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self.array: Array = np.frombuffer(self.view, np.uint8) if len(data) else np.zeros(0, np.uint8)

    def varint(self, at: int, stop: int) -> tuple[int, int]:
        """The unsigned varint at ``at``, and the offset after it."""
        view = self.view
        if at < stop and view[at] < 0x80:
            return view[at], at + 1
        start, value, shift = at, 0, 0
        while at < stop:
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK64, at
            shift += 7
            if shift == 7 * LONGEST_VARINT:
                raise WireError(f"a varint is longer than {LONGEST_VARINT} bytes", start)
        raise WireError("the bytes end inside a varint", start)

    def fields(self, at: int, stop: int, runs: frozenset[int] = frozenset()) -> Iterator[tuple[int, int, int, int]]:
        """The fields of the message between two offsets, each as (number, wire type, start, end of its content).

        The span of a field whose tag is in ``runs`` starts at the tag and reaches to the end of the run.
        """
        while at < stop:
            start = at
            tag, at = self.varint(at, stop)
            number, wire = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise WireError(f"field number {number} does not exist", start)
            if wire == BYTES:
                size, at = self.varint(at, stop)
                end = at + size
            elif wire == VARINT:
                end = self.varint(at, stop)[1]
            elif wire in (FIXED32, FIXED64):
                end = at + (4 if wire == FIXED32 else 8)
            else:
                raise WireError(
                    f"field {number} has wire type {wire}, which is a group or does not exist", start, number
                )
            if end > stop:
                told = f"field {number} takes {end - at} bytes, {stop - at} are left: it is cut off or damaged"
                raise WireError(told, start, number)
            if tag in runs:
                at -= 1
                end = self._end_of_run(tag, wire, end, stop)
            yield number, wire, at, end
            at = end

    def _end_of_run(self, tag: int, wire: int, at: int, stop: int) -> int:
        """Where a run of ``tag`` ends whose first element ends at ``at``."""
        size = {FIXED32: 5, FIXED64: 9, VARINT: 0}[wire]
        for _ in range(_SINGLE_STEPS):
            if at >= stop or self.view[at] != tag:
                return at
            end = at + size if size else self.varint(at + 1, stop)[1]
            if end > stop:
                return at
            at = end
        return self._end_of_fixed_run(tag, size, at, stop) if size else self._end_of_varint_run(tag, at, stop)

    def _end_of_fixed_run(self, tag: int, size: int, at: int, stop: int) -> int:
        block = _FIRST_BLOCK
        while True:
            count = min(block, stop - at) // size
            other = self.array[at : at + count * size : size] != tag
            if other.any() or not count:
                return at + int(other.argmax()) * size if count else at
            at += count * size
            block = min(2 * block, _BLOCK)

    def _end_of_varint_run(self, tag: int, at: int, stop: int) -> int:
        block = _FIRST_BLOCK
        while True:
            content = self.array[at : min(at + block, stop)]
            last = np.flatnonzero(content < 0x80)  # the last byte of every varint; tags are varints of one byte
            pairs = len(last) // 2
            tag_at = np.concatenate((np.zeros(1, last.dtype), last[1::2] + 1))[:pairs]
            wrong = (last[0 : 2 * pairs : 2] != tag_at) | (content[tag_at] != tag)
            wrong |= last[1::2] - tag_at > LONGEST_VARINT
            good = int(wrong.argmax()) if wrong.any() else pairs
            at += int(last[2 * good - 1]) + 1 if good else 0
            if good < pairs or not good:
                return at
            block = min(2 * block, _BLOCK)

    def unpacked_fixed(self, at: int, end: int, dtype: np.dtype[np.generic]) -> Array:
        """The values of a run of FIXED32 or FIXED64."""
        pairs = np.dtype([("tag", "u1"), ("value", dtype)])
        values: Array = np.frombuffer(self.view[at:end], pairs)["value"].astype(dtype.newbyteorder("="))
        return values

    def packed_fixed(self, at: int, end: int, dtype: np.dtype[np.generic]) -> Array:
        """The values of a packed FIXED32 or FIXED64 field; a view if the machine can use the bytes as they are."""
        if (end - at) % dtype.itemsize:
            raise WireError(f"{end - at} bytes are not a multiple of {dtype.itemsize}", at)
        if at == end:
            return np.zeros(0, dtype.newbyteorder("="))
        values = np.frombuffer(self.view[at:end], dtype)
        return np.require(values, dtype.newbyteorder("="), ["ALIGNED"])

    def unpacked_varints(self, at: int, end: int) -> Array:
        """The values of a run of varints, int64."""
        values: Array = self.packed_varints(at, end)[1::2].copy()
        return values

    def packed_varints(self, at: int, end: int) -> Array:
        """The varints between two offsets, int64."""
        content = self.array[at:end]
        values = np.empty(np.count_nonzero(content < 0x80), np.uint64)
        if len(content) and content[-1] >= 0x80:
            raise WireError("the bytes end inside a varint", end)
        done = 0
        while at < end:
            block = self.array[at : min(at + _BLOCK, end)]
            last = np.flatnonzero(block < 0x80)
            first = np.concatenate((np.zeros(1, last.dtype), last[:-1] + 1))
            longest = int((last - first).max()) + 1 if len(last) else len(block)
            if longest > LONGEST_VARINT:
                raise WireError(f"a varint is longer than {LONGEST_VARINT} bytes", at)
            values[done : done + len(last)] = _join_septets(block, first, last, longest)
            done += len(last)
            at += int(last[-1]) + 1
        signed: Array = values.view(np.int64)
        return signed


def _join_septets(block: Array, first: Array, last: Array, longest: int) -> Array:
    """The varints of ``block`` that reach from ``first`` to ``last``, uint64."""
    value: Array = (block[first] & 0x7F).astype(np.uint64)
    for byte in range(1, longest):
        longer = np.flatnonzero(last - first >= byte)
        septet = (block[first[longer] + byte] & 0x7F).astype(np.uint64)
        value[longer] |= septet << np.uint64(7 * byte)
    return value


def encode_varint(value: int) -> bytes:
    """``value`` as a varint; a negative one takes the ten bytes of its two's complement."""
    value &= _MASK64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tag(number: int, wire: int) -> bytes:
    """The tag of a field."""
    return encode_varint(number << 3 | wire)


class UnpackedRun:
    """A repeated scalar in unpacked form, encoded block by block while it is written."""

    def __init__(self, tag: bytes, values: Array):
        """``values``: float32 or float64 for fixed values, int64 for varints; ``tag``: one byte."""
        self.tag = tag[0]
        self.values = values
        self.fixed = values.dtype.kind == "f"

    def __len__(self) -> int:
        """The number of bytes."""
        if self.fixed:
            return self.values.size * (1 + self.values.itemsize)
        return sum(
            self.values[at : at + _BLOCK].size + int(_varint_lengths(self.values[at : at + _BLOCK]).sum())
            for at in range(0, self.values.size, _BLOCK)
        )

    def blocks(self) -> Iterator[bytes]:
        """The bytes in pieces of bounded size."""
        step = _BLOCK // 8
        for at in range(0, self.values.size, step):
            yield (self._fixed if self.fixed else self._varints)(self.values[at : at + step])

    def _fixed(self, values: Array) -> bytes:
        pairs = np.empty(values.size, [("tag", "u1"), ("value", values.dtype.newbyteorder("<"))])
        pairs["tag"], pairs["value"] = self.tag, values
        return pairs.tobytes()

    def _varints(self, values: Array) -> bytes:
        length = _varint_lengths(values)
        unsigned = values.astype(np.int64).view(np.uint64)
        columns = int(length.max()) + 1
        matrix = np.empty((values.size, columns), np.uint8)
        matrix[:, 0] = self.tag
        for byte in range(columns - 1):
            more = (length > byte + 1).astype(np.uint8) << 7
            matrix[:, byte + 1] = (unsigned >> np.uint64(7 * byte) & np.uint64(0x7F)).astype(np.uint8) | more
        return matrix[np.arange(columns) <= length[:, None]].tobytes()


def _varint_lengths(values: Array) -> Array:
    """The number of bytes of each value as a varint."""
    thresholds = np.array([1 << 7 * n for n in range(1, LONGEST_VARINT)], np.uint64)
    return np.searchsorted(thresholds, values.astype(np.int64).view(np.uint64), side="right") + 1
