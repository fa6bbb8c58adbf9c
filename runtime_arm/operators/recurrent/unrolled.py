"""Fast recurrent layers of all dialects: one product for the inputs of a block of time steps, then step after step.

A block's projected inputs stay in the cache. The views of every step are bound once, when the net is planned.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.recurrent.cells import Cell, Gates
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_lines

BLOCK = 1 << 15  # elements of the projected inputs of a block of steps: 128 KB of float32
SMALL_PRODUCT = 1_000_000  # multiply-adds of a product whose operands OpenBLAS does not pack, on CPUs with AVX-512
FEW = 32  # sequences for which packing the weights takes longer than multiplying them
PANELS = (64, 32)  # columns of a panel of weights

Part = Tuple[int, Array]  # the first slot or gate, and what belongs to it and to those that follow


class Side(NamedTuple):
    """One direction of a layer over T steps of B sequences, I inputs and n hidden units, as views of its operands.

    x: (T, B, I), y: (T, B, n). inputs: matrices (k n, I) for k slots. recurrent: matrices (k n, n) for k gates. biases:
    vectors (k n) that are added to k slots; several for one slot are added up. first, last: the states (B, n) before
    the first and after the last step, the hidden one first; None stands for zeros, or a state that nobody wants.
    lengths: after how many steps each sequence ends, (B), read while running; None if all have T. scales: if the
    recurrent matrices hold integers, zero points and scales of their rows, vectors (k n), with the first gate.
    """

    x: Array
    y: Array
    inputs: Sequence[Part]
    recurrent: Sequence[Part]
    biases: Sequence[Part]
    first: Sequence[Optional[Array]]
    last: Sequence[Optional[Array]]
    backward: bool
    lengths: Optional[Array] = None
    scales: Sequence[Tuple[int, Array, Array]] = ()

    def of(self, batch: slice) -> Side:
        """The same for some of the sequences."""
        first, last = ([None if s is None else s[batch] for s in states] for states in (self.first, self.last))
        lengths = None if self.lengths is None else self.lengths[batch]
        return self._replace(x=self.x[:, batch], y=self.y[:, batch], first=first, last=last, lengths=lengths)


def block_steps(cell: Cell, steps: int, batch: int, hidden: int) -> int:
    """How many time steps a block has: at most three quarters of all, so that less memory is needed than for all."""
    return max(min(BLOCK // max(cell.slots * batch * hidden, 1), -(-steps * 3 // 4)), 1)


def panel_columns(batch: int, hidden: int) -> int:
    """How many columns of a gate's weights, n in all, are multiplied at once: as many as BLAS needs not pack."""
    if 1 < batch <= FEW and batch * hidden**2 > SMALL_PRODUCT:
        for columns in PANELS:
            if hidden % columns == 0 and batch * hidden * columns <= SMALL_PRODUCT:
                return columns
    return hidden


def scratch_of(cell: Cell, steps: int, batch: int, hidden: int, dtype: Any) -> List[TensorSpec]:
    """Slots of a block, and gates with the carried states."""
    rows, gates = block_steps(cell, steps, batch, hidden), sum(cell.products) + cell.carried
    return [TensorSpec((rows * cell.slots * batch * hidden,), dtype), TensorSpec((gates * batch * hidden,), dtype)]


def unrolled(call: Call, cell: Cell, sides: Sequence[Side], constant: bool, name: str = "") -> Run:
    """The run of this worker's directions, or, if there is one and the cell allows it, of this worker's sequences.

    constant: whether weights and biases are known; then they are packed once. name: of this layer among several.
    """
    count = sides[0].x.shape[1]
    if len(sides) > 1 or cell.mixes:
        mine = [(d, sides[d]) for d in call.mine(range(len(sides)))]
    else:
        mine = [(0, sides[0].of(call.slice_of(count)))]
    layers = [_Layer(call, cell, side, f"{name}side {d}", constant) for d, side in mine if side.x.shape[1]]

    def run() -> None:
        for layer in layers:
            layer.run()

    return run


class _Packed:
    """Biases (slots, n), and the weights of each product with a state; those of sigmoids are halved.

    Weights are (n, gates n) for one sequence, (gates, n, n) for several, and for a few that meet many of them (gates,
    panels, n, columns): BLAS is faster with each. They start at a cache line, which saves a quarter of the time of a
    product.
    """

    def __init__(self, cell: Cell, side: Side):
        (_, batch, hidden), dtype = side.y.shape, side.y.dtype
        single, columns = batch == 1, panel_columns(batch, hidden)
        self._cell, self._single = cell, single
        self._biases, self._recurrent, self._scales = side.biases, side.recurrent, side.scales
        self.bias = np.zeros((cell.slots, hidden), dtype)
        panels = () if columns == hidden else (hidden // columns,)
        shapes = [(hidden, gates * hidden) if single else (gates, *panels, hidden, columns) for gates in cell.products]
        self.weights = [in_lines(np.zeros(shape, dtype)) for shape in shapes]

    def fill(self) -> _Packed:
        """Read weights and biases, and return self."""
        hidden = self.bias.shape[1]
        self.bias.fill(0)
        for slot, bias in self._biases:
            self.bias.reshape(-1)[slot * hidden : slot * hidden + bias.size] += bias
        self.bias[self._cell.halved] *= 0.5
        homes = [self._home(weights, gate) for weights in self.weights for gate in range(weights.size // hidden**2)]
        for first, matrix in self._recurrent:
            for gate, own in enumerate(matrix.reshape(-1, hidden, hidden), first):
                np.copyto(homes[gate], own.T.reshape(homes[gate].shape))
        for first, *vectors in self._scales:
            for gate, pair in enumerate(zip(*(vector.reshape(-1, hidden) for vector in vectors)), first):
                zero_point, scale = (vector.reshape(homes[gate].shape[1:]) for vector in pair)
                homes[gate] -= zero_point
                homes[gate] *= scale
        for home in homes[self._cell.halved_gates]:
            home *= 0.5
        return self

    def _home(self, weights: Array, gate: int) -> Array:
        """The weights of a gate, (n, n) or (n, panels, columns)."""
        hidden = self.bias.shape[1]
        if self._single:
            return weights[:, gate * hidden : (gate + 1) * hidden]
        home: Array = weights[gate]
        return home.swapaxes(0, 1) if home.ndim == 3 else home


class _Layer:
    """A side with its memory and the views of every step."""

    def __init__(self, call: Call, cell: Cell, side: Side, key: str, constant: bool):
        steps, batch, hidden = side.y.shape
        single = batch == 1
        self._cell, self._side, self._constant = cell, side, constant
        form = "one" if single else f"by {panel_columns(batch, hidden)}"
        self._packed = (
            call.packed(f"{key}, {form}", lambda: _Packed(cell, side).fill()) if constant else _Packed(cell, side)
        )
        room = call.scratch[0].size // (cell.slots * batch * hidden)  # which is that of all sequences, not of one part
        rows = min(block_steps(cell, steps, batch, hidden), room)
        self._slots = _slots(call.scratch[0], cell.slots, rows, batch, hidden)
        count = sum(cell.products) + cell.carried
        gates = call.scratch[1][: count * batch * hidden].reshape(count, batch, hidden)
        carried = list(gates[sum(cell.products) :])
        self._loop = cell.bind(Gates(gates[:, 0] if single else gates, self._packed.weights))
        zeros = np.zeros((batch, hidden), side.y.dtype)
        self._firsts = [zeros if state is None else state for state in side.first]
        self._carried = carried
        views = [
            tuple(self._slots[cut if cut.stop - cut.start > 1 else cut.start, step] for cut in cell.views)
            for step in range(rows)
        ]
        self._blocks = [self._block(views, first) for first in range(0, steps, rows)]
        if side.backward:
            self._blocks.reverse()

    def _block(self, views: Sequence[Tuple[Array, ...]], first: int) -> Tuple[List[Step], List[Tuple[Array, ...]]]:
        """The runs that project the inputs of the steps from ``first`` on, and the views of these steps in order."""
        side, slots = self._side, self._slots
        y = side.y[first : first + len(views)]
        x, hidden = side.x[first : first + len(y)], y.shape[2]
        projections: List[Step] = []
        for slot, matrix in side.inputs:
            own = slots[slot : slot + len(matrix) // hidden, : len(y)]
            projections.append(_projection(x, matrix.reshape(len(own), hidden, -1), own))
        driven = self._cell.driven
        bias = self._packed.bias[driven].reshape(-1, 1, *[1] * (slots.ndim - 3), hidden)
        halved, own = slots[self._cell.halved, : len(y)], slots[driven, : len(y)]
        if halved.size:
            projections.append(partial(np.multiply, halved, np.array(0.5, y.dtype), halved))
        projections.append(partial(np.add, own, bias, own))
        steps = [(*parts, one) for parts, one in zip(views, y[:, 0] if slots.ndim == 3 else y)]
        return projections, steps[::-1] if side.backward else steps

    def run(self) -> None:
        side, slots = self._side, self._slots
        if not self._constant:
            self._packed.fill()
        driven = range(*self._cell.driven.indices(self._cell.slots))
        for slot in range(self._cell.slots):
            if slot not in driven:
                slots[slot] = self._packed.bias[slot]
        for state, start in zip(self._carried, self._firsts[1:]):
            np.copyto(state, start)
        hidden = self._firsts[0][0] if slots.ndim == 3 else self._firsts[0]
        if side.lengths is None:
            for projections, steps in self._blocks:
                for project in projections:
                    project()
                hidden = self._loop(hidden, steps)
            self._keep(hidden)
        else:
            self._until_ends(hidden, np.clip(side.lengths, 0, len(side.y)).tolist())

    def _until_ends(self, hidden: Array, ends: Sequence[int]) -> None:
        """Run sequences of this many steps each.

        All of them run in every step from the first to the last one that any needs. When a sequence ends or, backward,
        is about to begin, its states are kept or set; its outputs outside its own steps become zero. So do the last
        states of a sequence of no steps.
        """
        side, total = self._side, len(self._side.y)
        begin, stop = (total - max(ends), total) if side.backward else (0, max(ends))
        turns: Dict[int, List[int]] = {}
        for one, end in enumerate(ends):
            turns.setdefault(total - end if side.backward else end, []).append(one)
        if side.backward:
            turns.pop(begin)
        at = 0
        for projections, steps in self._blocks:
            first, at = at, at + len(steps)
            low, high = max(first, begin), min(at, stop)
            if low >= high:
                continue
            for project in projections:
                project()
            for turn in (*sorted(turn for turn in turns if low < turn < high), high):
                self._turn(hidden, turns.pop(low, ()))
                hidden = self._loop(hidden, steps[low - first : turn - first])
                low = turn
        self._turn(hidden, turns.pop(stop, ()))
        if side.backward:
            self._keep(hidden)
        for one, end in enumerate(ends):
            side.y[end:, one] = 0
            for last in side.last if not end else ():
                if last is not None:
                    last[one] = 0

    def _turn(self, hidden: Array, sequences: Sequence[int]) -> None:
        """Keep the states of sequences that are over or, backward, set those of sequences that begin."""
        side, states = self._side, [hidden, *self._carried]
        pairs = zip(states, self._firsts) if side.backward else zip(side.last, states)
        for target, source in pairs if sequences else ():
            if target is not None:
                width = target.shape[-1]
                for one in sequences:
                    target.reshape(-1, width)[one] = source.reshape(-1, width)[one]

    def _keep(self, hidden: Array) -> None:
        """Write the states to where those after the last step belong."""
        for last, state in zip(self._side.last, [hidden, *self._carried]):
            if last is not None:
                np.copyto(last, state)


def _slots(memory: Array, slots: int, steps: int, batch: int, hidden: int) -> Array:
    """The slots of a block: (slots, steps, n) for one sequence, whose steps lie apart; else (slots, steps, B, n)."""
    own: Array = memory[: slots * steps * batch * hidden]
    if batch > 1:
        return own.reshape(slots, steps, batch, hidden)
    single: Array = own.reshape(steps, slots, hidden).swapaxes(0, 1)
    return single


def _projection(x: Array, weights: Array, slots: Array) -> Step:
    """The run of slots = x weights^T for x (T, B, I), weights (k, n, I) and slots (k, T, B, n) or (k, T, n)."""
    if slots.ndim == 3:
        count, steps, hidden = slots.shape
        rows = np.lib.stride_tricks.as_strided(slots, (steps, count * hidden), (slots.strides[1], slots.strides[2]))
        return partial(np.matmul, x[:, 0], weights.reshape(count * hidden, -1).T, rows)
    turned = weights.swapaxes(1, 2)
    if x.flags.c_contiguous:
        flat = slots.reshape(len(slots), -1, slots.shape[3])
        return partial(np.matmul, x.reshape(-1, x.shape[2]), turned, flat)
    return partial(np.matmul, x.swapaxes(0, 1), turned[:, np.newaxis], slots.swapaxes(1, 2))
