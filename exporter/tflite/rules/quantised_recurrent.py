"""Recurrent layers of integers. Their states are variable tensors that keep their content from run to run."""

from __future__ import annotations

from typing import Any, Dict, List

from exporter.tflite.node import Node
from exporter.tflite.rules import quantised_rule
from exporter.tflite.rules.quantised import DOMAIN, of_input, of_output
from exporter.tflite.rules.recurrent import arguments_of
from runtime_arm.errors import ExportError

_RELU, _TANH = 1, 4  # tflite.ActivationFunctionType
_INPUTS, _NORM, _PROJECTION, _HIDDEN, _STATE = 24, 20, 16, 18, 19


@quantised_rule("SVDF")
def svdf(node: Node) -> None:
    """Inputs: X, feature and time weights, bias, state. The activation must be RELU: it is in the output's range."""
    if node.option("fused_activation_function") != _RELU:
        raise ExportError("an SVDF of integers must have the activation RELU")
    inputs = [node.input(index) for index in (0, 1, 2, 4)] + ([node.input(3)] if node.has(3) else [])
    state = node.between("state")
    node.add(
        "QuantizedSVDF",
        inputs,
        [node.output(), state],
        domain=DOMAIN,
        rank=int(node.option("rank")),
        **of_input(node, 0),
        **of_output(node),
        W_scale=node.scale(1)[0],
        times_scale=node.scale(2)[0],
        state_scale=node.scale(4)[0],
    )
    node.update(4, state)


@quantised_rule("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM")
def lstm(node: Node) -> None:
    """The scales of normalised gates and of what is projected are those of the intermediate tensors."""
    if node.type == "LSTM" and node.option("kernel_type") != 0:
        raise ExportError("the basic form of an LSTM of integers is not supported")
    if node.option("fused_activation_function") != _TANH:
        raise ExportError("an LSTM of integers must have the activation TANH")
    if not _STATE < node.input_count <= _INPUTS:
        raise ExportError(f"takes {_STATE + 1} to {_INPUTS} inputs, got {node.input_count}")
    names = [node.input(index) if node.has(index) else "" for index in range(node.input_count)]
    scales: List[float] = [
        node.scale(index)[0] if node.has(index) and node.quantization(index) is not None else 0.0
        for index in range(_INPUTS)
    ]
    states = [node.between("hidden"), node.between("cell")]
    layout = arguments_of(node)
    node.add(
        "QuantizedLSTM",
        names,
        [node.output(), *states],
        domain=DOMAIN,
        time_major=layout["time_major"],
        scales=scales,
        **_of_gates(node),
        **of_input(node, 0),
        **of_input(node, _HIDDEN, "H"),
        C_scale=node.scale(_STATE)[0],
        cell_clip=float(node.option("cell_clip", 0.0)),
        proj_clip=float(node.option("proj_clip", 0.0)),
    )
    for place, blob in zip((_HIDDEN, _STATE), states):
        node.update(place, blob)


def _of_gates(node: Node) -> Dict[str, Any]:
    normalised = node.has(_NORM + 1)
    gates = [node.intermediate_scale(gate)[0] if _has_gate(node, gate) else 0.0 for gate in range(4)]
    scale, zero_point = node.intermediate_scale(4)
    return {
        "gate_scales": gates if normalised else [0.0] * 4,
        "hidden_scale": scale,
        "hidden_zero_point": zero_point,
    }


def _has_gate(node: Node, gate: int) -> bool:
    return node.has(_NORM + gate)
