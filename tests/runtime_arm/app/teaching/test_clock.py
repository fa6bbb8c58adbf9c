"""How long a task will still take, in words."""

from __future__ import annotations

import pytest

from runtime_arm.app.teaching.clock import Clock


@pytest.mark.parametrize(
    ("seconds", "told"), [(10, "30 s left"), (100, "5 min left"), (3000, "2.5 h left"), (0, "0 s left")]
)
def test_the_time_left_goes_by_the_pace_since_it_began(
    monkeypatch: pytest.MonkeyPatch, seconds: int, told: str
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock(10)
    assert clock.left(10, 60) == "beginning"
    now[0] += seconds
    assert clock.left(20, 20 + 30) == told
