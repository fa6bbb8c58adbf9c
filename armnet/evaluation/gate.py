"""``--must``: bounds for metrics."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

from runtime_arm.errors import UsageError

LESS_IS_BETTER = ("error_rate", "line_error_rate")
METRICS: Dict[str, str] = {
    "top1": "the share of examples whose best class is the true one",
    "top5": "the share whose true class is among the best five",
    "map": "mean average precision, over intersections from 0.5 to 0.95",
    "map50": "the same at an intersection over union of 0.5",
    "map75": "the same at 0.75",
    "map_small": "the same as map for boxes of less than 32x32 pixels",
    "map_medium": "for boxes of up to 96x96 pixels",
    "map_large": "for larger boxes",
    "recall": "the mean share of boxes that are found, of at most 100 in a picture",
    "miou": "the mean over classes of intersection over union",
    "pixel_accuracy": "the share of pixels of the true class",
    "accuracy": "the share of sounds that are heard rightly",
    "error_rate": "the share of sounds that are misheard, or of characters that are misread",
    "line_error_rate": "the share of lines that are misread",
    "agreement": "the share of answers that are those of the first place, by --against and --on",
}


class Must(NamedTuple):
    """A bound: a minimum, or for an error a maximum."""

    metric: str
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {'<=' if self.metric in LESS_IS_BETTER else '>='} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Whether a metric's value keeps the bound."""
        return value <= self.bound if self.metric in LESS_IS_BETTER else value >= self.bound


def parse_musts(words: Sequence[str]) -> List[Must]:
    """Bounds from words such as ``top1=0.97`` or ``top1=97%``. UsageError for any other word."""
    musts = []
    for word in words:
        metric, equals, text = word.partition("=")
        if metric not in METRICS or not equals:
            raise UsageError(f"--must takes METRIC=NUMBER, got {word!r}; metrics are {', '.join(METRICS)}")
        try:
            bound = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            raise UsageError(f"--must {word}: {text!r} is no number") from None
        if not 0 <= bound <= 1:
            raise UsageError(f"--must {word}: a metric is from 0 to 1, or a percentage from 0% to 100%")
        musts.append(Must(metric, bound))
    return musts


def broken(musts: Sequence[Must], places: Mapping[str, Mapping[str, float]]) -> List[str]:
    """A line for each bound that a place breaks. UsageError for a metric that no place has.

    places: the metrics of each place by its name.
    """
    lines = []
    for must in musts:
        values = {name: metrics[must.metric] for name, metrics in places.items() if must.metric in metrics}
        if not values:
            known = ", ".join(dict.fromkeys(metric for metrics in places.values() for metric in metrics))
            raise UsageError(f"--must {must.metric}: is not measured here; measured are {known}")
        lines += [
            f"{name}: {must.metric} is {value:.6g}, must be {str(must).partition(' ')[2]}"
            for name, value in values.items()
            if not must.holds(value)
        ]
    return lines
