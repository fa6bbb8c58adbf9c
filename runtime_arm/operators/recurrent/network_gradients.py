"""The gradient of Caffe2's RecurrentNetwork: its step net's gradient net, run backwards through time.

Caffe2 keeps the blobs of every step in workspaces. Here the steps run again, and the blobs that the gradient net reads
are kept until it has run.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.control.control import SubNets
from runtime_arm.operators.recurrent.caffe2_networks import Link, state_of, step_by_step, table_of
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("RecurrentNetworkGradient", inputs=(3, None), outputs=(1, None), control=True)
def recurrent_network_gradient(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """The gradients of RecurrentNetwork's input 0, of the inputs ``param``, and of the initial states, in this order.

    Inputs: the gradients of the outputs ``outputs_with_grads``, the inputs, the outputs. ``backward_step_net`` computes
    from the gradients of one step's states those of the states before, of the input's rows
    (``backward_link_internal``, ``backward_link_external``, ``backward_link_offset``) and of the parameters
    (``param_grads``). Source: caffe2/operators/rnn/recurrent_network_op.h.
    """
    _backward_links(op)
    raise DataDependent("the step net")


def _backward_links(op: OperatorDef) -> List[Link]:
    rows = table_of(op, ("backward_link_internal", "backward_link_external"), ("backward_link_offset",))
    return [Link(*row) for row in rows]


@recurrent_network_gradient.reference
def recurrent_network_gradient_reference(op: OperatorDef, nets: SubNets, *given: Any) -> List[Any]:
    with_gradients = op.get_ints("outputs_with_grads")
    inputs = given[len(with_gradients) : len(given) - _outputs(op)]
    names = op.input[len(with_gradients) : len(given) - _outputs(op)]
    states = table_of(op, ("recurrent_states",), ("initial_recurrent_state_ids",))
    require(op, inputs[0].ndim >= 2, "the first input must be (T, N, ...)")
    steps, batch = inputs[0].shape[:2]
    blobs: Dict[str, Array] = dict(zip(names, inputs))
    for state, index in states:
        blobs[state] = state_of(op, state, inputs[index], steps, batch)
    net = op.get_net("backward_step_net")
    kept = list(step_by_step(op, nets, blobs, steps, net.captures()))
    errors = {f"{name}_grad": np.zeros(blobs[name].shape, blobs[name].dtype) for name in _linked(op, blobs)}
    _take_up(op, errors, dict(zip(with_gradients, given)))
    parameters = _run_backwards(op, nets, kept, errors)
    firsts = [_of_initial(errors[f"{state}_grad"], inputs[index]) for state, index in states]
    return [errors[f"{names[0]}_grad"], *parameters, *firsts]


def _outputs(op: OperatorDef) -> int:
    """How many outputs the forward operator has: those of its aliases, and the workspaces of its steps."""
    own = set(op.get_strs("alias_dst"))
    tail = [name for name in op.input if name in own]
    return len(op.input) - op.input.index(tail[0]) if tail else 1


def _linked(op: OperatorDef, blobs: Dict[str, Array]) -> List[str]:
    """The blobs whose rows the gradient net has gradients of."""
    externals = dict.fromkeys(link.external for link in _backward_links(op))
    known = [name for name in blobs if f"{name}_grad" in externals]
    unknown = set(externals) - {f"{name}_grad" for name in known}
    if unknown:
        raise ArgumentError(op, f"backward_link_external names {sorted(unknown)}, gradients of no input or state")
    return known


def _take_up(op: OperatorDef, errors: Dict[str, Array], given: Dict[int, Array]) -> None:
    """Adds the gradients of the outputs to those of the states that they are rows of."""
    aliases = {target: (source, offset) for source, target, offset in _aliases(op)}
    names = list(dict.fromkeys(target for _, target, _ in _aliases(op)))
    for index, error in given.items():
        require(op, index < len(names), f"output {index} is no state, so its gradient leads nowhere")
        source, offset = aliases[names[index]]
        rows = errors[f"{source}_grad"][offset:]
        require(
            op, error.size == rows.size, f"the gradient of {names[index]!r} must be {rows.shape}, got {error.shape}"
        )
        rows += error.reshape(rows.shape)


def _aliases(op: OperatorDef) -> List[Any]:
    return table_of(op, ("alias_src", "alias_dst"), ("alias_offset",))


def _run_backwards(
    op: OperatorDef, nets: SubNets, kept: Sequence[Dict[str, Any]], errors: Dict[str, Array]
) -> List[Array]:
    """Runs the gradient net from the last step to the first; the sums of the parameters' gradients over the steps."""
    net, links = op.get_net("backward_step_net"), _backward_links(op)
    read, parameters = set(net.captures()), op.get_strs("param_grads")
    written = {name for step in net.op for name in step.output}
    targets = [link for link in links if link.internal in written]
    fetches = list(dict.fromkeys([*(link.internal for link in targets), *parameters]))
    totals: List[Any] = [0.0] * len(parameters)
    for t in reversed(range(len(kept))):
        feeds = {link.internal: errors[link.external][link.rows(t)] for link in links if link.internal in read}
        results = dict(zip(fetches, nets.run(net, {**kept[t], **feeds}, fetches)))
        for link in targets:
            rows, result = errors[link.external][link.rows(t)], results[link.internal]
            if link.internal in read:  # the net has added to what it was given
                rows[...] = result.reshape(rows.shape)
            else:
                rows += result.reshape(rows.shape)
        totals = [total + results[name].astype(np.float64) for total, name in zip(totals, parameters)]
    return [np.asarray(total).astype(results[name].dtype) for total, name in zip(totals, parameters)]


def _of_initial(error: Array, first: Array) -> Array:
    """The gradient of an initial state, (K, N, D), or (N, D) or (D), which are one row."""
    if first.ndim == 3:
        return np.array(error[: len(first)])
    return np.array(error[0]) if first.ndim == 2 else np.asarray(error[0].sum(axis=0))
