"""A server of files on this machine that can be told to misbehave."""

from __future__ import annotations

import hashlib
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Dict, Iterator, List, Optional, Tuple

from armnet.catalogue.entries import RemoteFile


class Server(ThreadingHTTPServer):
    """contents: what each path holds. breaks_off: bytes after which an answer ends, each only once. ranges: whether a
    part of a file can be asked for. redirects: where a path leads. asked: the path and the range of every request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents: Dict[str, bytes] = {}
        self.breaks_off: List[int] = []
        self.ranges = True
        self.redirects: Dict[str, str] = {}
        self.asked: List[Tuple[str, Optional[str]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, name: str, content: bytes) -> RemoteFile:
        """Serve a file; returns what a catalogue says of it."""
        self.contents[f"/{name}"] = content
        return RemoteFile(name, [f"{self.address}/{name}"], hashlib.sha256(content).hexdigest(), len(content))


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.end_headers()
            return
        content = self.server.contents.get(self.path)
        if content is None:
            self.send_error(404)
            return
        found = re.fullmatch(r"bytes=(\d+)-", asked or "")
        start = int(found[1]) if found and self.server.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + self.server.breaks_off.pop(0) if self.server.breaks_off else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs in a thread."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
