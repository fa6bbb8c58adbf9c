"""Workspace: named blobs that nets read and write, as in Caffe2."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from runtime_arm.errors import FeedError
from runtime_arm.execution.executor import Executor
from runtime_arm.files import checked_path
from runtime_arm.netdef import NetDef, NetLike
from runtime_arm.netdef.check import check_net
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.specs import QuantizedTensor

SMALL = (
    1024  # elements; smaller integer blobs are likely to be shapes or indices, and count as known when a net is planned
)


class Workspace:
    """Blobs by name.

    ws = Workspace()
    ws.feed("X", x)
    ws.run_net_once(net)
    y = ws.fetch("Y")
    """

    def __init__(self) -> None:
        self._blobs: Dict[str, Any] = {}

    def feed(self, name: str, array: Any) -> None:
        """Set a blob to anything that NumPy can make an array of, or to a QuantizedTensor."""
        self._blobs[name] = array if isinstance(array, QuantizedTensor) else np.asarray(array)

    def fetch(self, name: str) -> Any:
        """The content of a blob. FeedError if there is no blob of that name."""
        if name not in self._blobs:
            raise FeedError(f"no blob {name!r} in the workspace; it has {', '.join(sorted(self._blobs)) or 'none'}")
        return self._blobs[name]

    def has(self, name: str) -> bool:
        return name in self._blobs

    def blobs(self) -> List[str]:
        """Names of the blobs, sorted."""
        return sorted(self._blobs)

    def run_net_once(self, net: NetLike) -> None:
        """Run a net on the blobs; afterwards the workspace holds every blob that the net writes."""
        net = as_net(net)
        net = net.replace(external_input=tuple(dict.fromkeys(net.external_input)))  # a set to Caffe2
        check_net(net, self._blobs)
        read = {name: self._blobs[name] for name in net.captures() if name in self._blobs}
        known = {name: value for name, value in read.items() if _is_small_and_whole(value)}
        executor = Executor(net, known)
        written = list(dict.fromkeys(name for op in net.op for name in op.output if name))
        self._blobs.update(executor.run({name: value for name, value in read.items() if name not in known}, written))


def _is_small_and_whole(value: Any) -> bool:
    return not isinstance(value, QuantizedTensor) and value.dtype.kind in "iub" and value.size <= SMALL


def as_net(net: NetLike) -> NetDef:
    """The net given as a NetDef, as bytes, or as the path of a .pb file. UsageError for anything else."""
    if isinstance(net, NetDef):
        return net
    if isinstance(net, (bytes, bytearray, memoryview)):
        return NetDef.from_bytes(net)
    return read_net(checked_path(net, "a net is a NetDef, bytes, or the path of a .pb file"))


def run_init_net(net: NetDef) -> Dict[str, Any]:
    """The blobs that an init_net fills, by name."""
    written = list(dict.fromkeys(name for op in net.op for name in op.output if name))
    return Executor(net.check(), {}).run_once(written)
