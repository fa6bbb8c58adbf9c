"""Facts about an operator type that its schema states for the planner, the engines and the optimizer."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What an operator computes, whatever the dialect of its arguments: operators of one kind are treated alike.

    CONVOLUTION: inputs X, W and a bias, and of a fused operator an addend and what its activation takes; its arguments
    are read by ``operators.conv.convolution.convolution_of``.
    MAX_POOL, AVERAGE_POOL: the arguments are read by ``operators.pool.caffe2.pool_of``.
    BATCH_NORM: inputs X, scale, bias, mean and variance, and of a fused operator as above.
    CONCATENATION: output 0 is the inputs side by side along one axis.
    ELEMENTWISE: every output element is a function of the input elements at its place; inputs broadcast.
    POOLED_CONVOLUTION, SEPARABLE_BLOCK: the merged operators of those names.
    """

    CONVOLUTION = "convolution"
    MAX_POOL = "max pool"
    AVERAGE_POOL = "average pool"
    BATCH_NORM = "batch norm"
    CONCATENATION = "concatenation"
    ELEMENTWISE = "elementwise"
    POOLED_CONVOLUTION = "pooled convolution"
    SEPARABLE_BLOCK = "separable block"
