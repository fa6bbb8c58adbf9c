"""Running ``armnet COMMAND`` in this process."""

from __future__ import annotations

from typing import Callable, Tuple

PREPROCESSING = '{"channels": "GRAY", "resize": [8, 8], "scale": 0.00392156862745098}'

Outcome = Tuple[int, str, str]  # exit status, stdout, stderr
Armnet = Callable[..., Outcome]


def refused(outcome: Outcome, *fragments: str) -> None:
    """Asserts one line on stderr, status 2, and nothing on stdout."""
    status, out, err = outcome
    assert status == 2, outcome
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    for fragment in fragments:
        assert fragment in err
