"""The layers of a net in the phase TEST as one planned network."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from training.caffe.files import PHASES
from training.caffe.layers.translated import network_of
from training.caffe.net import Net

_UNFUSED_RUNS = 16  # for outputs alone, before it is worth fusing operators


class Network:
    """Gives the blobs of a net that have the names which the net's last layers write. It works on the memory of the
    parameters: it is no longer valid once they change. ExportError for nets that cannot be translated.

    sources: the blob behind each top of a Split.
    """

    def __init__(self, net: Net, sources: Mapping[str, str]):
        self._pair = _translated(net, sources)
        self._plain: Optional[Predictor] = Predictor(self._pair)
        self._fused: Optional[Predictor] = None
        self._runs = 0

    def run(self, given: Mapping[str, Array], names: Sequence[str] = ()) -> Dict[str, Array]:
        """The outputs, and the blobs of these names."""
        if self._fused is not None and not names:
            return self._fused.run(given)
        if self._plain is None:
            self._plain = Predictor(self._pair)
        found = self._plain.run(given, keep=names)
        self._runs += not names
        if self._runs == _UNFUSED_RUNS:
            self._fuse(given, found)
        return found

    def _fuse(self, given: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
        """Let outputs come from fused operators, if they are as expected."""
        from optimize import pipeline
        from optimize.engines.accuracy import TOLERANCE, difference
        from optimize.rewriting.program import Program
        from optimize.rewriting.report import Recorder
        from optimize.rewriting.subnets import run_passes_everywhere

        self._runs += 1
        try:
            program = run_passes_everywhere(Program.of(self._pair), pipeline.ALL, Recorder())
            fused = Predictor(program.pair(self._pair))
            found = fused.run(given)
        except ArmnetError:
            return
        if all(difference(values, found[name]) <= TOLERANCE for name, values in expected.items()):
            self._fused, self._plain = fused, None


def _translated(net: Net, sources: Mapping[str, str]) -> Pair:
    layers: List[Tuple[Any, List[Array]]] = []
    for proto, layer in net.layers:
        if proto.type != "Split":
            copy: Any = message_class("LayerParameter")()
            copy.CopyFrom(proto)
            copy.bottom[:] = [sources.get(name, name) for name in proto.bottom]
            copy.phase = PHASES["TEST"]
            layers.append((copy, [blob.data for blob in layer.blobs]))
    shapes = {name: net.blobs[name].shape for name in net.inputs}
    return network_of(net.name, shapes, layers, net.outputs)
