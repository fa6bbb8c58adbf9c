"""Root directories from archives: tars and images with layers; what would leave the directory is refused."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Callable, Dict, List, Union

import pytest

from device_tests.host.emulation import images
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.images import sysroot_archive, unpack_archive

Entry = Union[bytes, str, None]  # a file's bytes, "-> goal" of a symbolic link, "=> goal" of a hard link, a directory


def packed(entries: Dict[str, Entry]) -> bytes:
    """A tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size, info.mode = len(content), 0o4755 if name.endswith(".run") else 0o600
            elif content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.type = tarfile.SYMTYPE if content.startswith("->") else tarfile.LNKTYPE
                info.linkname = content[3:]
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


LAYERS: List[Dict[str, Entry]] = [
    {
        "./usr/": None,
        "./usr/bin/": None,
        "./bin": "-> usr/bin",
        "./usr/bin/a.run": b"one",
        "./usr/lib/libx.so": "-> /etc/alternatives/libx",
        "./etc/alternatives/libx": "-> /usr/lib/libx.so.1",
        "./usr/lib/libx.so.1": b"x",
        "./usr/lib/hard": "=> ./usr/lib/libx.so.1",
        "./usr/share/doc/x": b"left out",
        "./var/lib/x": b"left out",
        "./opt/gone": b"gone",
        "./opt/stays/old": b"old",
    },
    {"./bin/b": b"two", "./opt/.wh.gone": b"", "./opt/stays/.wh..wh..opq": b"", "./opt/stays/new": b"new"},
]


def oci(layers: List[bytes], platforms: List[Dict[str, str]]) -> bytes:
    """An OCI archive in which the last platform has the layers and the others have none."""
    blobs: Dict[str, Entry] = {f"blobs/sha256/layer{number}": data for number, data in enumerate(layers)}
    listed = []
    for number, platform in enumerate(platforms):
        own = (
            [{"digest": f"sha256:layer{place}"} for place in range(len(layers))] if number == len(platforms) - 1 else []
        )
        blobs[f"blobs/sha256/manifest{number}"] = json.dumps({"layers": own}).encode()
        listed.append({"digest": f"sha256:manifest{number}", "platform": platform})
    return packed({"oci-layout": b"{}", "index.json": json.dumps({"manifests": listed}).encode(), **blobs})


def docker(layers: List[bytes]) -> bytes:
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": "c.json", "Layers": names}]).encode()
    return packed({"manifest.json": manifest, **dict(zip(names, layers))})


ARM = [{"architecture": "arm64"}, {"architecture": "arm", "variant": "v6"}, {"architecture": "arm", "variant": "v7"}]


@pytest.mark.parametrize(
    "archive",
    [
        lambda layers: oci(layers, ARM[2:]),
        lambda layers: oci(layers, ARM),
        docker,
    ],
    ids=["oci", "oci of several platforms", "docker save"],
)
def test_layers_lie_upon_each_other(archive: Callable[[List[bytes]], bytes], tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([packed(layer) for layer in LAYERS]))
    root = tmp_path / "root"
    root.mkdir()
    unpack_archive(tmp_path / "a.tar", "armhf", root)
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}
    libraries = {"usr/lib/libx.so", "usr/lib/libx.so.1", "usr/lib/hard", "etc/alternatives/libx"}
    assert found == {"bin", "usr/bin/a.run", "usr/bin/b", "opt/stays/new", *libraries}
    assert os.readlink(root / "usr/lib/libx.so") == "../../etc/alternatives/libx"
    assert (root / "usr/lib/libx.so").read_bytes() == b"x"
    assert (root / "usr/bin/a.run").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr/bin/b").stat().st_mode & 0o7777 == 0o644


def test_a_tar_is_one_layer(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(packed(LAYERS[0]))
    root = tmp_path / "root"
    root.mkdir()
    unpack_archive(tmp_path / "a.tar", "arm64", root)
    assert (root / "bin/a.run").read_bytes() == b"one"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"out": "-> ../..", "out/x": b""}, "out/x lies outside"),
        ({"a": "-> b/..", "b": "-> ../../deep", "a/x": b""}, "lies outside"),
        ({"x": "=> ../../secret"}, "which is not a file"),
        ({"x": "-> /etc/passwd", "y": "=> x"}, "y is a link to x, which is not a file"),
        ({"x": bytes(101)}, "more than 100 bytes"),
    ],
)
def test_what_would_leave_the_directory_is_refused(
    entries: Dict[str, Entry], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "LARGEST", 100)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.tar").write_bytes(packed(entries))
    root = tmp_path / "deep/er/root"
    root.mkdir(parents=True)
    with pytest.raises(EmulationUnavailable, match=rf"a\.tar: cannot be unpacked .*{problem}"):
        unpack_archive(tmp_path / "a.tar", "arm64", root)
    assert {path.name for path in tmp_path.iterdir()} == {"secret", "a.tar", "deep"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["er"]


def test_a_path_upwards_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(packed({"../../x": b"x", "/etc/y": b"y"}))
    root = tmp_path / "root"
    root.mkdir()
    unpack_archive(tmp_path / "a.tar", "arm64", root)
    assert {str(path.relative_to(root)) for path in root.rglob("*")} == {"x", "etc", "etc/y"}


@pytest.mark.parametrize(
    "content",
    [
        b"no archive",
        packed({"index.json": b"{}"}),
        packed({"manifest.json": b"[1, 2]"}),
        oci([packed({})], ARM[:2])[:700],
        oci([packed({})], [{"architecture": "amd64"}, {"architecture": "s390x"}]),
        docker([b"no tar"]),
    ],
)
def test_damaged_archives_are_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(EmulationUnavailable, match=r"a\.tar: cannot be unpacked as a root directory or an image"):
        unpack_archive(tmp_path / "a.tar", "arm64", root)


def test_the_variable_names_a_folder_of_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMNET_SYSROOTS", raising=False)
    assert sysroot_archive("arm64") is None
    monkeypatch.setenv("ARMNET_SYSROOTS", str(tmp_path))
    with pytest.raises(EmulationUnavailable, match=r"has no arm64\.tar"):
        sysroot_archive("arm64")
    (tmp_path / "arm64.tar").touch()
    assert sysroot_archive("arm64") == tmp_path / "arm64.tar"
