"""What the weights of a pair take, as they are stored."""

from __future__ import annotations

from runtime_arm.pair.pair import Pair


def weights_nbytes(pair: Pair) -> int:
    """The bytes of all weights that init_net holds."""
    arrays = [
        array
        for op in pair.init_net.op
        for arg in op.arg
        for array in (arg.t, arg.floats, arg.ints)
        if array is not None
    ]
    return sum(array.nbytes for array in arrays)
