"""A server of ``armnet serve`` in a thread, and requests to it."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from armnet.serving.run import LOCAL, bound, serve
from armnet.serving.settings import Settings
from runtime_arm.app.model import Model

TIMEOUT = 30.0


class Client(NamedTuple):
    """Asks a server."""

    url: str
    token: Optional[str] = None

    def ask(
        self, path: str, body: Optional[bytes] = None, context: Any = None, **headers: str
    ) -> Tuple[int, Dict[str, Any]]:
        """Status and JSON of an answer; a POST if there is a body. Underscores in names of headers are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            named.setdefault("Content-Type", "application/octet-stream")
        request = urllib.request.Request(self.url + path, body, named)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")


@contextmanager
def served(model: Model, **settings: Any) -> Iterator[Client]:
    """A server of the model, as long as the block lasts."""
    from armnet.serving.application import Server

    address = bound(LOCAL, 0, secure=False)
    told = Settings("a model", **settings)
    running: Dict[str, Any] = {}
    application = Server(model, told).application()
    thread = threading.Thread(target=serve, args=(application, address, None, lambda it: running.update(server=it)))
    thread.start()
    try:
        yield Client(address.url, told.token)
    finally:
        running["server"].should_exit = True
        thread.join(TIMEOUT)
        address.socket.close()
    assert not thread.is_alive()
