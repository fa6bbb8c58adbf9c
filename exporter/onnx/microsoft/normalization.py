"""Normalisation, and the operators before and after it in a language network."""

from __future__ import annotations

from exporter.onnx.making import make
from exporter.onnx.microsoft.definitions import Nodes, added, defines, integers, number
from exporter.onnx.node import Node
from runtime_arm.errors import ExportError


@defines("SkipLayerNormalization", "input skip gamma beta bias", "output mean inv_std_var input_skip_bias_sum")
def skip_layer_normalization(node: Node) -> Nodes:
    """LayerNormalization of input + skip + bias; that sum is the fourth output."""
    total = added(node, [(0, "input"), (1, "skip"), (4, "bias")], "input_skip_bias_sum")
    inputs = ["input_skip_bias_sum", "gamma", *(["beta"] if node.has(3) else [])]
    statistics = [name if node.wants(index) else "" for index, name in ((1, "mean"), (2, "inv_std_var"))]
    epsilon = node.get_float("epsilon", 1e-12)
    return [*total, make("LayerNormalization", inputs, ["output", *statistics], epsilon=epsilon)]


def _root_mean_square(node: Node, x: str, scale: str, output: str, inverse: int) -> Nodes:
    """RMSNormalization, and, if the node wants output ``inverse``, 1 / sqrt(the mean of the squares + epsilon)."""
    epsilon = node.get_float("epsilon", 1e-5)
    axis = node.get_int("axis", -1)
    normal = make("RMSNormalization", [x, scale], [output], axis=axis, epsilon=epsilon)
    if not node.wants(inverse):
        return [normal]
    if axis != -1:
        raise ExportError("the inverse root of more than the last dimension is not supported")
    return [
        normal,
        integers("last", -1),
        number("epsilon", epsilon),
        make("Mul", [x, x], ["squares"]),
        make("ReduceMean", ["squares", "last"], ["mean_square"]),
        make("Add", ["mean_square", "epsilon"], ["shifted"]),
        make("Sqrt", ["shifted"], ["root"]),
        make("Reciprocal", ["root"], ["inv_std_var"]),
    ]


@defines("SimplifiedLayerNormalization", "X scale", "Y inv_std_var", domain="")
def simplified_layer_normalization(node: Node) -> Nodes:
    """onnxruntime's operator, although it is in ONNX's domain."""
    return _root_mean_square(node, "X", "scale", "Y", 1)


@defines("SkipSimplifiedLayerNormalization", "input skip gamma bias", "output mean inv_std_var input_skip_bias_sum")
def skip_simplified_layer_normalization(node: Node) -> Nodes:
    """RMSNormalization of input + skip + bias; that sum is the fourth output."""
    total = added(node, [(0, "input"), (1, "skip"), (3, "bias")], "input_skip_bias_sum")
    return [*total, *_root_mean_square(node, "input_skip_bias_sum", "gamma", "output", 2)]


@defines(
    "EmbedLayerNormalization",
    "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
    "output mask_index embedding_sum",
)
def embed_layer_normalization(node: Node) -> Nodes:
    """LayerNormalization of the sum of the embeddings of words, positions and segments."""
    place = "position_ids" if node.has(8) else "counted"
    nodes = [] if node.has(8) else _counted()
    nodes += [make("Gather", ["word_embedding", "input_ids"], ["words"])]
    nodes += [make("Gather", ["position_embedding", place], ["positions"])]
    if node.has(1):
        nodes += [make("Gather", ["segment_embedding", "segment_ids"], ["segments"])]
    return [*nodes, *_embedded(node)]


@defines(
    "QEmbedLayerNormalization",
    "input_ids segment_ids word_embedding position_embedding segment_embedding gamma_quant beta_quant mask "
    "word_scale position_scale segment_scale gamma_scale beta_scale "
    "word_zero position_zero segment_zero gamma_zero beta_zero",
    "output mask_index",
)
def quantised_embed_layer_normalization(node: Node) -> Nodes:
    """EmbedLayerNormalization whose tables and parameters are 8-bit numbers."""
    nodes = _counted()
    parts = [
        ("word", "input_ids", "words"),
        ("position", "counted", "positions"),
        ("segment", "segment_ids", "segments"),
    ]
    for part, indices, result in parts if node.has(1) else parts[:2]:
        nodes += [
            make("Gather", [f"{part}_embedding", indices], [f"{result}_quant"]),
            make("DequantizeLinear", [f"{result}_quant", f"{part}_scale", f"{part}_zero"], [result]),
        ]
    for name in ("gamma", "beta"):
        nodes += [make("DequantizeLinear", [f"{name}_quant", f"{name}_scale", f"{name}_zero"], [name])]
    return [*nodes, *_embedded(node)]


def _counted() -> Nodes:
    """0, 1, 2, ... for the words of a row."""
    return [
        make("Shape", ["input_ids"], ["length"], start=1),
        make("Squeeze", ["length"], ["count"]),
        make("Constant", [], ["zero"], value_int=0),
        make("Constant", [], ["one"], value_int=1),
        make("Range", ["zero", "count", "one"], ["counted"]),
    ]


def _embedded(node: Node) -> Nodes:
    """The sum of the gathered rows, normalised, and the lengths of the rows."""
    nodes = [make("Add", ["words", "positions"], ["placed" if node.has(1) else "embedding_sum"])]
    if node.has(1):
        nodes += [make("Add", ["placed", "segments"], ["embedding_sum"])]
    epsilon = node.get_float("epsilon", 1e-12)
    nodes += [make("LayerNormalization", ["embedding_sum", "gamma", "beta"], ["output"], epsilon=epsilon)]
    return [*nodes, *_mask_index(node)]


def _mask_index(node: Node) -> Nodes:
    """The number of words that the mask marks, for each row; 0 without a mask."""
    if not node.wants(1):
        return []
    marked = "mask"
    nodes = [integers("along", 1)]
    if not node.has(7):
        nodes += [make("Sub", ["input_ids", "input_ids"], ["none"])]
        marked = "none"
    nodes += [
        make("ReduceSum", [marked, "along"], ["marked"], keepdims=0),
        make("Cast", ["marked"], ["mask_index"], to=6),
    ]
    return nodes


@defines("GroupNorm", "X gamma beta", "Y")
def group_norm(node: Node) -> Nodes:
    """GroupNormalization, of images with channels last unless ``channels_last`` is 0, perhaps with x * sigmoid(x)."""
    return _grouped(node, "X", "Y")


@defines("SkipGroupNorm", "X gamma beta skip bias", "Y S")
def skip_group_norm(node: Node) -> Nodes:
    """GroupNorm of X + skip + bias; that sum is the second output."""
    last = node.get_int("channels_last", 1)
    nodes: Nodes = []
    skip = "skip"
    if node.rank(3) == 2:
        nodes = [integers("image", *((1, 2) if last else (2, 3))), make("Unsqueeze", ["skip", "image"], ["pixels"])]
        skip = "pixels"
    nodes += [make("Add", ["X", skip], ["S" if not node.has(4) else "partial"])]
    if node.has(4) and not last:
        raise ExportError("a bias with channels first is not supported")
    nodes += [make("Add", ["partial", "bias"], ["S"])] if node.has(4) else []
    return [*nodes, *_grouped(node, "S", "Y")]


def _grouped(node: Node, x: str, y: str) -> Nodes:
    last, activation = node.get_int("channels_last", 1), node.get_int("activation", 0)
    epsilon, groups = node.get_float("epsilon", 1e-5), node.get_int("groups")
    first = [make("Transpose", [x], ["planes"], perm=[0, 3, 1, 2])] if last else [make("Identity", [x], ["planes"])]
    normal = make("GroupNormalization", ["planes", "gamma", "beta"], ["normal"], num_groups=groups, epsilon=epsilon)
    active = [make("Sigmoid", ["normal"], ["gate"]), make("Mul", ["normal", "gate"], ["active"])] if activation else []
    result = "active" if activation else "normal"
    back = make("Transpose", [result], [y], perm=[0, 2, 3, 1]) if last else make("Identity", [result], [y])
    return [*first, normal, *active, back]
