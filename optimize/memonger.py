"""Reuses blob names to save memory, as Caffe2's memonger does, for nets that the real Caffe2 will run.

The runtime plans memory by bytes and does not need this. Blobs that are never live at the same time get the same name,
so the results of these functions are plain nets. External inputs and outputs, and blobs that sub-nets mention, are
neither overwritten nor renamed, whether they are listed as static or not.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set

from optimize.memory.name_reuse import Range, reuse_buffers
from optimize.memory.orders import live_ranges, orders
from optimize.rewriting.single_assignment import names_held, names_in
from runtime_arm.netdef import Argument, NetDef

Sizes = Mapping[str, int]

_WITH_COLUMN_BUFFER = {"Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", "ConvTranspose"}


def optimize_interference(
    net: NetDef, static_blobs: Iterable[str] = (), sizes: Optional[Sizes] = None, reorder: bool = False
) -> NetDef:
    """The net with as few bytes of blobs as reusing names allows; blobs of one buffer get the name of the last of them.

    sizes: bytes by blob name; a blob without a size keeps a buffer of its own. Without sizes, the number of blobs is
    minimised. static_blobs: blobs that must keep their content to the end. An operator overwrites its input only if it
    did so before. The order of operators is kept unless ``reorder`` is given.
    """
    static = set(static_blobs)
    best, best_nbytes = net, -1
    for candidate in orders(net, sizes or {}) if reorder else [net]:
        ranges = _reusing(candidate, static, sizes)
        counted = sizes if sizes is not None else dict.fromkeys(ranges, 1)
        chains = reuse_buffers(ranges, counted)
        nbytes = sum(max(counted[name] for name in chain) for chain in chains)
        if best_nbytes < 0 or nbytes < best_nbytes:
            best, best_nbytes = renamed(candidate, {name: chain[-1] for chain in chains for name in chain}), nbytes
    return best


def optimize_inference_fast(net: NetDef, static_blobs: Iterable[str] = ()) -> NetDef:
    """The net with names reused in one pass, without regard to sizes; reused names are ``__m0_shared``, ...

    A blob takes the name that became free last. Otherwise as ``optimize_interference``.
    """
    ranges = _reusing(net, set(static_blobs), None)
    fresh = _fresh_names(names_in(net), lambda number: f"__m{number}_shared")
    names: Dict[str, str] = {}
    free: List[str] = []
    for place, op in enumerate(net.op):
        for name in op.output:
            if name in ranges and name not in names:
                names[name] = free.pop() if free else next(fresh)
        for name in dict.fromkeys((*op.reads(), *op.output)):
            if name in ranges and ranges[name].last == place:
                free.append(names[name])
    return renamed(net, names)


def rename_blobs(net: NetDef) -> NetDef:
    """The net with short names, ``b0``, ``b1``, ..., for its internal blobs, in order of appearance."""
    internal = _reusing(net, set(), None)
    fresh = _fresh_names(names_in(net) - set(internal), lambda number: f"b{number}")
    return renamed(net, {name: next(fresh) for name in internal})


def share_conv_buffers(net: NetDef) -> NetDef:
    """The net whose convolutions, in sub-nets too, share one buffer for unrolling their inputs.

    This sets Caffe2's argument ``shared_buffer``; armnet's runtime always shares scratch memory.
    """
    ops = []
    for op in net.op:
        op = op.replace(arg=tuple(_with_shared_buffers(arg) for arg in op.arg))
        ops.append(op.with_args(shared_buffer=1) if op.type in _WITH_COLUMN_BUFFER and not op.domain else op)
    return net.replace(op=tuple(ops))


def _with_shared_buffers(arg: Argument) -> Argument:
    inner = None if arg.n is None else share_conv_buffers(arg.n)
    return arg.replace(n=inner, nets=tuple(map(share_conv_buffers, arg.nets)))


def _reusing(net: NetDef, static: Set[str], sizes: Optional[Sizes]) -> Dict[str, Range]:
    """The live ranges of the blobs that may reuse a name, in order of appearance."""
    fixed = static.union(net.external_input, net.external_output, *map(names_held, net.op))
    return {
        name: live for name, live in live_ranges(net).items() if name not in fixed and (sizes is None or name in sizes)
    }


def renamed(net: NetDef, names: Mapping[str, str]) -> NetDef:
    """The net whose operators have other names for some blobs."""
    ops = [
        op.replace(
            input=tuple(names.get(name, name) for name in op.input),
            output=tuple(names.get(name, name) for name in op.output),
        )
        for op in net.op
    ]
    return net.replace(op=tuple(ops))


def _fresh_names(taken: Set[str], name_of: Callable[[int], str]) -> Iterator[str]:
    number = 0
    while True:
        if name_of(number) not in taken:
            yield name_of(number)
        number += 1
