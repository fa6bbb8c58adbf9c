"""Caffe's solver: steps of a train net, snapshots, and going on from them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from runtime_arm.errors import FeedError, FormatError
from runtime_arm.netdef import Array
from training.caffe.files import Content, Text, parsed, read_solverstate, solverstate_of
from training.caffe.hdf5 import State, state_in
from training.caffe.net import Net
from training.caffe.rules import clip_factor, decayed, rate_at, rule_of, steps_done


class Solver:
    """``Solver(solver_text, net_text, caffemodel=None)``: contents of files, or their paths; ``net`` is the train net,
    ``iteration`` counts the steps.

    The net's file that the solver's text may name is not read: net_text is it. FormatError, ExportError or UsageError
    for texts that do not fit.
    """

    def __init__(self, solver_text: Text, net_text: Text, caffemodel: Optional[Content] = None):
        self._proto = parsed(solver_text, "SolverParameter", "solver")
        self._rule = rule_of(self._proto)
        self._kind = self._proto.regularization_type or "L2"
        self.iteration = 0
        rate_at(self._proto, 0)
        self.net = Net(net_text, caffemodel, "TRAIN", self._proto.random_seed)
        self._parameters = self.net.parameters()
        self._memory: List[List[Array]] = [
            [np.zeros(parameter.blob.shape, np.float32) for _ in range(self._rule.memory)]
            for parameter in self._parameters
        ]
        self._declared = {name: self.net.blobs[name].shape for name in self.net.inputs}

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return rate_at(self._proto, self.iteration)

    def loss(self) -> float:
        """The loss of the last forward pass: all that count, by their weights."""
        total = 0.0
        for proto, layer in self.net.layers:
            for name, weight in zip(proto.top, layer.loss_weights(len(proto.top))):
                total += float(weight) * float(self.net.blobs[name].data.sum()) if weight else 0.0
        return total

    def step(self, feeds: Mapping[str, Any]) -> Dict[str, Array]:
        """One step on these inputs, by blob; the net's outputs, of the last sub-batch, before the update.

        With iter_size the rows of all sub-batches follow each other; rows of one batch serve for all of them. After the
        step the gradients of the parameters hold the update, as Caffe's do.
        """
        times = max(self._proto.iter_size, 1)
        for parameter in self._parameters:
            parameter.blob.diff[...] = 0
        outputs: Dict[str, Array] = {}
        for part in self._parts(feeds, times):
            outputs = self.net.forward(**part)
            self.net.backward()
        self.apply_update()
        return outputs

    def _parts(self, feeds: Mapping[str, Any], times: int) -> List[Dict[str, Array]]:
        arrays = {name: np.asarray(value, np.float32) for name, value in feeds.items()}
        if times == 1:
            return [arrays]
        parts: List[Dict[str, Array]] = [{} for _ in range(times)]
        for name, value in arrays.items():
            declared = self._declared.get(name, ())
            if value.ndim == 0 or (declared and len(value) == declared[0]):
                pieces = [value] * times
            elif len(value) % times:
                raise FeedError(f"{name!r} has {len(value)} rows, which are not {times} equal sub-batches")
            else:
                pieces = np.split(value, times)
            for part, piece in zip(parts, pieces):
                part[name] = piece
        return parts

    def apply_update(self) -> None:
        """End a step: change the parameters by what the rule makes of their gradients, the sum of all sub-batches."""
        solver, rate = self._proto, self.rate
        factor = clip_factor([parameter.blob.diff for parameter in self._parameters], solver.clip_gradients)
        factor /= max(solver.iter_size, 1)
        for parameter, memory in zip(self._parameters, self._memory):
            blob = parameter.blob
            gradient = blob.diff * np.float32(factor)
            gradient = decayed(self._kind, gradient, blob.data, solver.weight_decay * parameter.decay)
            blob.diff[...] = self._rule.step(solver, gradient, memory, rate * parameter.rate, self.iteration)
            blob.update()
        self.iteration += 1

    # Snapshots

    def snapshot(self, learned_net: str = "") -> Tuple[bytes, bytes]:
        """The caffemodel and the solverstate, which names the file of the caffemodel if it is given; in HDF5 if the
        solver's text says so."""
        history = [memory[part] for part in range(self._rule.memory) for memory in self._memory]
        step = steps_done(self._proto, self.iteration)
        caffemodel = self.net.save(self._proto.snapshot_diff, self.is_hdf5)
        if self.is_hdf5:
            return caffemodel, state_in(State(self.iteration, step, history, learned_net))
        return caffemodel, solverstate_of(self.iteration, step, history, learned_net)

    @property
    def is_hdf5(self) -> bool:
        """Whether snapshots are HDF5 files."""
        return bool(self._proto.snapshot_format == 0)

    def restore(self, caffemodel: Optional[bytes], solverstate: bytes) -> None:
        """Go on where a snapshot was taken. FormatError if it is of another net or another rule."""
        iteration, _, history = read_solverstate(solverstate)
        slots = [memory[part] for part in range(self._rule.memory) for memory in self._memory]
        if len(history) != len(slots) or any(a.size != b.size for a, b in zip(history, slots)):
            raise FormatError("the solverstate is of another net or another solver")
        if caffemodel is not None:
            self.net.copy_from(caffemodel)
        for slot, values in zip(slots, history):
            slot[...] = values.reshape(slot.shape)
        self.iteration = iteration
