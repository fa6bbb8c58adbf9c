"""The weights of a pair: each is read when needed, and changed without copying the others."""

from __future__ import annotations

import hashlib
from collections import Counter
from copy import copy
from typing import AbstractSet, Dict, Iterable, Mapping, Optional

import numpy as np

from optimize.rewriting.single_assignment import names_in
from runtime_arm.netdef import Array, NetDef, OperatorDef, frozen
from runtime_arm.pair.fills import fill
from runtime_arm.registry.schema import find
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


class Weights:
    """The constants that an init_net fills, by name. Immutable: ``changed`` gives a copy that shares the other weights.

    A constant is filled by one pure operator without inputs. Everything else in an init_net stays as it is and has no
    value here: random fills, computations, and initial values of the blobs in ``variable``, which the net overwrites.
    ``unpacked``: new weights are written as Caffe2 writes them.
    """

    def __init__(self, init_net: NetDef, variable: AbstractSet[str] = frozenset(), unpacked: bool = False):
        self.init_net = init_net
        self._unpacked = unpacked
        self._fills = _constant_fills(init_net, variable)
        others = [op for op in init_net.op if self._fills.get(op.output[0] if op.output else "") is not op]
        self._others = names_in(init_net.replace(op=tuple(others), external_output=()))
        self._specs: Dict[str, TensorSpec] = {}
        self._digests: Dict[str, bytes] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._fills

    def mentions(self, name: str) -> bool:
        """Whether the init_net uses the name, for a constant or for something else."""
        return name in self._fills or name in self._others or name in self.init_net.external_output

    @property
    def names(self) -> Iterable[str]:
        """The constants, in the order in which they are filled."""
        return self._fills.keys()

    def spec(self, name: str) -> Optional[TensorSpec]:
        """The spec of a constant, with its content. OperatorError for a wrong fill."""
        if name in self._fills and name not in self._specs:
            self._specs[name] = infer_operator(self._fills[name], [])[1][0]
        return self._specs.get(name)

    def value(self, name: str) -> Optional[Array]:
        """The content of a constant, read-only; None if the blob is not constant, or is quantised."""
        spec = self.spec(name)
        if spec is None or spec.quantization is not None or spec.value is None:
            return None
        return frozen(spec.value)

    def digest(self, name: str) -> Optional[bytes]:
        """A hash of dtype, shape and content; None if there is no value."""
        if name not in self._digests:
            value = self.value(name)
            if value is None or value.dtype == object:
                return None
            content = hashlib.sha256(repr((value.dtype.str, value.shape)).encode())
            content.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            self._digests[name] = content.digest()
        return self._digests[name]

    def changed(self, updates: Mapping[str, Optional[Array]]) -> Weights:
        """The weights with these constants added, or removed where the value is None."""
        if not updates:
            return self
        gone = {id(self._fills[name]) for name in updates if name in self._fills}
        new = {name: fill(name, value, self._unpacked) for name, value in updates.items() if value is not None}
        net = self.init_net.replace(op=(*(op for op in self.init_net.op if id(op) not in gone), *new.values()))
        if net.external_output:
            outputs = [name for name in net.external_output if name not in updates]
            net = net.replace(external_output=(*outputs, *new))
        result = copy(self)
        result.init_net = net
        constant = {name: op for name, op in new.items() if name not in self._others}
        result._fills = {**{name: op for name, op in self._fills.items() if name not in updates}, **constant}
        result._specs = {name: spec for name, spec in self._specs.items() if name not in updates}
        result._digests = {name: digest for name, digest in self._digests.items() if name not in updates}
        return result


def _constant_fills(init_net: NetDef, variable: AbstractSet[str]) -> Dict[str, OperatorDef]:
    writes = Counter(name for op in init_net.op for name in op.output)
    reads = {name for op in init_net.op for name in op.reads()}
    return {
        op.output[0]: op
        for op in init_net.op
        if len(op.output) == 1
        and not any(op.input)
        and _is_pure(op)
        and writes[op.output[0]] == 1
        and op.output[0] not in reads
        and op.output[0] not in variable
    }


def _is_pure(op: OperatorDef) -> bool:
    schema = find(op)
    return schema is not None and schema.pure and not schema.control


def with_unpacked_fills(init_net: NetDef) -> NetDef:
    """The init_net with its constants written as Caffe2 writes them. ExportError for a dtype that has no fill there."""
    ops = [fill(op.output[0], op.get_tensor("values"), unpacked=True) if _is_tensor(op) else op for op in init_net.op]
    return init_net.replace(op=tuple(ops))


def _is_tensor(op: OperatorDef) -> bool:
    values = op.argument("values")
    return values is not None and values.t is not None
