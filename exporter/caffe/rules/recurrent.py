"""Recurrent layers; Caffe unrolls them, the runtime runs them step by step."""

from __future__ import annotations

from exporter.caffe.layer import Layer
from exporter.caffe.rules import rule


@rule("LSTM", "RNN")
def recurrent(layer: Layer) -> None:
    """Blobs: input weights, bias, weights of a static third bottom, recurrent weights; an RNN's output weights too."""
    param, static = layer.param("recurrent_param"), len(layer.bottoms) == 3
    layer.require(not param.expose_hidden, "expose_hidden is not supported")
    layer.counts(3 if static else 2)
    layer.require(param.num_output > 0, "num_output must be positive")
    hidden, lstm = param.num_output, layer.type == "LSTM"
    rows, after = (4 * hidden if lstm else hidden), 2 + int(static)
    layer.require_blobs(after + (1 if lstm else 3))
    names = [layer.weight("w", 0, [rows, None]), layer.weight("b", 1, [rows]), layer.weight("r", after, [rows, hidden])]
    if not lstm:
        names += [layer.weight("out", after + 1, [hidden, hidden]), layer.weight("out_b", after + 2, [hidden])]
    if static:
        names += [layer.bottoms[2], layer.weight("static", 2, [rows, None])]
    layer.caffe(layer.type, [*layer.bottoms[:2], *names])
