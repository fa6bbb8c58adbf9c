"""Recurrent layers over sequences (T, N, ...), with marks (T, N) that are 0 where a sequence begins.

A sequence whose first mark is not 0 goes on where the last pass ended, as in Caffe; gradients do not go back to there.
"""

from __future__ import annotations

from typing import List

import numpy as np

from runtime_arm.netdef import Array
from training.caffe.layers.layer import Diffs, Layer, layer
from training.caffe.layers.neurons import sigmoid


class _Recurrent(Layer):
    """Bottoms: the sequence and its marks. A third one, a constant input, is refused, and so are hidden blobs."""

    gates = 1

    def setup(self, x: Array, *rest: Array) -> None:
        param, width = self.param("recurrent_param"), int(np.prod(x.shape[2:]))
        self.require(len(rest) == 1 and not param.expose_hidden, "takes a sequence and its marks alone")
        self.require(rest[0].shape == x.shape[:2], f"the marks must have the shape {x.shape[:2]}")
        size = param.num_output
        self.carried: List[Array] = []  # what a forward pass leaves to the next one
        self.add_blob((self.gates * size, width), param.weight_filler)
        self.add_blob((self.gates * size,), param.bias_filler)
        self.add_blob((self.gates * size, size), param.weight_filler)

    def _left(self, count: int, batch: int) -> List[Array]:
        """What the last pass left, (N, hidden) each; zeros before the first one and for another size of batches."""
        shape = batch, int(self.param("recurrent_param").num_output)
        if self.carried and self.carried[0].shape == shape:
            return self.carried
        return [np.zeros(shape, np.float32) for _ in range(count)]

    def _keep(self, x: Array, marks: Array) -> Array:
        """The products of the inputs, for all times."""
        self.shape, self.rows, self.marks = x.shape, x.reshape(*x.shape[:2], -1), marks[:, :, None]
        return np.asarray(self.rows @ self.blobs[0].data.T + self.blobs[1].data)

    def _add(self, sums: Array, hidden: Array) -> Array:
        """Add to the gradients of the weights, from those of the sums (T, N, gates); the gradient of x."""
        flat = sums.reshape(-1, sums.shape[-1])
        self.blobs[0].diff[...] += flat.T @ self.rows.reshape(len(flat), -1)
        self.blobs[1].diff[...] += flat.sum(0)
        self.blobs[2].diff[...] += flat.T @ hidden.reshape(len(flat), -1)
        dx: Array = (sums @ self.blobs[0].data).reshape(self.shape)
        return dx


@layer("LSTM")
class LSTM(_Recurrent):
    """Gates in, forget, out, and the candidate."""

    gates = 4

    def forward(self, x: Array, marks: Array) -> List[Array]:
        inputs, size = self._keep(x, marks), self.param("recurrent_param").num_output
        times, batch = x.shape[:2]
        self.cells = np.zeros((times + 1, batch, size), np.float32)
        self.hidden = np.zeros((times, batch, size), np.float32)  # before each step, where a sequence goes on
        self.active = np.zeros((times, batch, 4 * size), np.float32)
        y = np.zeros((times, batch, size), np.float32)
        last, self.cells[0] = self._left(2, batch)
        for t in range(times):
            self.hidden[t] = last * self.marks[t]
            sums = inputs[t] + self.hidden[t] @ self.blobs[2].data.T
            gates, candidate = sigmoid(sums[:, : 3 * size]), np.tanh(sums[:, 3 * size :])
            i, f, o = np.split(gates, 3, 1)
            f = f * self.marks[t]
            self.active[t] = np.concatenate([gates, candidate], 1)
            self.cells[t + 1] = f * self.cells[t] + i * candidate
            y[t] = last = o * np.tanh(self.cells[t + 1])
        self.carried = [last, self.cells[times].copy()]
        return [y]

    def backward(self, dy: Array) -> Diffs:
        times = len(dy)
        sums = np.zeros_like(self.active)
        dh, dc = np.zeros_like(dy[0]), np.zeros_like(dy[0])
        for t in reversed(range(times)):
            i, f, o, g = np.split(self.active[t], 4, 1)
            bounded = np.tanh(self.cells[t + 1])
            dh = dh + dy[t]
            dc = dc + dh * o * (1 - bounded**2)
            parts = [
                dc * g * i * (1 - i),
                dc * self.cells[t] * self.marks[t] * f * (1 - f),
                dh * bounded * o * (1 - o),
                dc * i * (1 - g**2),
            ]
            sums[t] = np.concatenate(parts, 1)
            dc = dc * f * self.marks[t]
            dh = (sums[t] @ self.blobs[2].data) * self.marks[t]
        return [self._add(sums, self.hidden), None]


@layer("RNN")
class RNN(_Recurrent):
    """h = tanh(W x + U h' + b), y = tanh(V h + c)"""

    def setup(self, x: Array, *rest: Array) -> None:
        super().setup(x, *rest)
        param = self.param("recurrent_param")
        self.add_blob((param.num_output, param.num_output), param.weight_filler)
        self.add_blob((param.num_output,), param.bias_filler)

    def forward(self, x: Array, marks: Array) -> List[Array]:
        inputs, (times, batch) = self._keep(x, marks), x.shape[:2]
        size = self.param("recurrent_param").num_output
        self.hidden, self.states = (np.zeros((times, batch, size), np.float32) for _ in range(2))
        (last,) = self._left(1, batch)
        for t in range(times):
            self.hidden[t] = last * self.marks[t]
            self.states[t] = last = np.tanh(inputs[t] + self.hidden[t] @ self.blobs[2].data.T)
        self.carried = [np.array(last)]
        self.y = np.tanh(self.states @ self.blobs[3].data.T + self.blobs[4].data)
        return [self.y]

    def backward(self, dy: Array) -> Diffs:
        outer = dy * (1 - self.y**2)
        flat = outer.reshape(-1, outer.shape[-1])
        self.blobs[3].diff[...] += flat.T @ self.states.reshape(len(flat), -1)
        self.blobs[4].diff[...] += flat.sum(0)
        direct, sums = outer @ self.blobs[3].data, np.zeros_like(dy)
        dh = np.zeros_like(dy[0])
        for t in reversed(range(len(dy))):
            sums[t] = (direct[t] + dh) * (1 - self.states[t] ** 2)
            dh = (sums[t] @ self.blobs[2].data) * self.marks[t]
        return [self._add(sums, self.hidden), None]
