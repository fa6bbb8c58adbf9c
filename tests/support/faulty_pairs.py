"""Pairs that compute something else than they should."""

from __future__ import annotations

import numpy as np

from runtime_arm.pair.pair import Pair


def with_larger_weights(pair: Pair) -> Pair:
    """The pair, all of whose weights are a tenth larger."""
    fills = [op.with_args(values=op.get_tensor("values") * np.float32(1.1)) for op in pair.init_net.op]
    return pair.replace(init_net=pair.init_net.replace(op=tuple(fills)))
