"""A certificate that the server signs itself, for phones, because their browsers give the camera only to https."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Sequence

from runtime_arm.errors import MissingDependency, ResourceError, UsageError
from runtime_arm.files import one_line_errors
from runtime_arm.machine.cache import cache_root

DAYS = 365
GOOD_FOR = 86400  # seconds that a certificate must be good for to be used again


class Certificate(NamedTuple):
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256, as browsers show it."""
        der = ssl.PEM_cert_to_DER_cert(self.certificate.read_text())
        digest = hashlib.sha256(der).hexdigest().upper()
        return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def self_signed(names: Sequence[str], addresses: Sequence[str]) -> Certificate:
    """A certificate for these names and IP addresses; the last one if it is valid for at least another day.

    MissingDependency without the program openssl.
    """
    program = shutil.which("openssl")
    if program is None:
        raise MissingDependency(
            "--https needs the program openssl (apt-get install openssl; in Termux pkg install openssl-tool), "
            "or a certificate of yours: --certificate FILE --key FILE"
        )
    known = ",".join([*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)])
    folder = cache_root() / "certificates" / hashlib.sha256(known.encode()).hexdigest()[:16]
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    if made.certificate.is_file() and made.key.is_file():
        with suppress(ResourceError):
            _openssl(program, "x509", "-checkend", str(GOOD_FOR), "-noout", "-in", str(made.certificate))
            return made
    with one_line_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = Certificate(*(path.with_name(f".{path.name}.{os.getpid()}") for path in made))
        try:
            words = [
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-sha256",
                "-days",
                str(DAYS),
            ]
            files = ["-keyout", str(temporary.key), "-out", str(temporary.certificate)]
            extensions = ["-addext", f"subjectAltName={known}", "-addext", "extendedKeyUsage=serverAuth"]
            _openssl(program, "req", "-x509", *words, *files, "-subj", f"/CN=armnet {names[0]}", *extensions)
            os.chmod(temporary.key, 0o600)
            for source, target in zip(temporary, made):
                os.replace(source, target)
        finally:
            for path in temporary:
                with suppress(OSError):
                    path.unlink()
    return made


def _openssl(program: str, *words: str) -> None:
    """ResourceError, with its last line, if the program fails."""
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ResourceError(f"openssl {words[0]}: {lines[-1] if lines else f'exit status {done.returncode}'}")


def given(certificate: str, key: str) -> Certificate:
    """A certificate of the user's. UsageError if the files do not fit each other."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UsageError(f"{certificate}, {key}: cannot be used: {error}") from None
    return Certificate(Path(certificate), Path(key))
