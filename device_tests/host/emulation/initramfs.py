"""Writes an initramfs: the archive (cpio, "newc" format) that Linux unpacks into memory as its first root directory.

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_DIRECTORY = stat.S_IFDIR | 0o755
_PROGRAM = stat.S_IFREG | 0o755


class InitramfsWriter:
    """Adds entries to an archive, by their path without the leading slash. Use it in a ``with`` statement."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._inode = 0

    def __enter__(self) -> InitramfsWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._add("TRAILER!!!", 0, b"")

    def add_tree(self, name: str, tree: Path) -> None:
        """Adds a file, or a folder with its contents. Links are kept; sockets and devices are left out."""
        status = tree.lstat()
        if stat.S_ISLNK(status.st_mode):
            self._add(name, status.st_mode, os.fsencode(os.readlink(tree)))
        elif stat.S_ISREG(status.st_mode):
            self._add(name, status.st_mode, tree.read_bytes())
        elif stat.S_ISDIR(status.st_mode):
            if name:
                self._add(name, status.st_mode, b"")
            for entry in sorted(tree.iterdir()):
                self.add_tree(f"{name}/{entry.name}" if name else entry.name, entry)

    def add_folders_above(self, name: str) -> None:
        """Adds the folders above ``name``, even if they have been added before."""
        for parent in list(reversed(PurePosixPath(name).parents))[1:]:
            self._add(str(parent), _DIRECTORY, b"")

    def add_program(self, name: str, text: str) -> None:
        """Adds an executable file with that text."""
        self._add(name, _PROGRAM, text.encode())

    def _add(self, name: str, mode: int, content: bytes) -> None:
        self._inode += 1
        path = os.fsencode(name) + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device (major, minor), special device (same), path length, check
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
        for part in (head, content):
            self._file.write(part + b"\0" * (-len(part) % 4))
