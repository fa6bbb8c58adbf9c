"""The package sources from which emulated machines are made.

On Debian they are the host's own. Elsewhere they are Debian's, ``debian.sources``: Ubuntu's mirrors have one
architecture and another QEMU, Raspbian has only 32 bits, Fedora's apt has no sources. Debian's keys are the host's if
it has them, else those in the package debian-archive-keyring of the host's own sources, which is unpacked in the cache.
The system's sources and keys are neither changed nor added to. ``$ARMNET_APT_SOURCES`` names a ``.list`` or
``.sources`` file to use instead.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Callable, Dict, List

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.tools import run_tool

OS_RELEASE = Path("/etc/os-release")
SYSTEM_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEBIAN = Path(__file__).with_name("debian.sources")


def chosen_sources() -> List[Path]:
    """The files of package sources to use; those of the host, or ``DEBIAN``."""
    chosen = os.environ.get("ARMNET_APT_SOURCES")
    if chosen:
        path = Path(chosen)
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            raise EmulationUnavailable(f"ARMNET_APT_SOURCES={chosen} is not a .list or .sources file")
        return [path]
    return host_sources() if _is_debian() else [DEBIAN]


def host_sources() -> List[Path]:
    """The files of package sources of the host's apt."""
    shell = run_tool(["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"])
    where: Dict[str, str] = dict(assignment.split("=", 1) for assignment in shlex.split(shell))
    parts = Path(where["PARTS"])
    files = [Path(where["LIST"]), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return [path for path in files if path.is_file()]


def _is_debian() -> bool:
    try:
        return re.search(r'(?m)^ID="?debian"?$', OS_RELEASE.read_text()) is not None
    except OSError:
        return False


def write_sources(files: List[Path], folder: Path, kind: str, keys: Callable[[], Path]) -> None:
    """Copies files of package sources into ``folder`` and changes the type of each entry to ``kind``.

    keys: gives the file of Debian's keys; it is called only if ``debian.sources`` is copied and the host has none.
    """
    for path in files:
        text = path.read_text()
        if path.suffix == ".sources":
            text = re.sub(r"(?mi)^Types:.*$", f"Types: {kind}", text)
        else:
            text = re.sub(r"(?m)^\s*deb(?=\s)", kind, re.sub(r"(?m)^\s*deb-src\s.*$", "", text))
        if path == DEBIAN and not SYSTEM_KEYS.is_file():
            text = re.sub(r"(?m)^Signed-By:.*$", f"Signed-By: {keys()}", text)
        (folder / path.name).write_text(text)
