"""Attention with its projections, as onnxruntime fuses them, in terms of MultiHeadAttention."""

from __future__ import annotations

from typing import List, Optional

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import DOMAIN, Nodes, defines, given, integers
from exporter.onnx.node import Node
from runtime_arm.errors import ExportError

_PARTS = ["query", "key", "value"]


def _attended(node: Node, bias: str, mask: str, extra: str, past: bool) -> Nodes:
    """MultiHeadAttention of query, key and value, with the past and the present as one blob."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.get_int(name, 0):
            raise ExportError(f"the attribute {name} is not supported")
    names = ["num_heads", "unidirectional", "scale", "mask_filter_value"]
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    before: Nodes = []
    old = ["", ""]
    if past:
        old = ["past_key", "past_value"]
        before = [
            integers("first", 0),
            make("Split", ["past"], ["past_keys", "past_values"], axis=0, num_outputs=2),
            *(make("Squeeze", [f"{name}s", "first"], [name]) for name in old),
        ]
    new = ["present_key", "present_value"] if node.wants(1) else []
    attend = make("MultiHeadAttention", [*_PARTS, bias, mask, extra, *old], ["output", *new], DOMAIN, **attributes)
    after: Nodes = []
    if new:
        after = [
            integers("front", 0),
            *(make("Unsqueeze", [name, "front"], [f"{name}s"]) for name in new),
            make("Concat", [f"{name}s" for name in new], ["present"], axis=0),
        ]
    return [*before, attend, *after]


def _apart(node: Node, joined: str, sizes: Optional[List[int]]) -> Nodes:
    """Query, key and value, which are joined along the last dimension."""
    if sizes is None:
        return [make("Split", [joined], _PARTS, axis=-1, num_outputs=3)]
    return [integers("sizes", *sizes), make("Split", [joined, "sizes"], _PARTS, axis=-1)]


@defines("Attention", "input weights bias mask_index past attention_bias past_sequence_length", "output present")
def attention(node: Node) -> Nodes:
    """MultiHeadAttention of input x weights + bias."""
    _, _, bias, mask, _, extra = given(node, ["input", "weights", "bias", "mask_index", "past", "attention_bias"])
    sizes = node.get_ints("qkv_hidden_sizes", [])
    project = make("MatMul", ["input", "weights"], ["joined"])
    return [project, *_apart(node, "joined", sizes or None), *_attended(node, bias, mask, extra, node.has(4))]


@defines(
    "QAttention",
    "input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past",
    "output present",
)
def quantised_attention(node: Node) -> Nodes:
    """Attention whose projection multiplies integers."""
    names = ["input", "weight", "bias", "input_scale", "weight_scale", "mask_index"]
    names += ["input_zero_point", "weight_zero_point"]
    x, weight, bias, x_scale, weight_scale, mask, x_zero, weight_zero = given(node, names)
    operands = [x, weight, x_scale, weight_scale, x_zero, weight_zero]
    project = make("MatMulIntegerToFloat", operands, ["joined"], DOMAIN)
    return [project, *_apart(node, "joined", None), *_attended(node, bias, mask, "", node.has(8))]


@defines(
    "DecoderMaskedMultiHeadAttention",
    "query key value mask_index attention_bias past_key past_value past_sequence_length beam_width cache_indirection "
    "bias",
    "output present_key present_value qk",
)
def decoder_masked_multi_head_attention(node: Node) -> Nodes:
    """MultiHeadAttention of a single query."""
    if node.get_int("past_present_share_buffer", 0):
        raise ExportError("the attribute past_present_share_buffer is not supported")
    names = ["query", "key", "value", "bias", "mask_index", "attention_bias", "past_key", "past_value"]
    inputs = [name if node.has(index) else "" for name, index in zip(names, (0, 1, 2, 10, 3, 4, 5, 6))]
    kept = {
        name: node.attributes[name] for name in ("num_heads", "scale", "mask_filter_value") if name in node.attributes
    }
    outputs = [
        name if node.wants(index) else "" for index, name in enumerate(["output", "present_key", "present_value"])
    ]
    return [make("MultiHeadAttention", inputs, outputs, DOMAIN, **kept)]


@defines("GemmaRotaryEmbedding", "emb q q_rot k k_rot", "output1 output2")
def gemma_rotary_embedding(node: Node) -> Nodes:
    """x cos(emb) + x_rot sin(emb), for queries and keys; the angles have no heads."""
    angles = [
        integers("heads", 1),
        make("Sin", ["emb"], ["sines"]),
        make("Cos", ["emb"], ["cosines"]),
        make("CastLike", ["sines", "q"], ["sines_typed"]),
        make("CastLike", ["cosines", "q"], ["cosines_typed"]),
        make("Unsqueeze", ["sines_typed", "heads"], ["sin"]),
        make("Unsqueeze", ["cosines_typed", "heads"], ["cos"]),
    ]
    turned = []
    for name, output in (("q", "output1"), ("k", "output2")):
        turned += [
            make("Mul", [name, "cos"], [f"{name}_cos"]),
            make("Mul", [f"{name}_rot", "sin"], [f"{name}_sin"]),
            make("Add", [f"{name}_cos", f"{name}_sin"], [output]),
        ]
    return [*angles, *turned]
