"""Whole forward passes of a net in the phase TEST, run as one planned network instead of layer by layer.

Programs see what Caffe would show them:

- Outputs, blobs that the caller names, blobs that were read since the pass before, and blobs of which the program holds
  an array are computed by the pass. All others are computed when they are read, from copies of the inputs.
- The network uses the memory of the parameters. Before a program gets hold of a parameter, whatever is still to be
  computed is computed. In the next pass the parameter is compared with a copy. If it differs, that pass runs layer by
  layer, and the network is made anew once the parameters have been left alone for a while.
- A pass over some of the layers, a backward pass, and parameters shared with another net lead back to layers for good.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np

from armnet.standins.failures import raised_as
from exporter.caffe.blob import Blob as Memory
from exporter.caffe.memories import Memories
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array
from training.caffe.net import Net

if TYPE_CHECKING:
    from armnet.standins.fusing import Fusing

# They may go on from the pass before, or have shapes of their own.
_BY_LAYERS = ("LSTM", "RNN", "Parameter", "Filter", "Python")
_LONGEST_WAIT = 63  # passes by layers before the network is made anew, of parameters that change again and again
_Held = Callable[[], Optional[Array]]


class Lender:
    """Hands out arrays of memories, and knows whether one of them, or a view of one, is still in use."""

    def __init__(self) -> None:
        self._lent: Dict[int, Tuple[_Held, _Held]] = {}  # by memory: the base of what was handed out, and its owner

    def lend(self, memory: Memory, shape: Sequence[int]) -> Array:
        """The values, to be read and written, in this shape."""
        owner, lent = memory.data_memory.mutable_cpu_data(), self._lent.get(id(memory))
        base = None if lent is None or lent[1]() is not owner else lent[0]()
        if base is None:
            base = np.asarray(memoryview(owner))  # type: ignore[arg-type]
            self._lent[id(memory)] = weakref.ref(base), weakref.ref(owner)
        values: Array = base.view(np.float32)[: math.prod(shape)].reshape(shape)
        return values

    def is_held(self, memory: Memory) -> bool:
        """Whether the program can reach the values of a memory without asking for them."""
        lent = self._lent.get(id(memory))
        return lent is not None and lent[0]() is not None


class Passes:
    """The whole forward passes of a net, whose blobs and parameters programs get through this object alone.

    possible: whether they may run as a network at all.
    """

    def __init__(self, net: Net, possible: bool):
        self._net = net
        self._possible = possible and _is_pure(net)
        self._lender = Lender()
        self._network: Optional[Fusing] = None
        self._copies: Dict[int, Tuple[Memory, Array]] = {}  # of the parameters that the program may have changed
        self._sources = _sources(net)
        given = {*net.inputs, *self._sources}
        self._inputs = [(name, net.blobs[name]) for name in net.inputs]
        self._between = [(name, net.blobs[name]) for name in net.blobs if name not in given.union(net.outputs)]
        self._capacities = self._capacities_now()
        self._due: Dict[str, int] = {}  # those that are still to be computed
        self._given: Dict[str, Array] = {}  # what the inputs held in the last pass, if it ran as a network
        self._read: Set[str] = set()  # since the last pass
        self._has_filled = False  # whether a blob was computed late, after the last pass
        self._shapes = self._shapes_of_inputs()  # when the blobs were given theirs
        self._calm = self._wait = 0  # passes by layers since a parameter was touched, and how many there have to be

    # What programs get

    def values(self, memory: Memory, name: Optional[str]) -> Array:
        """Those of the blob of this name, or of a parameter."""
        if not self._possible:
            return memory.data
        if name is None:
            self._watch(memory)
        else:
            name, shape = self._sources.get(name, name), memory.shape
            self._compute(name)
            return self._lender.lend(self._net.blobs[name], shape)
        return self._lender.lend(memory, memory.shape)

    def reshape(self, memory: Memory, name: Optional[str], shape: Sequence[int]) -> None:
        """Give a blob, or a parameter, another shape."""
        if name is None:
            self._watch(memory)
        self._shapes = []
        memory.reshape(*shape)

    def reshape_all(self) -> None:
        """Give every blob the shape that follows from those of the inputs."""
        self._net.reshape()
        self._shapes, self._capacities = self._shapes_of_inputs(), self._capacities_now()

    # Passes

    def forward(self, wanted: Iterable[str] = ()) -> None:
        """Run all layers. wanted: blobs that will be read."""
        network = self._ready()
        if network is None:
            self._forward_by_layers()
            return
        if self._shapes != self._shapes_of_inputs():
            self.reshape_all()
        names = self._wanted_now(wanted)
        given = {name: memory.data for name, memory in self._inputs}
        try:
            found = network.run(given, names)
        except ArmnetError:
            self._network, self._possible = None, False
            self._forward_by_layers()
            return
        for name, values in found.items():
            memory = self._net.blobs[name]
            if memory.shape != values.shape:
                memory.reshape(values.shape)
            memory.data[...] = values
        filled = {self._sources.get(name, name) for name in found}
        self._due = {name: capacity for name, capacity in self._capacities.items() if name not in filled}
        self._given = {name: values.copy() for name, values in given.items()}
        self._read, self._has_filled = set(), False

    def go_back_to_layers(self, for_good: bool = True) -> None:
        """Let blobs and layers hold what they would hold if the last pass had run layer by layer."""
        if self._given:
            self._compute_all()
            changed = [(memory, memory.data.copy()) for memory, _ in self._copies.values()]
            for memory, before in self._copies.values():
                memory.data[...] = before
            self._net.remember(self._given)
            for memory, values in changed:
                memory.data[...] = values
        self._network, self._given, self._copies = None, {}, {}
        self._possible = self._possible and not for_good

    def _forward_by_layers(self) -> None:
        self._due, self._given, self._read, self._shapes = {}, {}, set(), []
        self._net.forward_between()

    def _ready(self) -> Optional[Fusing]:
        """The network, if this pass may run as one."""
        if not self._possible:
            return None
        if self._network is not None and self._has_changed():
            self._network = None
            self._calm, self._wait = 0, min(2 * self._wait + 1, _LONGEST_WAIT)
        if self._network is None:
            if self._calm < self._wait:
                self._calm = 0 if any(map(self._lender.is_held, self._parameters())) else self._calm + 1
                return None
            self._make()
        return self._network

    def _make(self) -> None:
        from armnet.standins.caffe.network import network_of_layers  # nets that run layer by layer do without

        try:
            self._network = network_of_layers(self._net)
        except ArmnetError:
            self._possible = False
            return
        held = filter(self._lender.is_held, self._parameters())
        self._copies = {id(memory): (memory, memory.data.copy()) for memory in held}

    def _wanted_now(self, wanted: Iterable[str]) -> List[str]:
        """The blobs that a pass has to compute at once, besides the outputs."""
        if any(self._lender.is_held(memory) for memory, _ in self._copies.values()):
            return [name for name, _ in self._between]
        named = self._read.union(self._sources.get(name, name) for name in wanted)
        return [name for name, memory in self._between if name in named or self._lender.is_held(memory)]

    def _shapes_of_inputs(self) -> List[Tuple[int, ...]]:
        return [memory.shape for _, memory in self._inputs]

    def _capacities_now(self) -> Dict[str, int]:
        """How much the memories of the blobs between inputs and outputs hold."""
        return {name: memory.capacity for name, memory in self._between}

    # Blobs that are read later

    def _compute(self, name: str) -> None:
        """Let a blob hold what it should. The first that is read after a pass is computed alone, the second with all
        the others."""
        self._read.add(name)
        if name in self._due:
            self._fill(list(self._due) if self._has_filled else [name])
            self._has_filled = True

    def _compute_all(self) -> None:
        if self._due:
            self._fill(list(self._due))

    def _fill(self, names: List[str]) -> None:
        assert self._network is not None
        with raised_as(RuntimeError):
            found = self._network.run(self._given, names)
        for name in names:
            memory, capacity = self._net.blobs[name], self._due.pop(name)
            if memory.capacity == capacity:  # else it lost its content when it was made larger
                flat = memory.data_memory.mutable_cpu_data().view(np.float32)
                flat[: found[name].size] = found[name].reshape(-1)

    # Parameters

    def _parameters(self) -> Iterable[Memory]:
        return (memory for memories in self._net.params.values() for memory in memories)

    def _watch(self, memory: Memory) -> None:
        """The program gets hold of a parameter."""
        self._calm = 0
        if self._network is not None:
            self._compute_all()
            if id(memory) not in self._copies:
                self._copies[id(memory)] = memory, memory.data.copy()

    def _has_changed(self) -> bool:
        """Whether a parameter differs from what it was when the network was made. Those that the program has let go of
        are watched no longer."""
        for key, (memory, before) in list(self._copies.items()):
            if memory.shape != before.shape or memory.data.tobytes() != before.tobytes():
                return True
            if not self._lender.is_held(memory):
                del self._copies[key]
        return False


def _sources(net: Net) -> Dict[str, str]:
    """The blob that has the memory of another one, by the name of the other."""
    memories = Memories()
    for proto, _ in net.layers:
        for top in proto.top:
            memories.write(proto, top)
    return {name: memories.first(name) for name in net.blobs if memories.first(name) != name}


def _overwrites(net: Net) -> bool:
    """Whether a layer in place changes a blob of another name, which has the same memory."""
    memories = Memories()
    return any(memories.write(proto, top) for proto, _ in net.layers for top in proto.top)


def _is_pure(net: Net) -> bool:
    """Whether a pass is a function of inputs and parameters that changes nothing else, with shapes that do not depend
    on values but in outputs."""
    protos = [proto for proto, _ in net.layers]
    names = [proto.name for proto in protos]
    tops = {top for proto in protos for top in proto.top}
    return (
        len(set(names)) == len(names)
        and bool(net.outputs)
        and tops.isdisjoint(net.inputs)
        and not _overwrites(net)
        and not any(any(layer.loss_weights(len(proto.top))) for proto, layer in net.layers)
        and not any(proto.type in _BY_LAYERS or layer.training for proto, layer in net.layers)
        and all(set(proto.top) <= set(net.outputs) for proto in protos if proto.type == "DetectionOutput")
        and not any(_sums_up(proto) for proto in protos if proto.type == "BatchNorm")
    )


def _sums_up(proto: Any) -> bool:
    """Whether a BatchNorm changes its statistics in the phase TEST."""
    param = proto.batch_norm_param
    return param.HasField("use_global_stats") and not param.use_global_stats
