"""What quantisation did to each layer, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Tuple

from optimize.quantization.table import Choice

EQUALIZED, CORRECTED, ROUNDED = "equalized", "bias corrected", "rounded by data"


class LayerReport(NamedTuple):
    """One layer. nbytes: of its weight, before and after. snr: of the weight alone, in dB. reason: why it is not stored
    as was asked for; empty if it is. steps: what was done for its accuracy. alone: signal-to-noise ratio of the outputs
    before a Softmax, on a few samples, if no other layer is quantised, in dB, where that was measured."""

    layer: str
    choice: Choice
    nbytes_before: int
    nbytes: int
    snr: Optional[float]
    reason: str = ""
    steps: Tuple[str, ...] = ()
    alone: Optional[float] = None


@dataclass
class QuantizationReport:
    """Collects what ``quantize`` did. output_snr: of the worst output, in dB, where there were samples; on such
    as had no say in how the pair was made if a ratio was demanded (see ``judge``). sure_snr: the least that it is taken
    for on other data; None where nothing is known of that. each_layer: whether to measure on the samples what each
    layer alone does to the outputs where no layer has to stay float, too."""

    layers: List[LayerReport] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    output_snr: Optional[float] = None
    sure_snr: Optional[float] = None
    each_layer: bool = False
