"""The layers of a net in the phase TEST as one planned network."""

from __future__ import annotations

from typing import Any, List, Tuple

from armnet.standins.fusing import Fusing
from exporter.caffe.prototxt import message_class
from runtime_arm.netdef import Array
from training.caffe.files import PHASES
from training.caffe.layers.translated import network_of
from training.caffe.net import Net


def network_of_layers(net: Net) -> Fusing:
    """Gives the blobs of a net that have the names which its last layers write. It works on the memory of the
    parameters: it is no longer valid once they change. ExportError for nets that cannot be translated.
    """
    sources = {top: proto.bottom[0] for proto, _ in net.layers if proto.type == "Split" for top in proto.top}
    layers: List[Tuple[Any, List[Array]]] = []
    for proto, layer in net.layers:
        if proto.type != "Split":
            copy: Any = message_class("LayerParameter")()
            copy.CopyFrom(proto)
            copy.bottom[:] = [sources.get(name, name) for name in proto.bottom]
            copy.phase = PHASES["TEST"]
            layers.append((copy, [blob.data for blob in layer.blobs]))
    shapes = {name: net.blobs[name].shape for name in net.inputs}
    return Fusing(network_of(net.name, shapes, layers, net.outputs))
