"""The data on which two variants are compared, prepared for each of them as it needs."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

from armnet.evaluation.data import data_of
from armnet.evaluation.example import Data
from armnet.samples import samples_of
from runtime_arm.app.model import Model
from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array


class Examples(NamedTuple):
    """values: what ``feeds_of`` takes, at most as many as were asked for. data: the whole data set with its true
    answers, if these are known; else ``untrue`` says why not.
    """

    values: Sequence[Any]
    data: Optional[Data]
    untrue: str = ""


def examples_of(path: str, model: Model, most: int, notice: Callable[[str], None]) -> Examples:
    """The examples at a path. UsageError or FeedError if the model cannot take them."""
    if most < 1:
        raise UsageError(f"at least one sample is needed, got {most}")
    try:
        data = data_of(path, model, notice)
    except (UsageError, FeedError) as error:
        return Examples(samples_of(path, model.pair, most), None, str(error))
    count = len(data.examples)
    places = sorted({place * count // most for place in range(most)}) if most < count else range(count)
    return Examples(_Values(data, list(places)), data)


class _Values(Sequence[Any]):
    """The values of some examples, read when they are asked for."""

    def __init__(self, data: Data, places: List[int]):
        self._data, self._places = data, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._data.examples[self._places[index]].value


def feeds_of(model: Model, value: Any) -> Mapping[str, Array]:
    """The inputs that the model's net is run with for one example."""
    feeds = model.arrays_of(value)
    if feeds is None and "sound" in model.entry:
        raise UsageError("a net for sounds is compared on arrays: give .npy or .npz files of its inputs")
    return model.prepared(value).feeds if feeds is None else feeds
