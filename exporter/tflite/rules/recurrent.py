"""Recurrent layers. Their states are variable tensors that keep their content from run to run."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from exporter.tflite.rules.convolution import is_hybrid, only_scale, signed_weights, weight_scales
from exporter.tflite.rules.quantisation import as_floats
from runtime_arm.errors import ExportError

_ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
_LSTM_INPUTS = 24
_HIDDEN, _STATE = 18, 19


def _activation(node: Node) -> str:
    number = int(node.option("fused_activation_function"))
    if number not in _ACTIVATIONS:
        raise ExportError(f"the activation {number} is not supported")
    return _ACTIVATIONS[number]


def _inputs(node: Node, indices: Sequence[Optional[int]]) -> Tuple[List[str], Dict[str, Any]]:
    """The blobs of the inputs at these indices, and the scales of 8-bit weights among them."""
    names, scales, integers = [], [], False
    for index in indices:
        if index is None or not node.has(index):
            names.append("")
            scales.append(0.0)
            continue
        hybrid = node.value(index) is not None and is_hybrid(node, index, old=True)
        names.append(signed_weights(node, index) if hybrid else node.input(index))
        scales.append(only_scale(node, index) if hybrid else 0.0)
        integers = integers or hybrid
    return names, {"scales": scales} if integers else {}


def arguments_of(node: Node) -> Dict[str, Any]:
    """Activation and layout; a single step has no time dimension."""
    options = node.operation.options
    knows = options is not None and options.knows("time_major")
    asymmetric = int(node.option("asymmetric_quantize_inputs", False))
    return {
        "activation": _activation(node),
        "asymmetric": asymmetric,
        "time_major": int(node.option("time_major", False)) if knows else 1,
    }


@rule("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(node: Node) -> None:
    names, more = _inputs(node, range(5))
    hidden = node.between("hidden")
    node.add("RNN", names, [node.output(), hidden], domain="tflite", **arguments_of(node), **more)
    node.update(4, hidden)


@rule("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(node: Node) -> None:
    """A layer in each direction; the second sees the sequence reversed."""
    if any(node.has(index) for index in (9, 10, 11)):
        raise ExportError("auxiliary inputs are not supported")
    arguments, results = arguments_of(node), []
    for start, backwards in ((1, False), (5, True)):
        names, more = _inputs(node, [0, *range(start, start + 4)])
        hidden, names[0] = node.between("hidden"), _turned(node, names[0], arguments, backwards)
        raw = node.between("steps")
        node.add("RNN", names, [raw, hidden], domain="tflite", **arguments, **more)
        node.update(start + 3, hidden)
        results.append(_turned(node, raw, arguments, backwards))
    _merge(node, results)


@rule("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(node: Node) -> None:
    _lstm(node, range(node.input_count), node.output())


@rule("LSTM")
def lstm(node: Node) -> None:
    """A single step: with all inputs, or in the basic form with states as inputs and outputs of the graph."""
    if node.option("kernel_type") == 0:
        return _lstm(node, range(node.input_count), node.output())
    depth = node.known_dims(0, 2)[-1]
    weights, offsets = node.constant_value(2, "the weights"), node.constant_value(3, "the bias")
    order = (0, 2, 1, 3)  # stored as i, c, f, o
    parts = [
        np.split(values, 4)[gate] for values in (weights[:, :depth], weights[:, depth:], offsets) for gate in order
    ]
    names = [node.constant("gate", np.ascontiguousarray(part)) for part in parts]
    inputs = [node.input(0), *names[:8], "", "", "", *names[8:], "", "", node.input(1), node.input(4)]
    node.add(
        "LSTM",
        inputs,
        [node.output(0), node.between("hidden"), node.output(1)],
        domain="tflite",
        activation="TANH",
        **_clips(node),
    )


@rule("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(node: Node) -> None:
    if any(node.has(index) for index in range(39, 48)):
        raise ExportError("auxiliary inputs are not supported")
    results = []
    for start, hidden, backwards in ((1, 35, False), (18, 37, True)):
        raw = node.between("steps")
        _lstm(node, [0, *range(start, start + 17), hidden, hidden + 1], raw, backwards)
        results.append(_turned(node, raw, arguments_of(node), backwards))
    _merge(node, results)


def _lstm(node: Node, indices: Sequence[int], output: str, backwards: bool = False) -> None:
    places = list(indices)
    if not _STATE < len(places) <= _LSTM_INPUTS:
        raise ExportError(f"takes {_STATE + 1} to {_LSTM_INPUTS} inputs, got {len(places)}")
    names, more = _inputs(node, [*places, *[None] * (_LSTM_INPUTS - len(places))])
    arguments = {**arguments_of(node), **_clips(node)}
    names[0] = _turned(node, names[0], arguments, backwards)
    states = [node.between("hidden"), node.between("cell")]
    node.add("LSTM", names, [output, *states], domain="tflite", **arguments, **more)
    for place, blob in zip((_HIDDEN, _STATE), states):
        node.update(places[place], blob)


def _clips(node: Node) -> Dict[str, float]:
    return {name: float(node.option(name, 0.0)) for name in ("cell_clip", "proj_clip")}


def _turned(node: Node, blob: str, arguments: Dict[str, Any], backwards: bool) -> str:
    """The sequence, reversed if that is wanted."""
    if not backwards:
        return blob
    turned = node.between("turned")
    rows = {"starts": -1, "ends": int(np.iinfo(np.int64).min), "axes": 0 if arguments["time_major"] else 1, "steps": -1}
    names = [node.constant(stem, np.array([number], np.int64)) for stem, number in rows.items()]
    node.add("Slice", [blob, *names], [turned], domain="onnx")
    return turned


def _merge(node: Node, results: List[str]) -> None:
    """One output with both directions side by side, or one output for each."""
    if node.option("merge_outputs", False):
        node.add("Concat", results, [node.output(), node.between("lengths")], axis=2)
    else:
        for index, blob in enumerate(results):
            node.alias(index, blob)


@rule("SVDF")
def svdf(node: Node) -> None:
    """Inputs: X, feature and time weights, bias, state. 8-bit time weights are dequantised."""
    features = node.between("features")
    if is_hybrid(node, 1):
        node.add(
            "HybridFullyConnected",
            [node.input(0), node.input(1)],
            [features],
            domain="tflite",
            W_scales=weight_scales(node, 1),
            asymmetric=int(node.option("asymmetric_quantize_inputs", False)),
        )
    else:
        turned = node.between("weights")
        node.add("Transpose", [node.input(1)], [turned], axes=[1, 0])
        node.add("MatMul", [node.input(0), turned], [features], domain="onnx")
    times = node.input(2)
    if is_hybrid(node, 2):
        times = node.constant("times", as_floats(node.constant_value(2, "weights of time"), node.quantization(2)))
    inputs = [features, times, node.input(4), *([node.input(3)] if node.has(3) else [])]
    state = node.between("state")
    with node.activated() as output:
        node.add("SVDF", inputs, [output, state], domain="tflite", rank=int(node.option("rank")))
    node.update(4, state)
