"""Random cases of what moves elements about, of losses, rows, segments and recurrent units."""

from __future__ import annotations

from typing import List

import numpy as np

from tests.optimize.gradients.cases import of
from tests.optimize.gradients.checks import Case, Draw


@of("Reshape", "Flatten", "FlattenToVec", "Squeeze", "ExpandDims", "PrependDim", "Transpose", "NHWC2NCHW", "NCHW2NHWC")
def shapes(draw: Draw) -> List[Case]:
    n, c, h, w = draw.sizes(4, 2, 4)
    x = {"X": draw.normal(n, c, h, w)}
    return [
        Case(f"Reshape(X) -> Y, old  shape=[{n * c}, -1]", x),
        Case("Flatten(X) -> Y  axis=2", x),
        Case("FlattenToVec(X) -> Y", x),
        Case("Squeeze(X) -> Y  dims=[1]", {"X": draw.normal(n, 1, h)}),
        Case("ExpandDims(X) -> Y  dims=[1]", x),
        Case("PrependDim(X) -> Y  dim_size=2", {"X": draw.normal(2 * n, c)}),
        Case("Transpose(X) -> Y  axes=[2, 0, 3, 1]", x),
        Case("Transpose(X) -> Y", x),
        Case("NHWC2NCHW(X) -> Y", x),
        Case("NCHW2NHWC(X) -> Y", x),
    ]


@of(
    "Alias",
    "EnsureDense",
    "Copy",
    "CopyFromCPUInput",
    "NegateGradient",
    "StopGradient",
    "EnsureCPUOutput",
    "Cast",
    "Dropout",
    "FloatToHalf",
    "NanCheck",
    "SequenceMask",
)
def identities(draw: Draw) -> List[Case]:
    x = {"X": draw.normal(*draw.sizes(2))}
    names = ("Alias", "EnsureDense", "Copy", "CopyFromCPUInput", "NanCheck")
    masked = {"X": draw.normal(2, 3), "n": np.array([1, 2], np.int32)}
    return [
        Case('SequenceMask(X, n) -> Y  mode="sequence"  fill_val=3.0', masked),
        Case('SequenceMask(X) -> Y  mode="lower"  fill_val=3.0', {"X": masked["X"]}),
        *(Case(f"{type}(X) -> h\nSin(h) -> Y", x) for type in names),
        *(
            Case(f"Sin(X) -> h\n{stop}(h) -> s\nMul(s, X) -> h2\nSub(h2, h2) -> z\nAdd(X, z) -> Y", x)
            for stop in ("StopGradient", "EnsureCPUOutput")
        ),
        Case("Dropout(X) -> Y, mask  is_test=1  ratio=0.4", x),
    ]


@of("Concat", "DepthConcat", "Split", "DepthSplit", "Slice", "Tile")
def parts(draw: Draw) -> List[Case]:
    n, c, d, h = draw.sizes(4, 2, 4)
    a, b = {"A": draw.normal(n, c, h)}, {"B": draw.normal(n, d, h)}
    return [
        Case("Concat(A, B) -> Y, i  axis=1", {**a, **b}),
        Case("Concat(A, A) -> Y, i  axis=0  add_axis=1", a),
        Case("DepthConcat(A, B) -> Y, i", {**a, **b}),
        Case("Split(A) -> Y, Z  axis=0", {"A": draw.normal(2 * n, c)}, ys=["Y", "Z"]),
        Case(f"Split(A) -> U, Y, V  axis=1  split=[{c}, {d}, {h}]", {"A": draw.normal(n, c + d + h)}),
        Case("DepthSplit(A, s) -> Y, Z", {"A": draw.normal(n, c + d), "s": np.array([c, d], np.int32)}, ys=["Y", "Z"]),
        Case("Slice(A) -> Y  starts=[0, 1, 0]  ends=[-1, 2, -1]", a),
        Case("Tile(A) -> Y  tiles=3  axis=1", a),
    ]


@of(
    "ChannelShuffle", "PadImage", "BatchToSpace", "SpaceToBatch", "ResizeNearest", "ResizeNearest3D", "UpsampleBilinear"
)
def images(draw: Draw) -> List[Case]:
    n, c, h, w = *draw.sizes(2, 1, 3), *draw.sizes(2, 2, 5)
    x, last = {"X": draw.normal(n, 2 * c, h, w)}, {"X": draw.normal(n, h, w, c)}
    pads = "pad_t=1  pad_l=0  pad_b=1  pad_r=1  mode="
    cases = [Case(f'PadImage(X) -> Y  {pads}"{mode}"', x) for mode in ("constant", "reflect", "edge")]
    cases += [Case(f'PadImage(X) -> Y  pad=1  mode="{mode}"  order="NHWC"', last) for mode in ("constant", "reflect")]
    scales = ("height_scale=2.0  width_scale=1.5", "height_scale=0.5  width_scale=3.0")
    cases += [Case(f"{t}(X) -> Y  {s}", x) for t in ("ResizeNearest", "UpsampleBilinear") for s in scales]
    return [
        *cases,
        Case("PadImage(X) -> Y  pad_t=-1  pad_l=2  pad_b=0  pad_r=0", x),
        Case("ChannelShuffle(X) -> Y  group=2", x),
        Case('ChannelShuffle(X) -> Y  group=2  order="NHWC"', {"X": draw.normal(n, h, w, 2 * c)}),
        Case("SpaceToBatch(X) -> Y  block_size=2", {"X": draw.normal(n, c, 2 * h, 2 * w)}),
        Case("BatchToSpace(X) -> Y  block_size=2  pad=1", {"X": draw.normal(4 * n, c, h, w)}),
        Case('ResizeNearest(X) -> Y  height_scale=2.0  width_scale=2.0  order="NHWC"', last),
        Case(
            "ResizeNearest3D(X) -> Y  temporal_scale=2.0  height_scale=2.0  width_scale=2.0",
            {"X": draw.normal(n, c, 2, h, w)},
        ),
    ]


@of("SoftmaxWithLoss", "SpatialSoftmaxWithLoss", "LabelCrossEntropy", "CrossEntropy")
def classification_losses(draw: Draw) -> List[Case]:
    n, d = draw.sizes(2, 2, 5)
    x, labels, weights = draw.normal(n, d), draw.integers(d, n), draw.positive(n)
    p = draw.uniform(0.1, 0.9, n, d)
    given = p / p.sum(axis=1, keepdims=True)
    pixels = {"X": draw.normal(n, d, 2, 3), "l": draw.integers(d, n, 2, 3) - draw.integers(2, n, 2, 3)}
    loss = "SoftmaxWithLoss"
    return [
        Case(f"{loss}(X, l) -> p, Y  scale=2.0", {"X": x, "l": labels}),
        Case(f"{loss}(X, l, w) -> p, Y", {"X": x, "l": labels, "w": weights}, to=["X"]),
        Case(f"{loss}(X, l, w) -> p, Y  average_by_batch_size=1", {"X": x, "l": labels, "w": weights}, to=["X"]),
        Case(f"{loss}(X, l) -> p, Y  label_prob=1", {"X": x, "l": given}, to=["X"]),
        Case(f"Spatial{loss}(X, l) -> p, Y  scale=0.5", {**pixels, "l": np.maximum(pixels["l"], -1).astype(np.int32)}),
        Case("LabelCrossEntropy(X, l) -> Y", {"X": p, "l": labels}),
        Case("CrossEntropy(X, l) -> Y", {"X": p, "l": given}, to=["X"]),
    ]


@of(
    "SigmoidCrossEntropyWithLogits",
    "WeightedSigmoidCrossEntropyWithLogits",
    "MakeTwoClass",
    "PairWiseLoss",
    "MarginRankingCriterion",
    "CosineEmbeddingCriterion",
    "BernoulliJSD",
)
def criteria(draw: Draw) -> List[Case]:
    n, d = draw.sizes(2, 2, 5)
    x, t, w = draw.normal(n, d), draw.uniform(0, 1, n, d), draw.positive(n, d)
    names = ("", "  log_D_trick=1", "  unjoined_lr_loss=1")
    signs = (2 * draw.integers(2, n) - 1).astype(np.int32)
    return [
        *(Case(f"SigmoidCrossEntropyWithLogits(X, t) -> Y{a}", {"X": x, "t": t}, to=["X"]) for a in names),
        Case("WeightedSigmoidCrossEntropyWithLogits(X, t, w) -> Y", {"X": x, "t": t, "w": w}, to=["X"]),
        Case("MakeTwoClass(X) -> Y", {"X": t}),
        Case("PairWiseLoss(X, l) -> Y", {"X": draw.normal(n, 1), "l": draw.distinct(n, 1)}, to=["X"]),
        Case(
            "PairWiseLoss(X, l, s) -> Y",
            {"X": draw.normal(n + 2), "l": draw.distinct(n + 2), "s": np.array([n, 2], np.int32)},
            to=["X"],
        ),
        Case(
            "MarginRankingCriterion(A, B, y) -> Y  margin=0.5", {"A": draw.normal(n), "B": draw.normal(n), "y": signs}
        ),
        Case("CosineEmbeddingCriterion(S, y) -> Y  margin=0.1", {"S": draw.uniform(-1, 1, n), "y": signs}),
        Case("BernoulliJSD(X, T) -> Y", {"X": draw.uniform(0.1, 0.9, n), "T": draw.uniform(0.1, 0.9, n)}, to=["X"]),
    ]


@of(
    "SquaredL2Distance",
    "L1Distance",
    "DotProduct",
    "CosineSimilarity",
    "RowMul",
    "DotProductWithPadding",
    "SquareRootDivide",
    "ElementwiseLinear",
)
def rows(draw: Draw) -> List[Case]:
    n, d, k = draw.sizes(3, 2, 4)
    two = {"A": draw.normal(n, d), "B": draw.normal(n, d)}
    padded = {"A": draw.normal(n, d), "B": draw.normal(n, d * k + 1)}
    types = ("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity")
    return [
        *(Case(f"{type}(A, B) -> Y", two) for type in types),
        Case("RowMul(A, w) -> Y", {"A": draw.normal(n, d), "w": draw.normal(n)}),
        Case("DotProductWithPadding(A, B) -> Y  pad_value=0.5", padded),
        Case("DotProductWithPadding(B, A) -> Y  replicate=1", padded),
        Case("SquareRootDivide(A, s) -> Y", {"A": draw.normal(n, d), "s": draw.positive(n)}, to=["A"]),
        Case("ElementwiseLinear(A, w, b) -> Y", {"A": draw.normal(n, d), "w": draw.normal(d), "b": draw.normal(d)}),
    ]


@of("Gather", "BatchGather", "SparseToDense", "TopK", "RoIAlign")
def picks(draw: Draw) -> List[Case]:
    n, d, k = draw.sizes(3, 2, 5)
    data, indices = draw.normal(n, d, 2), draw.integers(n, k)
    boxes = np.array([[0, 0.3, 0.6, 4.2, 3.1], [0, 1.2, 0.1, 3.3, 4.4]])
    return [
        Case("Gather(D, i) -> Y", {"D": data, "i": indices}),
        Case("Gather(D, i) -> Y  dense_gradient=1", {"D": data, "i": indices}),
        Case("Gather(D, i) -> Y  axis=1", {"D": data, "i": draw.integers(d, k)}),
        Case(
            "Gather(D, i) -> a\nGather(D, j) -> b\nMul(a, b) -> Y", {"D": data, "i": indices, "j": indices[::-1].copy()}
        ),
        Case("BatchGather(D, i) -> Y", {"D": data, "i": draw.integers(d, 2, k)}),
        Case("SparseToDense(i, V, L) -> Y", {"i": indices, "V": draw.normal(k, d), "L": data}, to=["V"]),
        Case("TopK(X) -> Y, I  k=2", {"X": draw.distinct(n, d)}),
        Case("TopK(X) -> Y, I  k=2  axis=0", {"X": draw.distinct(n, d)}),
        Case(
            "RoIAlign(X, R) -> Y  pooled_h=2  pooled_w=3  sampling_ratio=2",
            {"X": draw.normal(1, 2, 6, 6), "R": boxes},
            to=["X"],
        ),
    ]


SEGMENTS = (
    "LengthsSum LengthsMean LengthsMax LengthsWeightedSum SparseLengthsSum SparseLengthsMean SparseLengthsWeightedSum "
    "SortedSegmentSum SortedSegmentMean SortedSegmentWeightedSum UnsortedSegmentSum UnsortedSegmentMean "
    "UnsortedSegmentWeightedSum SparseSortedSegmentSum SparseSortedSegmentMean SparseSortedSegmentWeightedSum "
    "SparseUnsortedSegmentSum SparseUnsortedSegmentMean SparseUnsortedSegmentWeightedSum PackSegments UnpackSegments "
    "LengthsTile AddPadding RemovePadding"
)


@of(*SEGMENTS.split())
def segments(draw: Draw) -> List[Case]:
    lengths = np.array([2, 0, 3, 1], np.int32)
    ids = np.repeat(np.arange(3), [2, 3, 1]).astype(np.int32)
    mixed = np.array([2, 0, 1, 0, 2, 1], np.int32)
    d, n = draw.size(1, 3), 6
    data, table, weights = draw.distinct(n, d), draw.normal(4, d), draw.positive(n)
    indices = draw.integers(4, n)
    x, sizes, w = {"D": data}, {"l": lengths}, {"w": weights}
    sparse = {"D": table, "i": indices}
    cases = [Case(f"Lengths{kind}(D, l) -> Y", {**x, **sizes}) for kind in ("Sum", "Mean", "Max")]
    cases += [Case(f"SparseLengths{kind}(D, i, l) -> Y", {**sparse, **sizes}) for kind in ("Sum", "Mean")]
    for order, own in (("Sorted", ids), ("Unsorted", mixed)):
        for kind in ("Sum", "Mean"):
            cases.append(Case(f"{order}Segment{kind}(D, s) -> Y", {**x, "s": own}))
            cases.append(Case(f"Sparse{order}Segment{kind}(D, i, s) -> Y", {**sparse, "s": own}))
        cases.append(Case(f"{order}SegmentWeightedSum(D, w, s) -> Y", {**x, **w, "s": own}, to=["D"]))
        weighted = {**sparse, **w, "s": own}
        cases.append(Case(f"Sparse{order}SegmentWeightedSum(D, w, i, s) -> Y", weighted, to=["D"]))
    return [
        *cases,
        Case("LengthsWeightedSum(D, w, l) -> Y", {**x, **w, **sizes}, to=["D"]),
        Case("LengthsWeightedSum(D, w, l) -> Y  grad_on_weights=1", {**x, **w, **sizes}),
        Case("SparseLengthsWeightedSum(D, w, i, l) -> Y", {**sparse, **w, **sizes}, to=["D"]),
        Case("SparseLengthsWeightedSum(D, w, i, l) -> Y  grad_on_weights=1", {**sparse, **w, **sizes}),
        Case("PackSegments(l, D) -> Y", {**x, **sizes}),
        Case("UnpackSegments(l, D) -> Y", {"D": draw.normal(4, 3, d), **sizes}),
        Case("LengthsTile(D, l) -> Y", {"D": table, **sizes}),
        Case("AddPadding(D, l) -> Y, m  padding_width=1", {**x, **sizes}),
        Case("RemovePadding(D, l) -> Y, m  padding_width=1", {"D": draw.normal(7, d), "l": np.array([3, 4], np.int32)}),
    ]


@of("LSTMUnit", "GRUUnit")
def units(draw: Draw) -> List[Case]:
    n, d = draw.sizes(2, 1, 3)
    state = {"h": draw.normal(1, n, d), "c": draw.normal(1, n, d)}
    rest = {"l": draw.integers(3, n) + 1, "t": np.array([1], np.int32)}
    cases = []
    for drop in (0, 1):
        lstm = f"LSTMUnit(h, c, g, l, t) -> H, C  forget_bias=0.5  drop_states={drop}"
        feeds = {**state, "g": draw.normal(1, n, 4 * d), **rest}
        cases.append(Case(lstm, feeds, ys=["H", "C"]))
        cases.append(Case(lstm, feeds, ys=["H"]))
        feeds = {"h": state["h"], "g": draw.normal(1, n, 3 * d), **rest}
        cases.append(Case(f"GRUUnit(h, g, l, t) -> Y  drop_states={drop}", feeds))
    return cases


__all__ = ["identities", "units"]


@of("Expand", "WeightedSum", "SplitByLengths", "CopyCPUToCPU", "HalfToFloat", "BatchPermutation")
def further(draw: Draw) -> List[Case]:
    n, d, k = draw.sizes(3, 2, 4)
    x = {"X": draw.normal(n, d)}
    pairs = {"A": draw.normal(n, d), "v": draw.normal(1), "B": draw.normal(n, d), "w": draw.normal(1)}
    return [
        Case("Expand(X, s) -> Y", {"X": draw.normal(n, 1), "s": np.array([k, n, d])}),
        Case("WeightedSum(A, v, B, w) -> Y", pairs, to=["A", "B"]),
        Case("WeightedSum(A, v, B, w) -> Y  grad_on_w=1", pairs),
        Case("SplitByLengths(X, l) -> Y, Z  axis=1", {"X": draw.normal(n, d + k), "l": np.array([d, k], np.int32)}),
        Case("CopyCPUToCPU(X) -> h\nSin(h) -> Y", x),
        Case("BatchPermutation(X, i) -> Y", {**x, "i": np.arange(n)[::-1].astype(np.int32)}),
    ]


@of(*(f"SortedSegmentRange{kind}" for kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")), "ReversePackedSegs")
def ranges(draw: Draw) -> List[Case]:
    ids = np.repeat(np.arange(3), [2, 3, 1]).astype(np.int32)
    feeds = {"X": draw.distinct(6, draw.size(1, 3)), "s": ids}
    kinds = ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
    cases = [Case(f"SortedSegmentRange{kind}(X, s) -> Y", feeds) for kind in kinds]
    packed = {"X": draw.normal(4, 2, 3), "l": np.array([3, 2], np.int32)}
    return [*cases, Case("ReversePackedSegs(X, l) -> Y", packed)]


@of("BatchDenseToSparse", "BatchSparseToDense", "SparseToDenseMask", "BooleanMask", "FlexibleTopK", "LengthsTopK")
def sparse_rows(draw: Draw) -> List[Case]:
    d = draw.size(1, 3)
    ragged = {"l": np.array([2, 0, 1], np.int32), "i": np.array([3, 0, 2], np.int64)}
    # index 7 is in no mask, and the second 5 overwrites the first
    masked = {"i": np.array([5, 7, 5, 2], np.int64), "V": draw.normal(4, d), "z": draw.normal(d)}
    return [
        Case("BatchDenseToSparse(l, i, D) -> Y", {**ragged, "D": draw.normal(3, 4)}),
        Case("BatchSparseToDense(l, i, V) -> Y  dense_last_dim=4", {**ragged, "V": draw.normal(3)}),
        Case("SparseToDenseMask(i, V, z) -> Y  mask=[2, 5, 9]", masked, to=["V"]),
        Case(
            "SparseToDenseMask(i, V, z, l) -> Y  mask=[2, 5, 9]",
            {**masked, "l": np.array([1, 0, 3], np.int32)},
            to=["V"],
        ),
        Case("BooleanMask(X, m) -> Y", {"X": draw.normal(3, d), "m": np.array([True, False, True])}),
        Case("LengthsTopK(X, l) -> Y, I  k=2", {"X": draw.distinct(4), "l": np.array([3, 0, 1], np.int32)}),
        Case("FlexibleTopK(X, k) -> Y, I", {"X": draw.distinct(2, 4), "k": np.array([3, 1], np.int64)}),
    ]


@of("PackRNNSequence", "UnpackRNNSequence", "IntegralImage")
def padded(draw: Draw) -> List[Case]:
    d, lengths = draw.size(1, 3), np.array([2, 0, 3], np.int32)
    return [
        Case("PackRNNSequence(X, l) -> Y", {"X": draw.normal(5, d), "l": lengths}),
        Case("UnpackRNNSequence(X, l) -> Y", {"X": draw.normal(3, 3, d), "l": lengths}),
        Case("IntegralImage(X) -> Y", {"X": draw.normal(*draw.sizes(4, 1, 4))}),
    ]


@of("LC", "LC1D", "LC2D", "LC3D")
def locally_connected(draw: Draw) -> List[Case]:
    n, m = draw.sizes(2, 1, 3)
    image, strided = draw.normal(n, 4, 5, 4), "kernels=[3, 2]  strides=[2, 1]  pads=[1, 0, 1, 0]"
    grouped = {"X": image, "W": draw.normal(3, 3, 2 * m, 2, 3, 2), "b": draw.normal(3, 3, 2 * m)}
    last = {"X": draw.normal(n, 5, 4, 2), "W": draw.normal(3, 3, m, 3, 2, 2), "b": draw.normal(3, 3, m)}
    line = {"X": draw.normal(n, 2, 6), "W": draw.normal(4, m, 2, 3)}
    return [
        Case(f"LC(X, W, b) -> Y  group=2  {strided}", grouped),
        Case(f'LC2D(X, W, b) -> Y  {strided}  order="NHWC"', last),
        Case("LC1D(X, W) -> Y  kernels=[3]", line),
        Case(
            "LC3D(X, W) -> Y  kernels=[1, 2, 1]",
            {"X": draw.normal(n, 1, 2, 2, 2), "W": draw.normal(2, 1, 2, m, 1, 1, 2, 1)},
        ),
    ]
