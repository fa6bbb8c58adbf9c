"""The options of ``exporter.export``, as the translators of the formats receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional

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

    def over(self, found: Mapping[str, Any]) -> Dict[str, Any]:
        """What the source says about itself, overridden by what the user says. If the user gives a preprocessing
        without layout or size, these still come from the source.
        """
        meta = {**found, **self.meta}
        if "preprocessing" in self.meta:
            given = self.meta["preprocessing"]
            kept = ("layout",) if {"resize", "crop", "multiple"} & set(given) else ("layout", "resize")
            told = found.get("preprocessing") or {}
            meta["preprocessing"] = {**{key: told[key] for key in kept if key in told}, **given}
        return meta


DEFAULTS = ExportOptions()
