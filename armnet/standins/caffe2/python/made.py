"""Nets that a program made with CreateNet and runs again and again."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set

import numpy as np

from armnet.standins.fusing import Fusing
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import find


class Late(NamedTuple):
    """A run of a network, from which blobs can still be had. What it was given does not change."""

    network: Fusing
    given: Mapping[str, Any]


class Space:
    """A workspace: its blobs, of which some are computed when they are asked for, and the nets made in it.

    Arrays in it are never written into: another value is another array.
    """

    def __init__(self) -> None:
        self.nets: Dict[str, MadeNet] = {}
        self._blobs = Workspace()
        self._late: Dict[str, Late] = {}
        self._fetched: Set[str] = set()  # since the nets that write them ran
        self._declared: Set[str] = set()  # blobs of nets that may not have run

    def keep(self, made: MadeNet) -> None:
        """Keep a net under its name, and declare the blobs that it writes."""
        self.nets[made.net.name] = made
        self._declared.update(made.writes)

    def has(self, name: str) -> bool:
        """Whether there is a blob of this name, also one without content."""
        return name in self._declared or self._blobs.has(name)

    def blobs(self) -> List[str]:
        """The names of the blobs, sorted."""
        return sorted(self._declared.union(self._blobs.blobs()))

    def feed(self, name: str, value: Any) -> None:
        """Set a blob."""
        self._late.pop(name, None)
        self._blobs.feed(name, value)

    def fetch(self, name: str) -> Any:
        """The content of a blob, not to be written into; of one without content, a text that says so."""
        self._fetched.add(name)
        if name in self._late:
            self._settle(self._late[name])
        if name in self._declared and not self._blobs.has(name):
            return f"{name}, a C++ native class of type nullptr (uninitialized).".encode()
        return self._blobs.fetch(name)

    def run_once(self, net: NetDef) -> None:
        """Run a net operator by operator."""
        self.settled().run_net_once(net)

    def settled(self) -> Workspace:
        """The blobs, all of them computed."""
        for late in list(self._late.values()):
            self._settle(late)
        return self._blobs

    def run(self, name: str) -> None:
        """Run a net that was made."""
        made = self.nets[name]
        given = {one: self.fetch(one) for one in made.reads if self._blobs.has(one)}
        network = made.network_for(given) if self._holds_numbers(made) else None
        if network is None:
            self.run_once(made.net)
            return
        inputs = {one: value for one, value in given.items() if one not in made.constants}
        wanted = [one for one in made.writes if one in self._fetched and one not in made.outputs]
        try:
            found = network.run(inputs, wanted)
        except ArmnetError:
            made.give_up()
            self.run_once(made.net)
            return
        self._fetched.difference_update(made.writes)
        late = Late(network, inputs)
        for one in made.writes:
            if one in found:
                self.feed(one, found[one])
            else:
                self._late[one] = late

    def _holds_numbers(self, made: MadeNet) -> bool:
        """Whether the blobs that a net reads and writes are all there, so that it ran before, and none holds strings,
        which networks give as text instead of bytes."""
        names = (*made.reads, *made.writes)
        return all(self._blobs.has(one) and _kind(self._blobs.fetch(one))[1] != np.dtype(object) for one in names)

    def _settle(self, late: Late) -> None:
        """Compute the blobs that are still to be had from a run."""
        names = [name for name, other in self._late.items() if other is late]
        for name, value in late.network.run(late.given, names).items():
            if name in names:
                self.feed(name, value)


class MadeNet:
    """A net, and the network that computes what it does where it changes nothing that it reads.

    ``constants``: the blobs that are part of the network, since they were not set again between two runs.
    """

    def __init__(self, net: NetDef):
        self.net = net
        self.reads = net.captures()
        self.writes = list(dict.fromkeys(name for op in net.op for name in op.output if name))
        stated = [name for name in dict.fromkeys(net.external_output) if name in self.writes]
        self.outputs = stated or self.writes[-1:]
        self.constants: Dict[str, Any] = {}
        self._network: Optional[Fusing] = None
        self._possible = bool(self.reads) and set(self.reads).isdisjoint(self.writes) and _is_pure(net)
        self._changing = set(self.reads[:1])  # most likely what a program sets from run to run
        self._last: Mapping[str, Any] = {}

    def network_for(self, given: Mapping[str, Any]) -> Optional[Fusing]:
        """The network for a run on these blobs; None if the net itself has to run."""
        last, self._last = self._last, given
        if not self._possible or set(given) != set(self.reads) or not last:
            return None
        changed = {name for name in given if last.get(name) is not given[name]}
        self._changing |= changed
        if not changed.isdisjoint(self.constants):
            self._network = None
        if any(_kind(last.get(name)) != _kind(given[name]) for name in changed):
            return None  # each operator looks at what it is given, also those whose results nobody asks for
        if self._network is not None:
            return self._network
        self.constants = {name: value for name, value in given.items() if self._is_constant(name, value)}
        try:
            self._network = Fusing(self._pair())
        except ArmnetError:
            self.give_up()
        return self._network

    def give_up(self) -> None:
        """Let the net itself run from now on."""
        self._possible, self._network = False, None

    def _is_constant(self, name: str, value: Any) -> bool:
        return name not in self._changing and isinstance(value, np.ndarray) and value.dtype.kind in "fiub"

    def _pair(self) -> Pair:
        fills = tuple(fill(name, value) for name, value in self.constants.items())
        predict = self.net.replace(external_input=tuple(self.reads), external_output=tuple(self.outputs))
        return Pair.from_nets(NetDef("init", fills, external_output=tuple(self.constants)), predict)


def _kind(blob: Any) -> Any:
    """Shape and type of an array, or of a QuantizedTensor."""
    values = getattr(blob, "values", blob)
    return getattr(values, "shape", None), getattr(values, "dtype", None)


def _is_pure(net: NetDef) -> bool:
    """Whether the operators give outputs, equal ones for equal inputs, and do nothing else."""
    return all(map(_is_pure_operator, net.op))


def _is_pure_operator(op: OperatorDef) -> bool:
    schema = find(op)
    if schema is None or not any(op.output) or any(True for _ in op.subnets()):
        return False
    return schema.pure or op.get_bool("is_test")  # Dropout is random in training alone
