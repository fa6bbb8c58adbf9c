"""The objects that a model and its callers exchange: options, prepared inputs, answers."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Protocol

from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.records import NamedTuple
from runtime_arm.results.decoder import Decoder
from runtime_arm.results.frame import Frame
from runtime_arm.results.result import Result

Outputs = Dict[str, Any]


class Options(NamedTuple):
    """How an answer is to be read. threshold: the least score that counts, None for the family's own. top: how many
    classes are listed."""

    threshold: Optional[float] = None
    top: int = 5


class Answer(NamedTuple):
    """A result with the outputs that it was decoded from, and the picture that was fed, if there was one."""

    result: Result
    outputs: Outputs
    picture: Any = None


class Prepared(NamedTuple):
    """A picture as inputs by name, where the input's pixels lie in it, and the picture itself, upright."""

    feeds: Dict[str, Array]
    frame: Frame
    picture: Any


class Net(Protocol):
    """The part of a ``runtime_arm.app.model.Model`` that its callers need; the model describes each member."""

    pair: Pair
    entry: Dict[str, Any]
    rule: Dict[str, Any]
    decoder: Decoder
    input: Optional[TensorInfo]
    predictor: Predictor
    infer: Callable[[Mapping[str, Any]], Outputs]

    def run(self, feeds: Mapping[str, Any]) -> Outputs:
        """One inference."""

    def real(self, outputs: Outputs) -> Outputs:
        """Outputs as real numbers."""

    def say_fed(self, batch: Array) -> None:
        """Note what was fed."""
