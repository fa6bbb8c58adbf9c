"""What a server allows, and to whom."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

MOST_BYTES = 20 << 20
MOST_PIXELS = 50_000_000
MOST_WAITING = 16
BODY_SECONDS = 30.0
UNPACKED = 16  # how many times larger than the allowed bytes arrays may become


class Settings(NamedTuple):
    """name: what the model is called. token: the word that requests must carry, None for none. most_bytes: of a
    request; most_pixels: of a picture; most_waiting: requests that wait while one is answered; body_seconds: until a
    request must have arrived. hosts: names under which the server may be asked, ``*`` for any. threshold, top: as for
    ``Model.predict``."""

    name: str
    token: Optional[str] = None
    most_bytes: int = MOST_BYTES
    most_pixels: int = MOST_PIXELS
    most_waiting: int = MOST_WAITING
    body_seconds: float = BODY_SECONDS
    hosts: Sequence[str] = ("*",)
    threshold: Optional[float] = None
    top: int = 5
