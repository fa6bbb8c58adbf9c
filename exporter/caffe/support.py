"""Which layers of a Caffe net can be translated."""

from __future__ import annotations

from typing import Any, List, Optional

from exporter.caffe.export import pair_of, read_net, translated
from exporter.caffe.layer import MissingBlobs
from exporter.caffe.net import INPUT_LAYERS
from exporter.caffe.weights import read_weights
from exporter.common.options import ExportOptions
from exporter.common.source import naming
from exporter.common.support_rows import Findings, Support
from runtime_arm.errors import ArmnetError
from runtime_arm.files import AnyPath


def caffe_support(prototxt: AnyPath, caffemodel: Optional[AnyPath] = None, *, options: ExportOptions) -> List[Support]:
    """One row per layer type. Without a caffemodel, layers that need trained blobs count as translatable."""
    blobs = read_weights(caffemodel) if caffemodel is not None else {}
    findings, untried = Findings(), []

    def note(layer: Any, error: ArmnetError) -> None:
        if caffemodel is None and isinstance(error, MissingBlobs):
            untried.append(layer)
        else:
            findings.note(str(layer.type), str(error))

    net = read_net(prototxt, options)
    with naming(prototxt), findings.trial():
        findings.count(str(layer.type) for layer in net.layers if layer.type not in INPUT_LAYERS)
        builder, inputs = translated(net, blobs, note)
        if not untried:
            pair_of(prototxt, net, builder, inputs, options)
    return findings.rows()
