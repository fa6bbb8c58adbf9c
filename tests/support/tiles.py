"""Nets in tiles, however small they are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

import pytest

from runtime_arm.planning import layout_choice


@contextmanager
def tiles_everywhere() -> Iterator[None]:
    """Whatever has an option in tiles takes one, be it worthwhile or not."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(layout_choice, "_plain_time", lambda step, has_options: 1e12 if has_options else 0.0)
        yield
