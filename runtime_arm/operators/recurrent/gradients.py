"""Gradient makers of the recurrent operators. Lengths and time steps have no gradient."""

from __future__ import annotations

from typing import List

from runtime_arm.errors import GradientError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("LSTMUnit")
def lstm_unit(forward: Forward) -> Backward:
    return _unit(forward, 2, [0, 1, 2])


@gradient("GRUUnit")
def gru_unit(forward: Forward) -> Backward:
    return _unit(forward, 1, [0, 1])


def _unit(forward: Forward, states: int, of: List[int]) -> Backward:
    """From the inputs, the outputs and their gradients; zeros for a state that has none."""
    inputs = [forward.input(index) for index in range(len(forward.op.input))]
    outputs = [forward.output(index) for index in range(states)]
    zeros: List[OperatorDef] = []
    errors: List[str] = []
    for index, output in enumerate(outputs):
        if forward.has_gradient(index):
            errors.append(forward.gradient(index))
        else:
            errors.append(f"_{output}_no_grad")
            zeros.append(forward.make("ConstantFill", [output], errors[-1:], copy=False, value=0.0))
    made = forward.by(f"{forward.op.type}Gradient", [*inputs, *outputs, *errors], of)
    return Backward((*zeros, *made.ops), made.gradients)


@gradient("RecurrentNetwork")
def recurrent_network(forward: Forward) -> Backward:
    """Of input 0, the parameters and the initial states; the step net's gradient net is an argument."""
    op = forward.op
    if not op.has("backward_step_net"):
        raise GradientError(op, "the gradient needs argument backward_step_net, which is made with the network")
    wanted = op.get_ints("outputs_with_grads")
    for index, name in enumerate(op.output):
        if forward.has_gradient(index) and index not in wanted:
            raise GradientError(op, f"output {name!r} has a gradient, but is not among outputs_with_grads")
    given = [forward.gradient(index) for index in wanted]
    given += [forward.input(index) for index in range(len(op.input))]
    given += [forward.output(index) for index in range(len(op.output))]
    of = [0, *op.get_ints("param"), *op.get_ints("initial_recurrent_state_ids")]
    return forward.by("RecurrentNetworkGradient", given, of)


@gradient("LSTM", "GRU", "RNN", domain="onnx")
def onnx_layer(forward: Forward) -> Backward:
    """From the inputs and the gradients of the outputs; the steps run again."""
    op = forward.op
    states = 2 if op.type == "LSTM" else 1
    unusual = [name for name in ("activations", "clip", "input_forget") if op.has(name)]
    if unusual or any(forward.given(7)):
        what = ", ".join(unusual) or "peepholes"
        raise GradientError(op, f"there is no gradient with {what}: the layer must have its usual activations")
    inputs = forward.given(*range(5 + states))
    errors = [forward.gradient(index) if forward.has_gradient(index) else "" for index in range(1 + states)]
    present = [index for index in (0, 1, 2, 3, 5, 6) if any(forward.given(index))]
    return forward.by(f"{op.type}Gradient", [*inputs, *errors], present, domain="armnet")
