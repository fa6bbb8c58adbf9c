"""What the plugin's modules share: the name of an option, and the facts that tests record."""

from __future__ import annotations

from typing import Any, Dict

import pytest

UPDATE = "--armnet-update-budgets"
_PREFIX = "armnet_"  # of the properties that are facts


def record(item: pytest.Item, name: str, value: Any) -> None:
    """Adds a fact to the properties of a test, which JUnit's report has, too."""
    item.user_properties.append((f"{_PREFIX}{name}", value))


def facts_of(report: Any) -> Dict[str, Any]:
    """What a test has recorded, from its report."""
    properties = getattr(report, "user_properties", ())
    return {name[len(_PREFIX) :]: value for name, value in properties if name.startswith(_PREFIX)}


def shown(value: Any) -> str:
    """A number as people read it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
