"""Lets MaxPool and Relu of a net that will be differentiated keep offsets and masks instead of activations.

MaxPool's gradient then needs neither its input nor its output, and that of a Relu whose output only such pools read
does not need that output. Of equal pixels the first gets the gradient, as in Caffe and PyTorch.
"""

from __future__ import annotations

from typing import Iterable, List

from optimize.training.uses import Uses
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.common.windows import MAX_POOLS

LONGEST = 6  # of a kernel: 6 x 6 x 6 taps fit into one byte
DOMAIN = "armnet"


def keep_masks(net: NetDef, keep: Iterable[str] = ()) -> NetDef:
    """The forward net with such operators; a net that has gradient operators already stays as it is."""
    if any(op.is_gradient_op for op in net.op):
        return net
    taken = {name for op in net.op for name in (*op.input, *op.output)}
    ops = [_kept(op, "MaxPoolWithOffsets", "offsets", taken) if _is_small_pool(op) else op for op in net.op]
    uses = Uses(ops, {*net.external_output, *keep})
    for place, op in enumerate(ops):
        if op.type == "Relu" and op.domain in ("", "caffe2"):
            result = uses.made(place)
            readers = [ops[at].type for at in uses.readers(result)]
            if readers and set(readers) == {"MaxPoolWithOffsets"} and not uses.is_kept(result):
                ops[place] = _kept(op, "ReluWithMask", "mask", taken)
    return net.replace(op=tuple(ops))


def _kept(op: OperatorDef, type: str, what: str, taken: set[str]) -> OperatorDef:
    name = f"{op.output[0]}_{what}"
    while name in taken:
        name += "_"
    taken.add(name)
    return op.replace(type=type, domain=DOMAIN, output=(op.output[0], name), engine="")


def _is_small_pool(op: OperatorDef) -> bool:
    if op.type not in MAX_POOLS or op.domain not in ("", "caffe2") or op.get_bool("global_pooling"):
        return False
    sizes: List[int] = [*op.get_ints("kernels")]
    sizes += [op.get_int(name) for name in ("kernel", "kernel_h", "kernel_w") if op.has(name)]
    return bool(sizes) and max(sizes) <= LONGEST
