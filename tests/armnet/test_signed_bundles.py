"""``armnet keys``, ``pack --sign`` and ``run --require-signature``: a changed byte anywhere is refused."""

from __future__ import annotations

import json
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Iterator, NamedTuple, Tuple

import pytest

from armnet.__main__ import main
from runtime_arm.errors import PairError
from runtime_arm.pair.signatures.keys import read_public_keys
from runtime_arm.pair.signatures.signature import require_signature
from tests.support.commands import Armnet, refused
from tests.support.paths import DEMO

pytest.importorskip("cryptography", reason="the package cryptography, which signs, is not installed")

PICTURE = DEMO / "pictures" / "digit_7.png"
COMMENT = len("armnet-signature-1 ") + 128


class Signed(NamedTuple):
    """A bundle that anna has signed, and the keys of anna and of somebody else."""

    bundle: Path
    anna: Path
    other: Path


@pytest.fixture(scope="module")
def signed(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder = tmp_path_factory.mktemp("signed")
    assert main(["keys", "new", str(folder / "anna")]) == 0
    assert main(["keys", "new", str(folder / "other")]) == 0
    bundle = folder / "digits.pyz"
    assert main(["pack", str(digits), "-o", str(bundle), "--sign", str(folder / "anna.key")]) == 0
    return Signed(bundle, folder / "anna.pub", folder / "other.pub")


def test_a_secret_key_is_its_owner_s_alone(signed: Signed, armnet: Armnet) -> None:
    assert stat.S_IMODE(signed.anna.with_suffix(".key").stat().st_mode) == 0o600
    before = signed.anna.read_bytes()
    refused(armnet("keys", "new", signed.anna.with_suffix("")), "exists already")
    assert signed.anna.read_bytes() == before


def test_a_signed_bundle_runs_by_itself(signed: Signed) -> None:
    words = [sys.executable, str(signed.bundle), str(PICTURE)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_signed_bundle_runs_where_a_signature_is_required(signed: Signed, armnet: Armnet) -> None:
    status, out, err = armnet("run", signed.bundle, PICTURE, "--require-signature", signed.anna)
    assert status == 0
    assert "7" in out
    assert "signed by anna" in err
    status, out, _ = armnet("pack", "--verify", signed.anna.parent, signed.bundle, "--json")
    assert status == 0
    assert json.loads(out)["signed_by"] == read_public_keys(signed.anna)[0].fingerprint
    status, out, _ = armnet("keys", "show", signed.bundle, signed.other, signed.anna)
    assert status == 0
    assert "unchanged since signed by" in out


def test_others_are_refused(signed: Signed, armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    required = ["--require-signature", signed.other]
    refused(armnet("run", signed.bundle, PICTURE, *required), "digits.pyz", "somebody else")
    refused(armnet("pack", "--verify", signed.other, signed.bundle), "digits.pyz", "somebody else")
    assert main(["pack", str(digits), "-o", str(tmp_path / "plain.pyz")]) == 0
    refused(armnet("run", tmp_path / "plain.pyz", PICTURE, *required), "plain.pyz", "no signature")
    refused(armnet("run", DEMO / "digits.onnx", PICTURE, *required), "digits.onnx", "only bundles")
    refused(armnet("run", digits, PICTURE, *required), "digits")
    then = ["--then", tmp_path / "plain.pyz", "--require-signature", signed.anna]
    status, out, err = armnet("run", signed.bundle, PICTURE, *then)
    assert (status, out) == (2, "")
    assert "plain.pyz: has no signature" in err


def test_files_that_are_no_keys_are_told_apart(signed: Signed, armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    run = ["run", signed.bundle, PICTURE, "--require-signature"]
    refused(armnet(*run, signed.anna.with_suffix(".key")), "private key", ".pub")
    (tmp_path / "keys").write_text("# nobody\n\n")
    refused(armnet(*run, tmp_path / "keys"), "no public key")
    (tmp_path / "keys").write_text("ssh-ed25519 AAAA anna\n")
    refused(armnet(*run, tmp_path / "keys"), "line 1", "armnet-ed25519")
    (tmp_path / "empty").mkdir()
    refused(armnet(*run, tmp_path / "empty"), "no public key")
    refused(armnet(*run, tmp_path / "absent"), "absent")
    pack = ["pack", digits, "-o", tmp_path / "new.pyz", "--sign"]
    refused(armnet(*pack, signed.anna), "anna.pub", "secret key")
    refused(armnet(*pack, tmp_path / "absent"), "absent")
    refused(armnet("pack", "--verify", signed.anna, digits, digits), "one bundle")
    refused(armnet("pack", digits), "-o")
    assert not (tmp_path / "new.pyz").exists()


def changes(content: bytes, bundle: Path) -> Iterator[Tuple[str, bytes]]:
    """The bundle with one byte changed in each of its parts, and in all that lies around them."""
    places = {"the first line": 3, "the last byte": len(content) - 1}
    with zipfile.ZipFile(bundle) as archive:
        for entry in archive.infolist():
            *_, name, extra = struct.unpack("<4s5H3I2H", content[entry.header_offset : entry.header_offset + 30])
            start = entry.header_offset + 30 + name + extra
            places[f"the header of {entry.filename}"] = entry.header_offset + 10
            if entry.file_size:
                places[entry.filename] = start + entry.file_size // 2
        places["the central directory"] = archive.start_dir + 12
    end = len(content) - COMMENT
    places.update({f"byte {place} of the end record": end - 22 + place for place in range(22)})
    places.update({f"byte {place} of the signature": end + place for place in range(COMMENT)})
    for what, place in places.items():
        changed = bytearray(content)
        changed[place] ^= 0x20  # among others it makes a small letter a capital one
        yield what, bytes(changed)
    yield "a byte in front", b"\n" + content
    yield "a byte behind", content + b"\n"
    yield "a byte cut off", content[:-1]
    yield "half", content[: len(content) // 2]


def test_a_changed_byte_is_refused_wherever_it_is(signed: Signed) -> None:
    keys, content = read_public_keys(signed.anna), signed.bundle.read_bytes()
    require_signature(memoryview(content), keys, "as it was")
    count = 0
    for what, changed in changes(content, signed.bundle):
        with pytest.raises(PairError, match=r"signature|changed"):
            require_signature(memoryview(changed), keys, what)
        count += 1
    assert count > 300


def test_code_of_a_changed_bundle_does_not_run(signed: Signed, armnet: Armnet, tmp_path: Path) -> None:
    """Not even where Python would run it: the first program of the bundle is another one here."""
    mark = tmp_path / "ran"
    content = signed.bundle.read_bytes()
    start = content.index(b"import os\nimport sys")
    planted = f"open({str(mark)!r}, 'w')\n".encode()
    changed = content[:start] + planted + content[start + len(planted) :]
    evil = tmp_path / "evil.pyz"
    evil.write_bytes(changed)
    refused(armnet("run", evil, PICTURE, "--require-signature", signed.anna), "evil.pyz")
    assert not mark.exists()
