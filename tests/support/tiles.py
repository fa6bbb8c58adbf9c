"""Makes plans run nets in tiles, however small the nets are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

import pytest

from runtime_arm.planning import layout_choice


@contextmanager
def tiles_everywhere() -> Iterator[None]:
    """Everything that can run in tiles does, whether or not it pays."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(layout_choice, "_plain_time", lambda step, has_options: 1e12 if has_options else 0.0)
        yield
