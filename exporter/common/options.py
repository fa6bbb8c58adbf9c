"""The options of ``exporter.export``, as the translators of the formats receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional

Progress = Callable[[str, int, int], None]  # a stage, how much of it is done, and how much there is


@dataclass(frozen=True)
class ExportOptions:
    """What ``exporter.export`` was asked for besides the files; it documents each option.

    ``meta`` is what model.json records besides the source: preprocessing and labels.
    """

    caffe2_compatible: bool = False
    keep_losses: bool = False
    signature: Optional[str] = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    progress: Optional[Progress] = None


DEFAULTS = ExportOptions()
