"""Gradient makers of the operators on rows and segments."""

from __future__ import annotations

from typing import Dict, List

from runtime_arm.registry.gradients import Backward, Forward, Gradient, SparseGradient, gradient, no_gradient


@gradient("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity")
def distance(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0, 1])


@gradient("RowMul")
def row_mul(forward: Forward) -> Backward:
    dx, dw, dy = forward.name(0), forward.name(1), forward.gradient()
    terms = f"{dw}before_aggregate"
    ops = [
        forward.make("RowMul", [dy, forward.input(1)], [dx], copy=False),
        forward.make("Mul", [dy, forward.input(0)], [terms], copy=False),
        forward.make("ReduceTailSum", [terms], [dw], copy=False),
    ]
    return forward.result(ops, {0: dx, 1: dw})


@gradient("DotProductWithPadding")
def dot_product_with_padding(forward: Forward) -> Backward:
    pad_value, replicate = forward.op.get_float("pad_value", 0.0), forward.op.get_int("replicate", 0)
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by("DotProductWithPaddingGradient", given, [0, 1], pad_value=pad_value, replicate=replicate)


@gradient("SquareRootDivide")
def square_root_divide(forward: Forward) -> Backward:
    return forward.by("SquareRootDivide", [forward.gradient(), forward.input(1)], [0])


@gradient("ElementwiseLinear")
def elementwise_linear(forward: Forward) -> Backward:
    given = [forward.gradient(), forward.input(0), forward.input(1)]
    return forward.by("ElementwiseLinearGradient", given, [0, 1, 2])


@gradient("LengthsSum", "LengthsMean")
def lengths_reduction(forward: Forward) -> Backward:
    type = forward.op.type.replace("Lengths", "LengthsIndicesInGradient") + "Gradient"
    return forward.by(type, [forward.gradient(), forward.input(1), forward.like(0)], [0])


@gradient("LengthsMax")
def lengths_max(forward: Forward) -> Backward:
    given = [forward.output(0), forward.gradient(), forward.input(1), forward.input(0)]
    return forward.by("LengthsMaxWithMainInputAndForwardOutputGradient", given, [0])


@gradient("LengthsWeightedSum")
def lengths_weighted_sum(forward: Forward) -> Backward:
    """With grad_on_weights the weights have a gradient as well."""
    given = [forward.input(1), forward.gradient(), forward.input(2)]
    if forward.op.get_bool("grad_on_weights"):
        data = [forward.input(0), forward.like(0)]
        return forward.by("LengthsIndicesInGradientWeightedSumGradient", [*given, *data], [0, 1])
    return forward.by("LengthsIndicesInGradientWeightedSumGradient", [*given, forward.like(0)], [0])


@gradient("SparseLengthsSum", "SparseLengthsMean")
def sparse_lengths_reduction(forward: Forward) -> Backward:
    """Sparse: for each index the row of its segment."""
    type = forward.op.type.replace("Lengths", "LengthsIndicesInGradient") + "Gradient"
    return _sparse(forward, type, [forward.gradient(), forward.input(2), forward.input(1)], forward.input(1))


@gradient("SparseLengthsWeightedSum")
def sparse_lengths_weighted_sum(forward: Forward) -> Backward:
    """Sparse, as above; with grad_on_weights the weights have a dense gradient."""
    given, indices = [forward.input(1), forward.gradient(), forward.input(3)], forward.input(2)
    type = "SparseLengthsIndicesInGradientWeightedSum"
    if not forward.op.get_bool("grad_on_weights"):
        return _sparse(forward, f"{type}Gradient", [*given, indices], indices)
    return _sparse(forward, f"{type}WithMainInputGradient", [*given, forward.input(0), indices], indices, 1)


def _sparse(forward: Forward, type: str, inputs: List[str], indices: str, *dense: int) -> Backward:
    """One operator that makes the values of a sparse gradient of input 0, and the gradients of the inputs ``dense``."""
    values = f"{forward.name(0)}_values"
    names = {index: forward.name(index) for index in dense}
    op = forward.make(type, inputs, [values, *names.values()])
    gradients: Dict[int, Gradient] = {0: SparseGradient(indices, values), **names}
    return forward.result([op], gradients)


@gradient("SortedSegmentSum", "SortedSegmentMean", "UnsortedSegmentSum", "UnsortedSegmentMean")
def segment_reduction(forward: Forward) -> Backward:
    return forward.by(f"{forward.op.type}Gradient", [forward.gradient(), forward.input(1)], [0])


@gradient("SortedSegmentWeightedSum", "UnsortedSegmentWeightedSum")
def weighted_segment_sum(forward: Forward) -> Backward:
    given = [forward.input(1), forward.gradient(), forward.input(2)]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("SparseSortedSegmentSum", "SparseSortedSegmentMean", "SparseUnsortedSegmentSum", "SparseUnsortedSegmentMean")
def sparse_segment_reduction(forward: Forward) -> Backward:
    type = f"{forward.op.type[len('Sparse') :]}Gradient"
    return _sparse(forward, type, [forward.gradient(), forward.input(2)], forward.input(1))


@gradient("SparseSortedSegmentWeightedSum", "SparseUnsortedSegmentWeightedSum")
def sparse_weighted_segment_sum(forward: Forward) -> Backward:
    type = f"{forward.op.type[len('Sparse') :]}Gradient"
    return _sparse(forward, type, [forward.input(1), forward.gradient(), forward.input(3)], forward.input(2))


@gradient("PackSegments")
def pack_segments(forward: Forward) -> Backward:
    return forward.by("UnpackSegments", [forward.input(0), forward.gradient()], [1])


@gradient("UnpackSegments")
def unpack_segments(forward: Forward) -> Backward:
    return forward.by("PackSegments", [forward.input(0), forward.gradient()], [1])


@gradient("SparseToDense")
def sparse_to_dense(forward: Forward) -> Backward:
    return forward.by("Gather", [forward.gradient(), forward.input(0)], [1])


@gradient("LengthsTile")
def lengths_tile(forward: Forward) -> Backward:
    return forward.by("LengthsSum", [forward.gradient(), forward.input(1)], [0])


@gradient("AddPadding")
def add_padding(forward: Forward) -> Backward:
    lengths = [forward.output(1)] if len(forward.op.output) > 1 else []
    return forward.by("RemovePadding", [forward.gradient(), *lengths], [0])


@gradient("RemovePadding")
def remove_padding(forward: Forward) -> Backward:
    lengths = [forward.output(1)] if len(forward.op.output) > 1 else []
    return forward.by("AddPadding", [forward.gradient(), *lengths], [0])


no_gradient(
    "LengthsToSegmentIds",
    "LengthsToRanges",
    "SegmentIdsToLengths",
    "SegmentIdsToRanges",
    "LengthsToWeights",
    "LengthsToOffsets",
)


@gradient(*(f"SortedSegmentRange{kind}" for kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")))
def segment_range(forward: Forward) -> Backward:
    given = [forward.input(0), forward.output(0), forward.gradient(), forward.input(1)]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("LengthsTopK")
def lengths_top_k(forward: Forward) -> Backward:
    given = [forward.input(1), forward.output(1), forward.gradient()]
    return forward.by("LengthsTopKGradient", given, [0])


@gradient("ReversePackedSegs")
def reverse_packed_segments(forward: Forward) -> Backward:
    return forward.by("ReversePackedSegs", [forward.gradient(), forward.input(1)], [0])


@gradient("BatchPermutation")
def batch_permutation(forward: Forward) -> Backward:
    return forward.by("BatchPermutationGradient", [forward.input(1), forward.gradient()], [0])


@gradient("BatchDenseToSparse")
def batch_dense_to_sparse(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient(), forward.like(2)]
    return forward.by("BatchSparseToDense", given, [2])


@gradient("BatchSparseToDense")
def batch_sparse_to_dense(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    return forward.by("BatchDenseToSparse", given, [2], copy=False)


@gradient("SparseToDenseMask")
def sparse_to_dense_mask(forward: Forward) -> Backward:
    """The default has no gradient, as in Caffe2."""
    lengths = [name for name in forward.given(3) if name]
    return forward.by("SparseToDenseMaskGradient", [forward.input(0), forward.gradient(), *lengths], [1])


@gradient("FlexibleTopK")
def flexible_top_k(forward: Forward) -> Backward:
    given = [forward.like(0), forward.input(1), forward.gradient(), forward.output(1)]
    return forward.by("FlexibleTopKGradient", given, [0])


@gradient("PackRNNSequence")
def pack_rnn_sequence(forward: Forward) -> Backward:
    return forward.by("UnpackRNNSequence", [forward.gradient(), forward.input(1)], [0])


@gradient("UnpackRNNSequence")
def unpack_rnn_sequence(forward: Forward) -> Backward:
    return forward.by("PackRNNSequence", [forward.gradient(), forward.input(1)], [0])
