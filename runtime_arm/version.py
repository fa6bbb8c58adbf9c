"""The version of armnet, as the runtime knows it where no package is installed."""

from __future__ import annotations

VERSION = "0.1.0"
