"""What the weights of a pair take, as they are stored."""

from __future__ import annotations

from runtime_arm.netdef.narrow import stored_nbytes
from runtime_arm.pair.pair import Pair


def weights_nbytes(pair: Pair) -> int:
    """The bytes of all weights that init_net holds."""
    args = [arg for op in pair.init_net.op for arg in op.arg]
    tensors = [arg.t for arg in args if arg.t is not None]
    stored = sum(stored_nbytes(tensor) if pair.init_net.is_narrow else tensor.nbytes for tensor in tensors)
    return stored + sum(array.nbytes for arg in args for array in (arg.floats, arg.ints))
