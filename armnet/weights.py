"""The size of a pair's weights, as they are stored."""

from __future__ import annotations

from runtime_arm.netdef import NetDef
from runtime_arm.netdef.narrow import stored_nbytes
from runtime_arm.pair.pair import Pair


def weights_nbytes(pair: Pair) -> int:
    """The bytes of all weights that init_net holds, and of the scales that operators on integers have."""
    return sum(_nbytes(net, net is pair.init_net) for net in (pair.init_net, pair.predict_net))


def _nbytes(net: NetDef, lists: bool) -> int:
    """The bytes of the tensors and lists of numbers among the arguments of a net's operators."""
    args = [arg for op in net.op for arg in op.arg]
    tensors = [arg.t for arg in args if arg.t is not None]
    stored = sum(stored_nbytes(tensor) if net.is_narrow else tensor.nbytes for tensor in tensors)
    return stored + (sum(array.nbytes for arg in args for array in (arg.floats, arg.ints)) if lists else 0)
