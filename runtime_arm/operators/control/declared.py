"""What a file declares about the outputs of a loop's body: nothing more is known about them if the body never runs."""

from __future__ import annotations

from typing import Dict, List, Mapping

from runtime_arm.netdef import Argument, NetDef
from runtime_arm.netdef.dtypes import dtype_of, number_of
from runtime_arm.registry.specs import TensorSpec

_NAMES, _SPECS = "declared", "declared_specs"  # of arguments of the net: names; for each a data type, a rank, sizes


def with_declared(net: NetDef, specs: Mapping[str, TensorSpec]) -> NetDef:
    """The net, saying that its blobs have these specs."""
    numbers: List[int] = []
    for spec in specs.values():
        numbers += [number_of(spec.dtype) or 0, spec.ndim, *spec.shape]
    if not specs:
        return net
    return net.replace(arg=(*net.arg, Argument.of(_NAMES, list(specs)), Argument.of(_SPECS, numbers)))


def declared(net: NetDef) -> Dict[str, TensorSpec]:
    """The specs that the net says its blobs have, by name."""
    known = {arg.name: arg for arg in net.arg}
    if _NAMES not in known or _SPECS not in known:
        return {}
    specs: Dict[str, TensorSpec] = {}
    numbers = [int(number) for number in known[_SPECS].ints]
    for name in known[_NAMES].strings:
        if len(numbers) < 2 or not 0 <= numbers[1] <= len(numbers) - 2:
            return {}
        (number, rank), numbers = numbers[:2], numbers[2:]
        shape, numbers = numbers[:rank], numbers[rank:]
        dtype = dtype_of(number)
        if dtype is not None and min(shape, default=0) >= 0:
            specs[name.decode()] = TensorSpec(tuple(shape), dtype)
    return specs
