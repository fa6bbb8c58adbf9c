"""The package offers its names without importing what they need."""

from __future__ import annotations

import training


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(training, name) is not None for name in training.__all__)
    assert set(training.__all__) <= set(dir(training))
