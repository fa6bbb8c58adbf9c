"""Fetches files over HTTPS into the cache, resumes interrupted downloads, and checks the SHA-256."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Callable, Optional, Sequence
from urllib.parse import quote, urlsplit

from armnet.catalogue.entries import RemoteFile
from runtime_arm.errors import ResourceError, UsageError
from runtime_arm.files import one_line_errors
from runtime_arm.machine.cache import cache_root
from runtime_arm.version import VERSION

PATIENCE = 30.0  # seconds without a byte
ATTEMPTS = 5  # at one address; each continues where the one before broke off
_CHUNK = 1 << 16
_HERE = ("127.0.0.1", "localhost", "::1")
_TROUBLE = (urllib.error.URLError, http.client.HTTPException, OSError, ValueError)

Progress = Callable[[str, int, int], Any]


def fetched(file: RemoteFile, mirrors: Sequence[str] = (), progress: Progress = lambda text, done, total: None) -> Path:
    """The file in the cache, fetched if it is missing or incomplete.

    mirrors: addresses of folders, tried first: MIRROR/NAME. progress: is called with the name, the bytes so far and the
    total bytes. ResourceError, naming every address and what happened there, if none has the file; a partial file stays
    for the next time. UsageError for an address that is not HTTPS.
    """
    addresses = [*(f"{mirror.rstrip('/')}/{quote(file.name)}" for mirror in mirrors), *file.urls]
    for address in addresses:
        require_https(address)
    folder = cache_root() / "models" / file.sha256
    whole = folder / file.name
    if whole.is_file() and _sha256(whole) == file.sha256:
        return whole
    with one_line_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    failures = []
    with one_line_errors(whole), open(folder / "partial", "ab+") as partial:
        fcntl.flock(partial, fcntl.LOCK_EX)  # another process may fetch the same
        if whole.is_file() and _sha256(whole) == file.sha256:
            return whole
        for address in addresses:
            problem = _from(address, file, partial, progress)
            if problem is None:
                os.replace(partial.name, whole)
                return whole
            failures.append(f"{address}: {problem}")
    raise ResourceError(f"{file.name} could not be fetched: {'; '.join(failures)}")


def require_https(address: str) -> None:
    """UsageError unless it is an https address, or an http one of this machine."""
    try:
        parts = urlsplit(address)
        allowed = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)
    except ValueError:
        allowed = False
    if not allowed:
        raise UsageError(f"{address}: only https addresses are fetched")


def _from(address: str, file: RemoteFile, partial: IO[bytes], progress: Progress) -> Optional[str]:
    """Completes the partial file from one address; returns what went wrong, or None."""
    problem = ""
    for _ in range(ATTEMPTS):
        before = partial.seek(0, os.SEEK_END)
        try:
            if before < file.nbytes:
                _append(address, file, partial, progress)
        except UsageError as error:  # it leads to an address that is not HTTPS
            return str(error)
        except _TROUBLE as error:
            problem = str(error) or type(error).__name__
        now = partial.seek(0, os.SEEK_END)
        if now == file.nbytes:
            if _digest(partial) == file.sha256:
                return None
            partial.truncate(0)
            return "it holds another file (its SHA-256 differs)"
        if now > file.nbytes:
            partial.truncate(0)
            return f"it holds more than the {file.nbytes} bytes of the file"
        if now <= before:
            return problem or f"it ends after {now} of {file.nbytes} bytes"
    return problem or f"it breaks off after {now} of {file.nbytes} bytes"


def _append(address: str, file: RemoteFile, partial: IO[bytes], progress: Progress) -> None:
    start = partial.seek(0, os.SEEK_END)
    headers = {"User-Agent": f"armnet/{VERSION}", **({"Range": f"bytes={start}-"} if start else {})}
    opener = urllib.request.build_opener(_OnlyHttps)
    with opener.open(urllib.request.Request(address, headers=headers), timeout=PATIENCE) as answer:
        if start and not _goes_on(answer, start):
            partial.truncate(0)
        done = partial.seek(0, os.SEEK_END)
        while True:
            chunk = answer.read(_CHUNK)
            if not chunk:
                break
            partial.write(chunk)
            done += len(chunk)
            progress(file.name, min(done, file.nbytes), file.nbytes)
            if done > file.nbytes:
                break
        partial.flush()


def _goes_on(answer: Any, start: int) -> bool:
    """Whether the server sends only the missing rest of the file."""
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
    return answer.status == 206 and found is not None and int(found[1]) == start


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _sha256(path: Path) -> str:
    with one_line_errors(path), open(path, "rb") as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    for chunk in iter(lambda: file.read(_CHUNK), b""):
        digest.update(chunk)
    return digest.hexdigest()
