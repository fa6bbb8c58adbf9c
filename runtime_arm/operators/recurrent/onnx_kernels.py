"""Fast kernels of ONNX's LSTM and GRU with default activations: one product for all inputs, then a loop over time.

sigmoid(x) is computed as (1 + tanh(x / 2)) / 2, so that one call of tanh serves all gates.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.recurrent.onnx import DEFAULTS, GATES, activation_names, direction_count, gru, lstm
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec

Step = Callable[[Array, Array, Array], None]  # (projected input, hidden state, array for the next one)


def _usual(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if tuple(activation_names(op)) != DEFAULTS[op.type] * direction_count(op):
        return "only for the default activations"
    if op.has("clip") or op.get_bool("input_forget"):
        return "not with clip or input_forget"
    if any(inputs[i] is not None for i in (4, 7) if i < len(inputs)):
        return "not with sequence_lens or peepholes"
    if not outputs or any(output.size == 0 for output in outputs):
        return "there is nothing to compute"
    return single_or_double(op, inputs, outputs)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Projected inputs, gates, two states."""
    x, r = inputs[0], inputs[2]
    assert x is not None
    assert r is not None
    hidden, rows = r.shape[2], r.shape[1]
    batch = x.shape[0] if op.get_bool("layout") else x.shape[1]
    shapes = [(*x.shape[:2], rows), (batch, rows), (batch, hidden), (batch, hidden)]
    return [TensorSpec(shape, x.dtype) for shape in shapes]


class Layer:
    """A layer's arrays by direction and time step, whatever its layout, and the loops over both."""

    def __init__(self, call: Call):
        self.op = call.op
        self._batch_first = call.op.get_bool("layout")
        given = [*call.inputs, *[None] * (8 - len(call.inputs))]
        x, self.w, self.r, self.b = given[:4]
        self._x = x.reshape(-1, x.shape[2])
        projected = call.scratch[0]
        self._flat = projected.reshape(-1, projected.shape[2])
        self._projected = np.swapaxes(projected, 0, 1) if self._batch_first else projected
        y = call.outputs[0]
        self._y = y.transpose(1, 2, 0, 3) if self._batch_first else y
        self.initial = [self._by_direction(state) for state in given[5:7]]
        self.last = [self._by_direction(state) for state in call.outputs[1:]]
        self.rows, self.hidden = self.r.shape[1], self.r.shape[2]
        self._zeros = np.zeros((projected.shape[0 if self._batch_first else 1], self.hidden), x.dtype)
        self.bias = np.zeros(self.rows, x.dtype)

    def _by_direction(self, state: Optional[Array]) -> Optional[Array]:
        return np.swapaxes(state, 0, 1) if state is not None and self._batch_first else state

    def start(self, index: int, d: int) -> Array:
        """The initial state of that index."""
        state = self.initial[index]
        return self._zeros if state is None else state[d]

    def finish(self, index: int, d: int, state: Array) -> None:
        """Writes the state after the last step to its output, if the layer has that output."""
        if index < len(self.last):
            target = self.last[index]
            assert target is not None
            np.copyto(target[d], state)

    def add_biases(self, d: int, recurrent_rows: int) -> None:
        """Sets ``bias`` to the input's bias, plus the state's for the first rows."""
        if self.b is not None:
            np.copyto(self.bias, self.b[d, : self.rows])
            self.bias[:recurrent_rows] += self.b[d, self.rows : self.rows + recurrent_rows]

    def unroll(self, d: int, step: Step) -> None:
        """Projects the inputs of all time steps, then takes one step after the other."""
        np.matmul(self._x, self.w[d].T, out=self._flat)
        np.add(self._flat, self.bias, out=self._flat)
        hidden = self.start(0, d)
        backward = d == 1 or self.op.get_str("direction", "forward") == "reverse"
        times = range(len(self._y))
        for t in reversed(times) if backward else times:
            step(self._projected[t], hidden, self._y[t, d])
            hidden = self._y[t, d]
        self.finish(0, d, hidden)


def _sigmoid_of_half(x: Array, half: np.floating) -> None:
    """y = (1 + y) / 2 in place: the sigmoid of x if y is tanh(x / 2)."""
    np.multiply(x, half, out=x)
    np.add(x, half, out=x)


def _for_directions(layer: Layer, run_direction: Callable[[int], None]) -> Run:
    directions = range(len(layer.w))

    def run() -> None:
        for d in directions:
            run_direction(d)

    return run


@lstm.kernel("NUMPY", supports=_usual, scratch=_scratch)
def lstm_numpy(call: Call) -> Run:
    layer = Layer(call)
    _, gates, cell, product = call.scratch
    half = gates.dtype.type(0.5)
    sigmoids, n = gates[:, : 3 * layer.hidden], layer.hidden
    i, o, f, c = (gates[:, k * n : (k + 1) * n] for k in range(GATES["LSTM"]))

    def step_of(d: int) -> Step:
        recurrent = layer.r[d].T

        def step(projected: Array, hidden: Array, out: Array) -> None:
            np.matmul(hidden, recurrent, out=gates)
            np.add(gates, projected, out=gates)
            np.multiply(sigmoids, half, out=sigmoids)
            np.tanh(gates, out=gates)
            _sigmoid_of_half(sigmoids, half)
            np.multiply(f, cell, out=cell)
            np.multiply(i, c, out=product)
            np.add(cell, product, out=cell)
            np.tanh(cell, out=product)
            np.multiply(o, product, out=out)

        return step

    steps = [step_of(d) for d in range(len(layer.w))]

    def run_direction(d: int) -> None:
        layer.add_biases(d, layer.rows)
        np.copyto(cell, layer.start(1, d))
        layer.unroll(d, steps[d])
        layer.finish(1, d, cell)

    return _for_directions(layer, run_direction)


@gru.kernel("NUMPY", supports=_usual, scratch=_scratch)
def gru_numpy(call: Call) -> Run:
    layer = Layer(call)
    _, gates, new, product = call.scratch
    half, n = gates.dtype.type(0.5), layer.hidden
    sigmoids, z, r, h = gates[:, : 2 * n], gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n :]
    reset_last = call.op.get_bool("linear_before_reset")

    def open_gates(projected: Array) -> None:
        np.add(sigmoids, projected[:, : 2 * n], out=sigmoids)
        np.multiply(sigmoids, half, out=sigmoids)
        np.tanh(sigmoids, out=sigmoids)
        _sigmoid_of_half(sigmoids, half)

    def blend(projected: Array, hidden: Array, out: Array) -> None:
        np.add(new, projected[:, 2 * n :], out=new)
        np.tanh(new, out=new)
        np.subtract(hidden, new, out=product)
        np.multiply(product, z, out=product)
        np.add(new, product, out=out)

    def step_of(d: int) -> Step:
        recurrent, first, last = layer.r[d].T, layer.r[d, : 2 * n].T, layer.r[d, 2 * n :].T
        bias = None if layer.b is None else layer.b[d, layer.rows + 2 * n :]

        def step(projected: Array, hidden: Array, out: Array) -> None:
            np.matmul(hidden, first, out=sigmoids)
            open_gates(projected)
            np.multiply(r, hidden, out=product)
            np.matmul(product, last, out=new)
            blend(projected, hidden, out)

        def step_reset_last(projected: Array, hidden: Array, out: Array) -> None:
            np.matmul(hidden, recurrent, out=gates)
            if bias is not None:
                np.add(h, bias, out=h)
            open_gates(projected)
            np.multiply(r, h, out=new)
            blend(projected, hidden, out)

        return step_reset_last if reset_last else step

    steps: List[Step] = [step_of(d) for d in range(len(layer.w))]

    def run_direction(d: int) -> None:
        layer.add_biases(d, 2 * n if reset_last else layer.rows)
        layer.unroll(d, steps[d])

    return _for_directions(layer, run_direction)
