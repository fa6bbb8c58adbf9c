"""The passes in the order in which they run; all of them again and again until none finds anything to do."""

from __future__ import annotations

from optimize.passes.composing import compose_affine, compose_fc, compose_hard_swish, compose_swish, compose_transposes
from optimize.passes.folding import (
    deduplicate_weights,
    flatten_fc,
    fold_batch_norm,
    fold_constants,
    fold_padding,
    join_biases,
    shift_biases,
)
from optimize.passes.fusing import fuse_activation, fuse_activation_into_pool, fuse_add, fuse_relu
from optimize.passes.moving import (
    hoist_activation_over_concat,
    merge_parallel_convolutions,
    reorder_operators,
    split_convolution_over_concat,
)
from optimize.passes.removing import eliminate_common_subexpressions, eliminate_dead_code, remove_no_ops

COMPOSING = (
    compose_hard_swish.PASS,
    compose_swish.PASS,
)
# Only operators that Caffe2 has come out of these, if only such went in.
PORTABLE = (
    remove_no_ops.PASS,
    fold_constants.PASS,
    eliminate_common_subexpressions.PASS,
    compose_transposes.PASS,
    fold_padding.PASS,
    compose_fc.PASS,
    flatten_fc.PASS,
    fold_batch_norm.PASS,
    compose_affine.PASS,
    fuse_relu.PASS,
)
FUSING = (
    fuse_add.PASS,
    fuse_activation.PASS,
    join_biases.PASS,
    split_convolution_over_concat.PASS,
    fuse_activation_into_pool.PASS,
)
SHIFTING = shift_biases.PASS
MERGING = merge_parallel_convolutions.PASS
REORDERING = reorder_operators.PASS
FINISHING = (
    hoist_activation_over_concat.PASS,
    deduplicate_weights.PASS,
    eliminate_dead_code.PASS,
    REORDERING,
)

CAFFE2_COMPATIBLE = (*PORTABLE, MERGING, *FINISHING)
ALL = (*COMPOSING, *PORTABLE, *FUSING, MERGING, SHIFTING, *FINISHING)
