"""A net that runs on the blobs of a workspace, again and again, and writes into them, as a train net does."""

from __future__ import annotations

from typing import Any, Dict, Mapping, MutableMapping, Optional, Set

import numpy as np

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.netdef.check import check_net
from runtime_arm.registry.specs import QuantizedTensor

SMALL = 1024  # elements; smaller integer blobs are likely to be shapes or indices, and count as known


class NetRunner:
    """Keeps a net's plans. ``reads``: the blobs that the net takes from the workspace.

    Small integer blobs count as known when the net is planned, because shapes may depend on them. One that the net
    writes, or that changed since an earlier run, such as labels, is an input like any other.
    """

    def __init__(self, net: NetDef):
        self._net = _counting(net.replace(external_input=tuple(dict.fromkeys(net.external_input))))  # a set to Caffe2
        self.reads = self._net.captures()
        self._written = list(dict.fromkeys(name for op in self._net.op for name in op.output if name))
        self._changing: Set[str] = set(self._written)
        self._known: Dict[str, Any] = {}
        self._executor: Optional[Executor] = None

    def run(self, blobs: MutableMapping[str, Any]) -> Dict[str, Any]:
        """The blobs that the net writes, after a run on these."""
        _add_counters(self._net, blobs)
        check_net(self._net, blobs)
        read = {name: blobs[name] for name in self.reads if name in blobs}
        executor = self._executor_for(read)
        return executor.run({name: value for name, value in read.items() if name not in self._known}, self._written)

    def _executor_for(self, read: Mapping[str, Any]) -> Executor:
        changed = {name for name, value in self._known.items() if name not in read or not _same(value, read[name])}
        if self._executor is None or changed:
            self._changing |= changed
            self._known = {
                name: np.array(value)
                for name, value in read.items()
                if name not in self._changing and _is_small_and_whole(value)
            }
            self._executor = Executor(self._net, self._known)
        return self._executor


def _counting(net: NetDef) -> NetDef:
    """The net, with Iter operators that read the count that they write: in Caffe2 they need no input."""
    ops = tuple(op.replace(input=op.output) if op.type == "Iter" and not op.input else op for op in net.op)
    return net.replace(op=ops)


def _add_counters(net: NetDef, blobs: MutableMapping[str, Any]) -> None:
    """Add the blobs that counting needs and that are missing: a count that begins at 0, a mutex."""
    for op in net.op:
        if op.type == "Iter" and op.input == op.output != ():
            blobs.setdefault(op.output[0], np.zeros(1, np.int64))
        if op.type == "AtomicIter" and len(op.input) == 2:
            blobs.setdefault(op.input[0], np.empty(0, np.uint8))


def _is_small_and_whole(value: Any) -> bool:
    return not isinstance(value, QuantizedTensor) and value.dtype.kind in "iub" and value.size <= SMALL


def _same(known: Any, value: Any) -> bool:
    if isinstance(value, QuantizedTensor):
        return False
    return bool(known.dtype == value.dtype and known.shape == value.shape and np.array_equal(known, value))
