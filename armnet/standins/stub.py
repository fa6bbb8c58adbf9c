"""Stub distributions: what makes pip, ``importlib.metadata`` and ``import`` find a stand-in in an environment.

A stub has the files that pip would have written: a package of a few lines that puts armnet's stand-in in its own place,
and the metadata of the distribution, with the list of its files.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from typing import Dict, List, Optional

from armnet.standins.installing import MARK
from armnet.standins.packages import Package, package_of
from runtime_arm.errors import UsageError
from runtime_arm.files import one_line_errors, write_file

_INSTALLER = "armnet"


def write_stub(folder: Path, name: str) -> None:
    """Write the stub of a package into a folder of the import path. UsageError if another one of that name is there;
    ResourceError if the folder cannot be written."""
    package = package_of(name)
    found = _distribution(folder, package)
    if found is not None and not _is_stub(found):
        raise UsageError(
            f"{folder} has the real {package.distribution} {found.version}: pip uninstall {package.distribution} first"
        )
    if found is None and (folder / _module(package)).exists():
        raise UsageError(f"{folder / _module(package)} is there already, and no stub of armnet's")
    files = _files(package)
    with one_line_errors(folder):
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_file(folder / path, [text.encode()])


def remove_stub(folder: Path, name: str) -> bool:
    """Take the stub of a package away, with everything that Python wrote beside it; False if there is none. UsageError
    if the package there is the real one."""
    package = package_of(name)
    found = _distribution(folder, package)
    if found is None:
        return False
    if not _is_stub(found):
        raise UsageError(f"{folder} has the real {package.distribution} {found.version}, which armnet did not install")
    with one_line_errors(folder):
        for path in _files(package):
            (folder / path).unlink(missing_ok=True)
        for home in (folder / _module(package), folder / _metadata(package)):
            _remove_cache(home / "__pycache__")
            home.rmdir()
    return True


def state_of(folder: Path, name: str) -> str:
    """What a folder of the import path has of a package: "the stand-in", "the real one, VERSION", or "not there"."""
    found = _distribution(folder, package_of(name))
    if found is None:
        return "not there"
    return "the stand-in" if _is_stub(found) else f"the real one, {found.version}"


def _remove_cache(folder: Path) -> None:
    for file in folder.glob("*.pyc"):
        file.unlink()
    if folder.exists():
        folder.rmdir()


def _distribution(folder: Path, package: Package) -> Optional[Distribution]:
    """The distribution of this name in the folder."""
    stem = package.distribution.replace("-", "_")
    metadata = [path for path in folder.glob(f"{stem}-*.dist-info") if path.is_dir()]
    return PathDistribution(metadata[0]) if metadata else None


def _is_stub(found: Distribution) -> bool:
    return (found.read_text("INSTALLER") or "").strip() == _INSTALLER


def _module(package: Package) -> str:
    return next(iter(package.modules))


def _metadata(package: Package) -> str:
    return f"{package.distribution.replace('-', '_')}-{package.version}.dist-info"


def _files(package: Package) -> Dict[str, str]:
    """The text of each file by its path."""
    module, metadata = _module(package), _metadata(package)
    files = {
        f"{module}/__init__.py": (
            f'"""{MARK} for {module}: see docs/standins.md of armnet; armnet standin remove takes it away."""\n\n'
            f'import armnet.standins\n\narmnet.standins.install("{module}", force=True)\n'
        ),
        f"{metadata}/METADATA": (
            f"Metadata-Version: 2.1\nName: {package.distribution}\nVersion: {package.version}\n"
            f"Summary: {MARK} for {package.distribution}: no code of that project\n"
        ),
        f"{metadata}/INSTALLER": f"{_INSTALLER}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: armnet\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{metadata}/top_level.txt": f"{module}\n",
    }
    record: List[str] = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{metadata}/RECORD"] = "\n".join([*record, f"{metadata}/RECORD,,", ""])
    return files


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
