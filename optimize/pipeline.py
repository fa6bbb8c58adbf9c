"""The passes in the order in which they run, tier by tier. They run again until none of them fires.

Where a new pass belongs:

    UNTANGLING  it simplifies branches, loops, sequences and indexed writes. These passes run first, because shapes
                after such operators are known only then. Later steps are compared with the net that they leave.
    INTEGERS    it lets operators compute on quantised integers. These passes run by themselves before those below,
                because the integers may differ by a step. Later steps are compared with the net that they leave.
    HALVES      it lets operators on halves compute in float32. As with INTEGERS, later steps are compared with the net
                that it leaves.
    COMPOSING   it replaces operators that compute a formula by the operator for it, which need not be Caffe2's
    PORTABLE    it puts only Caffe2's operators into a net of Caffe2's operators: it also runs for Caffe2-compatible
                pairs
    FUSING      it makes operators of armnet's own, the domain "armnet", or rearranges these; the tiers above have
                folded and fused all they can by then
    FINISHING   it tidies up after the others; it too must keep to Caffe2's operators

Within a tier a pass comes before those that can make more of its result. MERGING, SHIFTING and REORDERING are passes of
their own because options of ``optimize`` turn them on and off.
"""

from __future__ import annotations

from optimize.passes.composing import (
    compose_affine,
    compose_bags,
    compose_fc,
    compose_gelu,
    compose_hard_swish,
    compose_reduce_slices,
    compose_swish,
    compose_transposes,
    compose_update_slice,
)
from optimize.passes.folding import (
    choose_branches,
    deduplicate_weights,
    flatten_fc,
    fold_batch_norm,
    fold_constants,
    fold_hard_sigmoid,
    fold_padding,
    fold_sizes,
    join_biases,
    shift_biases,
    unroll_loops,
)
from optimize.passes.fusing import fuse_activation, fuse_activation_into_pool, fuse_add, fuse_attention, fuse_relu
from optimize.passes.integers import (
    combine_integers,
    enlarge_integers,
    look_up_integers,
    move_integers,
    multiply_integers,
)
from optimize.passes.moving import (
    hoist_activation_over_concat,
    hoist_loop_invariants,
    merge_parallel_convolutions,
    reorder_operators,
    split_convolution_over_concat,
    widen_halves,
)
from optimize.passes.removing import (
    eliminate_common_subexpressions,
    eliminate_dead_code,
    remove_no_ops,
    remove_sequences,
)

UNTANGLING = (
    choose_branches.PASS,
    compose_reduce_slices.PASS,
    compose_bags.PASS,
    unroll_loops.PASS,
    remove_sequences.PASS,
    compose_update_slice.PASS,
    remove_no_ops.PASS,
    fold_sizes.PASS,
    fold_constants.PASS,
    eliminate_dead_code.PASS,
)
INTEGERS = (
    multiply_integers.PASS,
    move_integers.PASS,
    combine_integers.PASS,
    enlarge_integers.PASS,
    look_up_integers.PASS,
    eliminate_dead_code.PASS,
)
HALVES = widen_halves.PASS
COMPOSING = (
    compose_hard_swish.PASS,
    compose_swish.PASS,
    compose_gelu.PASS,
)
PORTABLE = (
    remove_no_ops.PASS,
    hoist_loop_invariants.PASS,
    fold_constants.PASS,
    eliminate_common_subexpressions.PASS,
    compose_transposes.PASS,
    fold_padding.PASS,
    compose_fc.PASS,
    flatten_fc.PASS,
    fold_batch_norm.PASS,
    compose_affine.PASS,
    fold_hard_sigmoid.PASS,
    fuse_relu.PASS,
)
FUSING = (
    fuse_attention.PASS,
    fuse_add.PASS,
    fuse_activation.PASS,
    join_biases.PASS,
    split_convolution_over_concat.PASS,
    fuse_activation_into_pool.PASS,
)
SHIFTING = shift_biases.PASS
MERGING = merge_parallel_convolutions.PASS
REORDERING = reorder_operators.PASS
TIDYING = eliminate_dead_code.PASS
FINISHING = (
    hoist_activation_over_concat.PASS,
    deduplicate_weights.PASS,
    eliminate_dead_code.PASS,
    REORDERING,
)

SIMPLIFYING = (*COMPOSING, *PORTABLE)  # for a net that is written in another format
CAFFE2_COMPATIBLE = (*PORTABLE, MERGING, *FINISHING)
ALL = (*COMPOSING, *PORTABLE, *FUSING, MERGING, SHIFTING, *FINISHING)
