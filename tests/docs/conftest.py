"""The fixtures of the commands' tests are those of these tests, too."""

from __future__ import annotations

from tests.armnet.conftest import armnet, digits

__all__ = ["armnet", "digits"]
