"""Recurrent networks and transformers with random weights, as ONNX models in the form that PyTorch's exporters write.

Weights are drawn so that activations stay near 1. Sizes are those of the papers, with fewer layers where that only
repeats the same work.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime_arm.netdef import Array

TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
GATES = {"GRU": 3, "LSTM": 4}


class Network(NamedTuple):
    """A model, and inputs for it."""

    model: onnx.ModelProto
    feeds: Dict[str, Array]


class Graph:
    """An ONNX graph to which each method appends nodes; blobs are names."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: List[onnx.NodeProto] = []
        self._weights: List[onnx.TensorProto] = []
        self.feeds: Dict[str, Array] = {}

    def feed(self, name: str, *shape: int, below: int = 0) -> str:
        """An input of random numbers; of integers below a limit, if there is one."""
        drawn = self._random.integers(0, below, shape) if below else self._random.standard_normal(shape, np.float32)
        self.feeds[name] = drawn
        return name

    def node(self, type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The output of a new node, or the tuple of its outputs."""
        names = [f"{type}_{len(self._nodes)}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(type, inputs, names, names[0], **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def weight(self, values: Any) -> str:
        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def normal(self, *shape: int, deviation: float) -> str:
        return self.weight(self._random.standard_normal(shape, np.float32) * np.float32(deviation))

    def linear(self, x: str, terms: int, width: int) -> str:
        """A fully connected layer over the last dimension."""
        product = self.node("MatMul", x, self.normal(terms, width, deviation=terms**-0.5))
        return str(self.node("Add", product, self.normal(width, deviation=0.05)))

    def layer_norm(self, x: str, width: int) -> str:
        scale, shift = (self.normal(width, deviation=0.1) for _ in range(2))
        one = self.weight(np.float32(1))
        return str(self.node("LayerNormalization", x, self.node("Add", scale, one), shift, epsilon=1e-5))

    def gelu(self, x: str) -> str:
        """GELU by the error function, as separate operators."""
        root, one, half = (self.weight(np.float32(value)) for value in (2**0.5, 1, 0.5))
        erf = self.node("Erf", self.node("Div", x, root))
        return str(self.node("Mul", self.node("Mul", x, self.node("Add", erf, one)), half))

    def gelu_tanh(self, x: str) -> str:
        """GELU by tanh, as in GPT-2, as separate operators."""
        half, three, cubic, scale, one = (self.weight(np.float32(v)) for v in (0.5, 3, 0.044715, 0.7978845608, 1))
        inner = self.node("Add", x, self.node("Mul", self.node("Pow", x, three), cubic))
        tanh = self.node("Tanh", self.node("Mul", inner, scale))
        return str(self.node("Mul", self.node("Mul", x, half), self.node("Add", tanh, one)))

    def heads(self, x: str, positions: int, heads: int, depth: int) -> str:
        """(1, S, H D) as (1, H, S, D)."""
        shape = self.weight(np.array([1, positions, heads, depth], np.int64))
        return str(self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3]))

    def attention(self, q: str, k: str, v: str, depth: int, bias: str = "") -> str:
        """softmax(q k^T / sqrt(depth) + bias) v for (1, H, S, D)."""
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Div", scores, self.weight(np.float32(depth**0.5)))
        scores = self.node("Add", scores, bias) if bias else scores
        return str(self.node("MatMul", self.node("Softmax", scores, axis=-1), v))

    def joined(self, x: str, positions: int, width: int) -> str:
        """(1, H, S, D) as (1, S, H D)."""
        shape = self.weight(np.array([1, positions, width], np.int64))
        return str(self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1, 3]), shape))

    def network(self, *outputs: str) -> Network:
        given = [
            helper.make_tensor_value_info(name, TYPES[value.dtype.name], value.shape)
            for name, value in self.feeds.items()
        ]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "net", given, results, self._weights)
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="armnet")
        return Network(onnx.shape_inference.infer_shapes(model), self.feeds)


def recurrent(
    type: str, layers: int = 2, hidden: int = 128, steps: int = 100, batch: int = 1, directions: int = 1
) -> Network:
    """Layers of GRU (with linear_before_reset, as in PyTorch) or LSTM over 40 features per step."""
    graph, width = Graph(), 40
    x = graph.feed("x", steps, batch, width)
    attributes = {"linear_before_reset": 1} if type == "GRU" else {}
    for _ in range(layers):
        rows = GATES[type] * hidden
        weights = [graph.normal(directions, rows, size, deviation=size**-0.5) for size in (width, hidden)]
        bias = graph.normal(directions, 2 * rows, deviation=0.1)
        direction = "bidirectional" if directions == 2 else "forward"
        y, *_ = graph.node(type, x, *weights, bias, outputs=2, hidden_size=hidden, direction=direction, **attributes)
        width = directions * hidden
        shape = graph.weight(np.array([steps, batch, width], np.int64))
        x = graph.node("Reshape", graph.node("Transpose", y, perm=[0, 2, 1, 3]), shape)
    return graph.network(x)


def vit_tiny(layers: int = 12, width: int = 192, heads: int = 3, classes: int = 1000) -> Network:
    """ViT-tiny for 224x224 pixels in patches of 16 (Touvron et al., 2021): 197 positions."""
    graph, positions = Graph(), 197
    picture = graph.feed("picture", 1, 3, 224, 224)
    filters = graph.normal(width, 3, 16, 16, deviation=768**-0.5)
    patches = graph.node("Conv", picture, filters, graph.normal(width, deviation=0.05), strides=[16, 16])
    flat = graph.node("Reshape", patches, graph.weight(np.array([1, width, positions - 1], np.int64)))
    whole = graph.node(
        "Concat", graph.normal(1, 1, width, deviation=1), graph.node("Transpose", flat, perm=[0, 2, 1]), axis=1
    )
    x = graph.node("Add", whole, graph.normal(1, positions, width, deviation=0.1))
    for _ in range(layers):
        a = _self_attention(graph, graph.layer_norm(x, width), positions, width, heads, "")
        x = graph.node("Add", x, a)
        h = graph.gelu(graph.linear(graph.layer_norm(x, width), width, 4 * width))
        x = graph.node("Add", x, graph.linear(h, 4 * width, width))
    first = graph.node("Gather", graph.layer_norm(x, width), graph.weight(np.int64(0)), axis=1)
    return graph.network(graph.linear(first, width, classes))


def _self_attention(graph: Graph, x: str, positions: int, width: int, heads: int, bias: str) -> str:
    """Three products for queries, keys and values, attention, and the product that joins the heads."""
    depth = width // heads
    q, k, v = (graph.heads(graph.linear(x, width, width), positions, heads, depth) for _ in range(3))
    y = graph.joined(graph.attention(q, k, v, depth, bias), positions, width)
    return graph.linear(y, width, width)


def minilm(layers: int = 6, width: int = 384, heads: int = 12, positions: int = 128) -> Network:
    """MiniLM-L6 (Wang et al., 2020), an encoder of sentences, with the mask of padding that BERT adds."""
    graph, words = Graph(), 30522
    ids, mask = graph.feed("ids", 1, positions, below=words), graph.feed("mask", 1, positions, below=2)
    graph.feeds["mask"][:] = 1
    table = graph.normal(words, width, deviation=1)
    x = graph.node("Add", graph.node("Gather", table, ids), graph.normal(1, positions, width, deviation=0.1))
    x = graph.layer_norm(x, width)
    wide = graph.node("Unsqueeze", graph.node("Cast", mask, to=1), graph.weight(np.array([1, 2], np.int64)))
    hidden = graph.node("Sub", graph.weight(np.float32(1)), wide)
    bias = graph.node("Mul", hidden, graph.weight(np.float32(-1e4)))
    for _ in range(layers):
        a = _self_attention(graph, x, positions, width, heads, bias)
        x = graph.layer_norm(graph.node("Add", x, a), width)
        h = graph.gelu(graph.linear(x, width, 4 * width))
        x = graph.layer_norm(graph.node("Add", x, graph.linear(h, 4 * width, width)), width)
    return graph.network(x)


def gpt(positions: int = 128, past: int = 0, layers: int = 6, width: int = 512, heads: int = 8) -> Network:
    """A decoder like GPT-2 (Radford et al., 2019): 8,192 words, ``past`` positions kept as keys and values."""
    graph, words, depth = Graph(), 8192, width // heads
    ids = graph.feed("ids", 1, positions, below=words)
    x = graph.node("Gather", graph.normal(words, width, deviation=1), ids)
    x = graph.node("Add", x, graph.normal(1, positions, width, deviation=0.1))
    causal = np.triu(np.full((positions, past + positions), -1e4, np.float32), past + 1)[None, None]
    bias = graph.weight(causal)
    stores = []
    for layer in range(layers):
        y = graph.linear(graph.layer_norm(x, width), width, 3 * width)
        split = graph.weight(np.array([width] * 3, np.int64))
        parts = graph.node("Split", y, split, outputs=3, axis=2)
        q, *kept = (graph.heads(part, positions, heads, depth) for part in parts)
        if past:
            kept = [
                graph.node("Concat", graph.feed(f"past_{layer}_{name}", 1, heads, past, depth), new, axis=2)
                for name, new in zip("kv", kept)
            ]
            stores += kept
        a = graph.joined(graph.attention(q, kept[0], kept[1], depth, bias), positions, width)
        x = graph.node("Add", x, graph.linear(a, width, width))
        h = graph.gelu_tanh(graph.linear(graph.layer_norm(x, width), width, 4 * width))
        x = graph.node("Add", x, graph.linear(h, 4 * width, width))
    x = graph.layer_norm(x, width)
    return graph.network(graph.node("MatMul", x, graph.normal(width, words, deviation=width**-0.5)), *stores)


NETWORKS: Dict[str, Callable[[], Network]] = {
    "gru": lambda: recurrent("GRU"),
    "gru_batch8": lambda: recurrent("GRU", batch=8),
    "lstm": lambda: recurrent("LSTM"),
    "bilstm": lambda: recurrent("LSTM", directions=2),
    "vit_tiny": vit_tiny,
    "minilm_l6": minilm,
    "gpt_128": gpt,
    "gpt_cached": lambda: gpt(1, past=128),
}
