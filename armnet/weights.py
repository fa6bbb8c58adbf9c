"""What the weights of a pair take, as they are stored."""

from __future__ import annotations

from runtime_arm.netdef.narrow import stored_nbytes
from runtime_arm.pair.pair import Pair


def weights_nbytes(pair: Pair) -> int:
    """The bytes of all weights that init_net holds."""
    args = [arg for op in pair.init_net.op for arg in op.arg]
    tensors = sum(stored_nbytes(arg.t) for arg in args if arg.t is not None)
    return tensors + sum(array.nbytes for arg in args for array in (arg.floats, arg.ints))
