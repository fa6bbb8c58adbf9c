"""Judges pairs that were made from another one: are they still accurate enough?"""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence

from armnet.evaluation.data import data_of
from armnet.evaluation.evaluate import evaluate
from armnet.evaluation.gate import LESS_IS_BETTER, Must
from armnet.evaluation.place import self_contained
from armnet.opening import open as open_model
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath
from runtime_arm.pair.pair import Pair


class Judge:
    """Compares pairs with the one from which they were made, on examples whose answers are known.

    musts: for each metric the share of the original's value that a pair must have. before: the original's metrics.
    UsageError for a metric that the data does not measure, and for errors, which have no share.
    """

    def __init__(
        self,
        original: Pair,
        data: AnyPath,
        musts: Sequence[Must],
        notice: Callable[[str], None] = lambda text: None,
    ):
        with open_model(original, threads=1, notice=notice) as model:
            self._data = data_of(data, model, notice)
            self._meta = self_contained(model).meta
            self.before: Dict[str, float] = evaluate(model, self._data).metrics
        self._bounds: List[Must] = []
        for must in musts:
            if must.metric in LESS_IS_BETTER or must.metric not in self.before:
                known = ", ".join(metric for metric in self.before if metric not in LESS_IS_BETTER)
                raise UsageError(f"--must {must.metric}: here a bound can be a share of {known}")
            self._bounds.append(must._replace(bound=must.bound * self.before[must.metric]))

    def metrics(self, pair: Pair) -> Dict[str, float]:
        """The metrics of a pair, with its outputs read like the original's."""
        return evaluate(pair.replace(meta=self._meta), self._data).metrics

    def accepts(self, pair: Pair) -> bool:
        """Whether a pair keeps every bound."""
        metrics = self.metrics(pair)
        return all(must.holds(metrics[must.metric]) for must in self._bounds)
