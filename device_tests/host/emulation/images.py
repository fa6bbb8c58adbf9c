"""Root directories of emulated machines from archives, for systems whose apt has no packages for ARM.

An archive is a tar of a Debian root directory, as mmdebstrap, ``docker buildx build --output type=tar`` and ``docker
export`` write it, or an image with layers, as ``docker save``, ``podman save --format oci-archive`` and skopeo do.
Unpacking runs nothing, writes no file outside of the directory and makes no device.

``$ARMNET_SYSROOTS`` names a folder of archives, ``arm64.tar`` and ``armhf.tar``, to be used instead of packages.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, Any, Dict, List, Optional

from device_tests.host.emulation.cache import EmulationUnavailable

LARGEST = 4 << 30  # bytes of a root directory
LARGEST_LIST = 16 << 20  # bytes of a JSON file that lists layers
LEFT_OUT = (
    *("boot", "dev", "home", "proc", "root", "run", "sys", "tmp", "var"),
    *("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man"),
)
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_PLATFORMS = {"arm64": ("arm64", None), "armhf": ("arm", "v7")}


def sysroot_archive(architecture: str) -> Optional[Path]:
    """The archive for an architecture in ``$ARMNET_SYSROOTS``; None if that is not set."""
    folder = os.environ.get("ARMNET_SYSROOTS")
    if not folder:
        return None
    path = Path(folder) / f"{architecture}.tar"
    if not path.is_file():
        raise EmulationUnavailable(f"ARMNET_SYSROOTS={folder} has no {path.name}")
    return path


def unpack_archive(archive: Path, architecture: str, root: Path) -> None:
    """Unpacks an archive into an empty directory, with relative links only. EmulationUnavailable if it is not an
    archive.
    """
    budget = [LARGEST]
    try:
        with tarfile.open(archive) as outer:
            names = set(outer.getnames())
            if not names & {"index.json", "manifest.json"}:
                _unpack_layer(outer, root, budget)
            else:
                for name in _layers(outer, names, architecture):
                    with _member(outer, name) as file, tarfile.open(fileobj=file) as layer:
                        _unpack_layer(layer, root, budget)
    except (OSError, EOFError, tarfile.TarError, ValueError, KeyError, TypeError, IndexError) as error:
        raise EmulationUnavailable(f"{archive}: cannot be unpacked as a root directory or an image: {error}") from error


def _layers(outer: tarfile.TarFile, names: set[str], architecture: str) -> List[str]:
    """The members that hold the layers of the image for an architecture, the lowest first."""
    if "index.json" not in names:
        (image,) = _json(outer, "manifest.json")
        return [str(name) for name in image["Layers"]]
    listed = _json(outer, "index.json")
    while "manifests" in listed:
        listed = _json(outer, _blob(_chosen(listed["manifests"], architecture)))
    return [_blob(layer) for layer in listed["layers"]]


def _chosen(manifests: List[Dict[str, Any]], architecture: str) -> Dict[str, Any]:
    """The only one, or the one for the architecture."""
    if len(manifests) == 1:
        return manifests[0]
    wanted, variant = _PLATFORMS[architecture]
    for one in manifests:
        platform = one.get("platform", {})
        if platform.get("architecture") == wanted and variant in (None, platform.get("variant", variant)):
            return one
    raise ValueError(f"it holds no image for {architecture}")


def _blob(entry: Dict[str, Any]) -> str:
    kind, _, digest = str(entry["digest"]).partition(":")
    return f"blobs/{kind}/{digest}"


def _member(outer: tarfile.TarFile, name: str) -> IO[bytes]:
    file = outer.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file


def _json(outer: tarfile.TarFile, name: str) -> Any:
    if outer.getmember(name).size > LARGEST_LIST:
        raise ValueError(f"{name} is too large")
    with _member(outer, name) as file:
        return json.load(file)


def _unpack_layer(layer: tarfile.TarFile, root: Path, budget: List[int]) -> None:
    for member in layer:
        path = _relative(member.name)
        if any(path == PurePosixPath(name) or PurePosixPath(name) in path.parents for name in LEFT_OUT):
            continue
        target = _inside(root, path)
        if target is None:
            continue
        if path.name == _OPAQUE:
            for entry in target.parent.iterdir():
                _remove(entry)
        elif path.name.startswith(_WHITEOUT):
            _remove(target.with_name(path.name[len(_WHITEOUT) :]))
        else:
            _write(layer, member, target, root, budget)


def _relative(name: str) -> PurePosixPath:
    """A name in an archive as a path below the root directory; none of its parts leads upwards."""
    return PurePosixPath(os.path.normpath(f"/{name.lstrip('/')}").lstrip("/"))


def _inside(root: Path, path: PurePosixPath) -> Optional[Path]:
    """The place of a path of the archive, following links in the directory; None for the directory itself.

    ValueError if that place is outside.
    """
    if not path.parts:
        return None
    parent = Path(os.path.realpath(root / path.parent))
    if parent != root and root not in parent.parents:
        raise ValueError(f"{path} lies outside")
    parent.mkdir(parents=True, exist_ok=True)
    return parent / path.name


def _write(layer: tarfile.TarFile, member: tarfile.TarInfo, target: Path, root: Path, budget: List[int]) -> None:
    """Writes a directory, a file or a link; everything else is left out."""
    if member.isdir():
        if not target.is_dir():
            _remove(target)
            target.mkdir()
        return
    if member.issym():
        _remove(target)
        goal = member.linkname
        target.symlink_to(os.path.relpath(f"{root}{goal}", target.parent) if goal.startswith("/") else goal)
    elif member.islnk():
        source = _inside(root, _relative(member.linkname))
        if source is None or source.is_symlink() or not source.is_file():
            raise ValueError(f"{member.name} is a link to {member.linkname}, which is not a file")
        _remove(target)
        os.link(source, target)
    elif member.isfile():
        budget[0] -= member.size
        if budget[0] < 0:
            raise ValueError(f"it holds more than {LARGEST} bytes")
        _remove(target)
        with _member_file(layer, member) as source_file, target.open("wb") as file:
            shutil.copyfileobj(source_file, file)
        target.chmod(0o755 if member.mode & 0o111 else 0o644)


def _member_file(layer: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = layer.extractfile(member)
    assert file is not None
    return file


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
