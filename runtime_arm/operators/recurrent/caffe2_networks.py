"""Caffe2's recurrent networks: RecurrentNetwork, which runs a step net at each time step, and InferenceLSTM."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, require_same_dtype
from runtime_arm.operators.control.control import SubNets
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec


class Link(NamedTuple):
    """A blob of the step net that stands for ``window`` rows of an outer blob, from row ``t + offset`` on."""

    internal: str
    external: str
    offset: int
    window: int = 1

    def rows(self, step: int) -> slice:
        return slice(step + self.offset, step + self.offset + self.window)


def table_of(op: OperatorDef, texts: Tuple[str, ...], numbers: Tuple[str, ...]) -> List[Any]:
    """The rows of a table whose columns are list arguments of one length."""
    columns: List[Any] = [*map(op.get_strs, texts), *map(op.get_ints, numbers)]
    if len(set(map(len, columns))) > 1:
        raise ArgumentError(
            op,
            f"{', '.join(texts + numbers)} must have equal lengths, got "
            f"{', '.join(str(len(column)) for column in columns)}",
        )
    return list(zip(*columns))


def links_of(op: OperatorDef) -> List[Link]:
    columns = ("link_offset", "link_window") if op.has("link_window") else ("link_offset",)
    rows = table_of(op, ("link_internal", "link_external"), columns)
    return [Link(internal, external, *numbers) for internal, external, *numbers in rows]


@operator("RecurrentNetwork", inputs=(1, None), outputs=(1, None), control=True)
def recurrent_network(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Runs ``step_net`` at each time step t of the first input (T, N, ...). Blob ``timestep`` is t, int32.

    ``recurrent_states`` are blobs (T + K, N, D) that start with the K rows of the inputs
    ``initial_recurrent_state_ids``: (K, N, D), or (N, D) or (D), which are one row. Before a step, each blob
    ``link_internal`` is set to ``link_window`` (1) rows of the input or state ``link_external``, ``link_offset`` rows
    after row t; what the step writes to the blob goes back there. The outputs ``alias_dst`` are the states
    ``alias_src`` from row ``alias_offset`` on, which counts from the end if negative. Further outputs serve training
    and are empty. Source: caffe2/operators/rnn/recurrent_network_op.h.
    """
    links_of(op)
    table_of(op, ("recurrent_states",), ("initial_recurrent_state_ids",))
    table_of(op, ("alias_src", "alias_dst"), ("alias_offset",))
    raise DataDependent("the step net")


@recurrent_network.reference
def recurrent_network_reference(op: OperatorDef, nets: SubNets, *inputs: Any) -> List[Any]:
    require(op, inputs[0].ndim >= 2, "the first input must be (T, N, ...)")
    steps, batch = inputs[0].shape[:2]
    blobs: Dict[str, Array] = dict(zip(op.input, inputs))
    for name, index in table_of(op, ("recurrent_states",), ("initial_recurrent_state_ids",)):
        require(op, 0 <= index < len(inputs), f"state {name!r} starts with input {index}, but there is no such input")
        blobs[name] = state_of(op, name, inputs[index], steps, batch)
    _run_steps(op, nets, blobs, steps)
    outputs = {name: blobs[name] for name in op.output if name in blobs}
    for source, target, offset in table_of(op, ("alias_src", "alias_dst"), ("alias_offset",)):
        require(op, source in blobs, f"alias_src names {source!r}, which is neither an input nor a state")
        outputs[target] = blobs[source][offset:].copy()
    return [outputs.get(name, np.zeros(0, np.float32)) for name in op.output]


def state_of(op: OperatorDef, name: str, first: Array, steps: int, batch: int) -> Array:
    """The blob of a state, with its first rows filled."""
    fits = first.ndim in (1, 2, 3) and (first.ndim == 1 or first.shape[-2] == batch)
    require(op, fits, f"state {name!r} must start with (K, {batch}, D), ({batch}, D) or (D), got {first.shape}")
    rows = first if first.ndim == 3 else np.broadcast_to(first, (1, batch, first.shape[-1]))
    state = np.zeros((steps + len(rows), *rows.shape[1:]), first.dtype)
    state[: len(rows)] = rows
    return state


def _run_steps(op: OperatorDef, nets: SubNets, blobs: Dict[str, Array], steps: int) -> None:
    for _ in step_by_step(op, nets, blobs, steps, ()):
        pass


def step_by_step(
    op: OperatorDef, nets: SubNets, blobs: Dict[str, Array], steps: int, kept: Sequence[str]
) -> Iterator[Dict[str, Any]]:
    """Runs the step net at each time step and fills the states; yields the blobs that the step net read from outside
    and those of ``kept`` that it wrote."""
    net, links = op.get_net("step_net"), links_of(op)
    unknown = {link.external for link in links} - set(blobs)
    require(op, not unknown, f"links name {sorted(unknown)}, which are neither inputs nor states")
    read, written = set(net.captures()), {name for step in net.op for name in step.output}
    sources = [link for link in links if link.internal in read]
    targets = [link for link in links if link.internal in written]
    fetches = list(dict.fromkeys([*(link.internal for link in targets), *(name for name in kept if name in written)]))
    timestep = op.get_str("timestep", "timestep")
    for t in range(steps):
        feeds = {link.internal: blobs[link.external][link.rows(t)] for link in sources}
        if timestep in read:
            feeds[timestep] = np.array([t], np.int32)
        results = dict(zip(fetches, nets.run(net, feeds, fetches)))
        for link in targets:
            rows, result = blobs[link.external][link.rows(t)], results[link.internal]
            require(
                op,
                result.size == rows.size,
                f"step {t} makes {link.internal!r} {result.shape}, but there is room for {rows.shape}",
            )
            rows[...] = result.reshape(rows.shape)
        yield {**feeds, **results}


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """Every weight that is not a bias is multiplied once per step."""
    x, _, _, *weights = inputs
    assert x is not None
    return math.prod(x.shape[:2]) * sum(w.size for w in weights if w is not None and w.ndim == 2)


@operator("InferenceLSTM", inputs=(5, None), outputs=3, dtypes=FLOAT32, multiply_adds=_products)
def inference_lstm(
    op: OperatorDef, x: TensorSpec, hidden: TensorSpec, cell: TensorSpec, *weights: TensorSpec
) -> List[TensorSpec]:
    """``num_layers`` (1) LSTM layers, each over the outputs of the previous one: outputs, hidden and cell states.

    X: (T, N, C), or with ``batch_first`` (N, T, C), as is output 0; hidden, cell: (layers * directions, N, H). weights,
    for each layer and direction: (4 H, C), (4 H, H) and with ``has_biases`` (1) two of (4 H), gates i, f, g, o: c =
    sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). ``bidirectional`` layers also run backwards; both outputs
    are joined side by side. Source: caffe2/operators/inference_lstm_op.h.
    """
    require_same_dtype(op, x, hidden, cell, *weights)
    cells, per_cell = cells_of(op)
    require(
        op,
        x.ndim == 3 and hidden.ndim == 3 and cell.shape == hidden.shape,
        "X and states must have three dimensions, and the states one shape",
        x,
        hidden,
        cell,
    )
    batch, size = x.shape[0 if op.get_bool("batch_first") else 1], hidden.shape[2]
    require(op, hidden.shape[:2] == (cells, batch), f"states must be ({cells}, {batch}, H)", hidden)
    require(op, len(weights) == cells * per_cell, f"there must be {cells * per_cell} weights, got {len(weights)}")
    directions = 2 if op.get_bool("bidirectional") else 1
    for number in range(cells):
        width = x.shape[2] if number < directions else directions * size
        shapes = [(4 * size, width), (4 * size, size), (4 * size,), (4 * size,)][:per_cell]
        own = weights[number * per_cell :][:per_cell]
        require(op, [w.shape for w in own] == shapes, f"the weights of cell {number} must be {shapes}", *own)
    return [x.with_shape((*x.shape[:2], directions * size)), hidden, cell]


def cells_of(op: OperatorDef) -> Tuple[int, int]:
    """The number of cells, and the number of weights of each."""
    layers = op.get_int("num_layers", 1)
    if layers < 1:
        raise ArgumentError(op, f"num_layers must be positive, got {layers}")
    return layers * (2 if op.get_bool("bidirectional") else 1), 4 if op.get_bool("has_biases", True) else 2


@inference_lstm.reference
def inference_lstm_reference(op: OperatorDef, x: Array, hidden: Array, cell: Array, *weights: Array) -> List[Any]:
    cells, per_cell = cells_of(op)
    directions = 2 if op.get_bool("bidirectional") else 1
    sequence = x.astype(np.float64)
    sequence = sequence.swapaxes(0, 1) if op.get_bool("batch_first") else sequence
    last_hidden, last_cell = np.empty_like(hidden), np.empty_like(cell)
    for layer in range(cells // directions):
        parts = []
        for direction in range(directions):
            number = layer * directions + direction
            own = [w.astype(np.float64) for w in weights[number * per_cell :][:per_cell]]
            inputs = sequence[::-1] if direction else sequence
            outputs, last_hidden[number], last_cell[number] = _lstm(inputs, hidden[number], cell[number], own)
            parts.append(outputs[::-1] if direction else outputs)
        sequence = np.concatenate(parts, axis=2)
    y = sequence.swapaxes(0, 1) if op.get_bool("batch_first") else sequence
    return [np.ascontiguousarray(y).astype(x.dtype), last_hidden, last_cell]


def _sigmoid(x: Array) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def _lstm(x: Array, h: Any, c: Any, weights: List[Array]) -> Tuple[Array, Any, Any]:
    """The outputs (T, N, H) and last states of one cell."""
    bias = sum(weights[2:], np.zeros(len(weights[0])))
    outputs = np.zeros((*x.shape[:2], h.shape[1]))
    for t, step in enumerate(x):
        i, f, g, o = np.split(step @ weights[0].T + h @ weights[1].T + bias, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = outputs[t] = _sigmoid(o) * np.tanh(c)
    return outputs, h, c
