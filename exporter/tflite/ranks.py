"""Finds the rank and some sizes of blobs about which neither the file nor inference with open sizes says anything.

Files that were written before tensors had a field ``has_rank`` store a scalar and a tensor of unknown rank alike.
"""

from __future__ import annotations

from typing import List, Optional

from exporter.common.builder import NetBuilder
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

# What open sizes are taken for, one after the other: what all of them agree on does not depend on open sizes.
_OPEN = (1, 2, 97)


def note_ranks(net: NetBuilder, op: OperatorDef) -> None:
    """Record hints for outputs about which nothing is known: rank, type, and the sizes that do not depend on open
    sizes.
    """
    unknown = [index for index, name in enumerate(op.output) if name and net.dims(name) is None]
    if not unknown:
        return
    trials = [specs for specs in (_trial(net, op, size) for size in _OPEN) if specs is not None]
    for index in unknown:
        found = [specs[index] for specs in trials]
        if len({(spec.ndim, spec.dtype) for spec in found}) != 1:
            continue
        sizes = [set(axis) for axis in zip(*(spec.shape for spec in found))]
        dims = tuple(axis.pop() if len(axis) == 1 and len(found) > 1 else None for axis in sizes)
        net.hint(op.output[index], found[0].dtype, dims)


def _trial(net: NetBuilder, op: OperatorDef, size: int) -> Optional[List[TensorSpec]]:
    """The outputs if every open size were this one; None if the operator refuses that or needs to know more."""
    specs: List[Optional[TensorSpec]] = []
    for name in op.input:
        dims, dtype = (net.dims(name), net.dtype(name)) if name else (None, None)
        if name and (dims is None or dtype is None):
            return None
        known = net.spec(name) if name else None
        shape = [size if n is None else n for n in dims or ()]
        specs.append(known if known is not None or dtype is None else TensorSpec(shape, dtype))
    try:
        return infer_operator(op, specs)[1]
    except (ArmnetError, DataDependent):
        return None
