"""The version of armnet, for a runtime that runs without an installed package."""

from __future__ import annotations

VERSION = "0.1.0"
