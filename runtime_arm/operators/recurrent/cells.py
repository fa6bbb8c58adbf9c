"""Fast computation of a time step in the cells of recurrent layers: LSTM, GRU and RNN.

A cell gets its inputs already projected: *slots*, arrays (slots, B, n) for B sequences and n hidden units. Products
with the hidden state give its *gates*, (gates, B, n). Sigmoids are computed as (1 + tanh(x / 2)) / 2: their slots and
their weights are halved beforehand, which is exact, so that one call of tanh serves several gates. Calls pass ``out``
by position, which costs a third less. For one sequence the dimension B is left out, and products are those of a vector.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

Steps = Iterable[Tuple[Any, ...]]  # of each time step: views of its slots, and of the hidden state that it makes
Loop = Callable[[Array, Steps], Array]  # (hidden state, steps) -> hidden state after them


class Gates(NamedTuple):
    """The memory of a cell: the gates of all products, then the carried states; and the packed weights of products.

    rounded: gives what products take in the place of a hidden state; None if they take that.
    """

    gates: Array
    weights: Sequence[Array]
    rounded: Optional[Callable[[Array], Array]] = None

    def product(self, gates: Array) -> Tuple[Callable[..., Any], Array]:
        """The function of a product ``(hidden, weights, target)``, and the target for these gates."""
        multiply: Callable[..., Any] = np.matmul
        if self.gates.ndim == 2:
            multiply, gates = np.ndarray.dot, gates.reshape(-1)  # the method: np.dot takes 0.25 us more
        elif self.weights[0].ndim == 4:
            _, panels, _, columns = self.weights[0].shape
            gates = gates.reshape(*gates.shape[:2], panels, columns).swapaxes(1, 2)
        if self.rounded is None:
            return multiply, gates
        rounded = self.rounded
        return lambda hidden, weights, target: multiply(rounded(hidden), weights, target), gates


class Cell(NamedTuple):
    """What a kind of layer needs.

    slots: their number. driven: those that get inputs; the others hold their bias. halved: those of sigmoids. views:
    the slots that a step reads, as ranges. products: how many gates each product with a state makes, and halved_gates
    which of all gates are sigmoids. carried: the number of states besides the hidden one; their memory follows the
    gates. bind: makes the loop. mixes: whether sequences of a batch depend on one another, so that workers cannot share
    them out.
    """

    slots: int
    driven: slice
    halved: slice
    views: Sequence[slice]
    products: Sequence[int]
    halved_gates: slice
    carried: int
    bind: Callable[[Gates], Loop]
    mixes: bool = False


def lstm(clip: float = 0.0) -> Cell:
    """C = f C + i g, H = o tanh(C) with slots and gates o, i, f, g. clip: the limit of C, 0 for none.

    i and f are neighbours, and so are g and C after them: NumPy multiplies such pairs in a third of the time that it
    takes for separate arrays.
    """

    def bind(memory: Gates) -> Loop:
        gates, (weights,) = memory.gates, memory.weights
        product, target = memory.product(gates[:4])
        sigmoids, pair, states = gates[:3], gates[1:3], gates[3:5]
        o, i, f, cell = gates[0], gates[1], gates[2], gates[4]
        half, low, high = (np.array(value, gates.dtype) for value in (0.5, -clip, clip))
        add, multiply, tanh, all_gates = np.add, np.multiply, np.tanh, gates[:4]

        def loop(hidden: Array, steps: Steps) -> Array:
            for drive, y in steps:
                product(hidden, weights, target)
                add(all_gates, drive, all_gates)
                tanh(all_gates, all_gates)
                multiply(sigmoids, half, sigmoids)
                add(sigmoids, half, sigmoids)
                multiply(pair, states, pair)
                add(i, f, cell)
                if clip:
                    np.maximum(cell, low, out=cell)
                    np.minimum(cell, high, out=cell)
                tanh(cell, i)
                multiply(o, i, y)
                hidden = y
            return hidden

        return loop

    return Cell(4, slice(0, 4), slice(0, 3), [slice(0, 4)], [4], slice(0, 3), 1, bind)


def gru(biased: bool) -> Cell:
    """H = z H + (1 - z) tanh(h + r (H R + b)) with slots b, if there is one, z, r, h; gates H R, z, r."""
    first = 1 if biased else 0

    def bind(memory: Gates) -> Loop:
        gates, (weights,) = memory.gates, memory.weights
        product, target = memory.product(gates)
        sigmoids, shifted, new, z, r = gates[1:], gates[1 - first :], gates[0], gates[1], gates[2]
        half = np.array(0.5, gates.dtype)
        add, multiply, subtract, tanh = np.add, np.multiply, np.subtract, np.tanh

        def loop(hidden: Array, steps: Steps) -> Array:
            for drive, own, y in steps:
                product(hidden, weights, target)
                add(shifted, drive, shifted)
                tanh(sigmoids, sigmoids)
                multiply(sigmoids, half, sigmoids)
                add(sigmoids, half, sigmoids)
                multiply(r, new, r)
                add(r, own, r)
                tanh(r, r)
                subtract(hidden, r, new)
                multiply(new, z, new)
                add(r, new, y)
                hidden = y
            return hidden

        return loop

    views = [slice(0, first + 2), slice(first + 2, first + 3)]
    return Cell(first + 3, slice(first, first + 3), slice(first, first + 2), views, [3], slice(1, 3), 0, bind)


def gru_reset_first() -> Cell:
    """H = z H + (1 - z) tanh(h + (r H) R) with slots z, r, h; gates z, r, then those of the second product."""

    def bind(memory: Gates) -> Loop:
        gates, (first, second) = memory.gates, memory.weights
        sigmoids, z, r, new = gates[:2], gates[0], gates[1], gates[2]
        product, target = memory.product(sigmoids)
        _, new_target = memory.product(gates[2:3] if gates.ndim == 3 else new)
        half = np.array(0.5, gates.dtype)
        add, multiply, subtract, tanh = np.add, np.multiply, np.subtract, np.tanh

        def loop(hidden: Array, steps: Steps) -> Array:
            for drive, own, y in steps:
                product(hidden, first, target)
                add(sigmoids, drive, sigmoids)
                tanh(sigmoids, sigmoids)
                multiply(sigmoids, half, sigmoids)
                add(sigmoids, half, sigmoids)
                multiply(r, hidden, r)
                product(r, second, new_target)
                add(new, own, new)
                tanh(new, new)
                subtract(hidden, new, r)
                multiply(r, z, r)
                add(new, r, y)
                hidden = y
            return hidden

        return loop

    return Cell(3, slice(0, 3), slice(0, 2), [slice(0, 2), slice(2, 3)], [2, 1], slice(0, 2), 0, bind)


def rnn(activation: Optional[Callable[..., Any]]) -> Cell:
    """H = f(x + H R) with one slot and one gate; f is a ufunc, None for the larger one of its input and 0."""

    def bind(memory: Gates) -> Loop:
        gate, (weights,), add = memory.gates[0], memory.weights, np.add
        product, target = memory.product(memory.gates)
        zero = np.array(0, gate.dtype)

        def loop(hidden: Array, steps: Steps) -> Array:
            for drive, y in steps:
                product(hidden, weights, target)
                add(gate, drive, gate)
                if activation is None:
                    np.maximum(gate, zero, out=y)
                else:
                    activation(gate, y)
                hidden = y
            return hidden

        return loop

    return Cell(1, slice(0, 1), slice(0), [slice(0, 1)], [1], slice(0), 0, bind)
