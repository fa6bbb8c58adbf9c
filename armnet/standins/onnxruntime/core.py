"""What onnxruntime's Python classes are made of, for programs that reach behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Sequence

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.binding import IOBinding
from armnet.standins.onnxruntime.values import OrtValue

if TYPE_CHECKING:
    from armnet.standins.onnxruntime.runs import Runs


class OrtValueVector(List[OrtValue]):
    """A list of values."""


class Core(Standin):
    """``session._sess``."""

    __slots__ = ("_session",)
    _package = "onnxruntime"

    def __init__(self, session: Runs):
        self._session = session

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: Any = None) -> List[Any]:
        """The outputs as arrays."""
        return self._session.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self, input_feed: Mapping[str, OrtValue], output_names: Sequence[str], run_options: Any = None
    ) -> OrtValueVector:
        """The outputs as OrtValues."""
        return OrtValueVector(self._session.run_with_ort_values(output_names, input_feed, run_options))

    def run_with_iobinding(self, binding: IOBinding, run_options: Any = None) -> None:
        """Run with what is bound."""
        self._session.run_with_iobinding(binding, run_options)


class SessionIOBinding(IOBinding):
    """An IOBinding of ``session._sess``, which takes devices as objects."""

    __slots__ = ()

    def __init__(self, core: Core):
        super().__init__(core._session)


class OrtEpAssignedNode(Standin):
    """A node: ``name``, ``domain``, ``op_type``."""

    __slots__ = ("domain", "name", "op_type")
    _package = "onnxruntime"

    def __init__(self, name: str, domain: str, op_type: str):
        self.name, self.domain, self.op_type = name, domain, op_type


class OrtEpAssignedSubgraph(Standin):
    """A part of the model and the execution provider that runs it."""

    __slots__ = ("_nodes", "ep_name")
    _package = "onnxruntime"

    def __init__(self, ep_name: str, nodes: List[OrtEpAssignedNode]):
        self.ep_name, self._nodes = ep_name, nodes

    def get_nodes(self) -> List[OrtEpAssignedNode]:
        """Its nodes."""
        return list(self._nodes)


def assigned(nodes: Sequence[Any], provider: str) -> List[OrtEpAssignedSubgraph]:
    """One subgraph for each node of a model."""
    return [
        OrtEpAssignedSubgraph(provider, [OrtEpAssignedNode(node.name, node.domain, node.op_type)]) for node in nodes
    ]
