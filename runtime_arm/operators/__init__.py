"""The operators, one file a family.

A new family is a new file and a line in ``FAMILIES``: the module, and the types that it declares or adds engines to.
tests/runtime_arm/test_families.py says what is missing there.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Dict, List

# By domain. Families are imported when a net first names one of their types: compiling all of them costs a small device
# seconds, for a bundle has no room for compiled code. engines/ adds fast kernels to what is declared here.
FAMILIES: Dict[str, Dict[str, str]] = {
    "": {
        "engines.col2im": "ConvTranspose",
        "engines.depthwise": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.fft": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.im2col": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.int8_caffe2": "Int8Conv Int8ConvRelu Int8FC Int8FCRelu",
        "engines.pointwise": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.pooling": """
            AveragePool AveragePool1D AveragePool2D AveragePool3D MaxPool MaxPool1D MaxPool2D MaxPool3D""",
        "engines.winograd": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "operators.activation": """
            Clip Elu Gelu HardSigmoid LeakyRelu Logit Mish Relu ReluN Selu Sigmoid Softplus Softsign Swish
            ThresholdedRelu""",
        "operators.argtop": "ArgMax ArgMin TopK",
        "operators.casting": "Cast FloatToHalf HalfToFloat",
        "operators.concat": "Concat DepthConcat",
        "operators.control": "If ONNXWhile While",
        "operators.conv": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "operators.conv_transpose": "ConvTranspose",
        "operators.criteria": """
            Accuracy BernoulliJSD CosineEmbeddingCriterion MakeTwoClass MarginRankingCriterion MultiClassAccuracy
            Perplexity SpatialSoftmaxWithLoss Summarize WeightedSigmoidCrossEntropyWithLogits""",
        "operators.decoding": "CTCBeamSearchDecoder CTCGreedyDecoder SwapBestPath ViterbiPath",
        "operators.detection": "BBoxTransform BoxWithNMSLimit HeatmapMaxKeypoint RMACRegions",
        "operators.detectron": "GroupSpatialSoftmax PSRoIPool SpatialNarrowAs",
        "operators.elementwise": "Add And BitwiseAnd BitwiseOr BitwiseXor Div EQ GE GT LE LT Mod Mul NE Or Sub Xor",
        "operators.feature_transforms": """
            BatchBoxCox BatchBucketize BisectPercentile IndexHash NGramFromCategorical Percentile
            PiecewiseLinearTransform QuantDecode Quantile SelfBinningHistogram SinusoidPositionEncoding""",
        "operators.fills": """
            ConstantFill DiagonalFill Float16ConstantFill GivenTensorBoolFill GivenTensorByteStringToUInt8Fill
            GivenTensorDoubleFill GivenTensorFill GivenTensorInt16Fill GivenTensorInt64Fill GivenTensorIntFill
            GivenTensorStringFill Int8GivenIntTensorFill Int8GivenTensorFill LengthsRangeFill RangeFill""",
        "operators.gather": "BatchGather Gather",
        "operators.glu": "Glu",
        "operators.group_norm": "GroupNorm",
        "operators.histogram": "Histogram IntegralImage",
        "operators.identity": """
            AliasWithName Assert Copy CopyCPUToCPU CopyFromCPUInput CopyOnDeviceLike Dropout EnforceFinite NanCheck
            NegateGradient Print""",
        "operators.im2col": "Col2Im Im2Col",
        "operators.int8": "Int8Dequantize Int8GenQuantParams Int8Quantize",
        "operators.int8_activation": "Int8LeakyRelu Int8Relu Int8Sigmoid Int8Softmax",
        "operators.int8_conv": "Int8Conv Int8ConvRelu Int8ConvTranspose Int8FC Int8FCRelu",
        "operators.int8_elementwise": "Int8Add Int8AddRelu Int8Sum Int8SumRelu",
        "operators.int8_layout": """
            Int8ChannelShuffle Int8Concat Int8Flatten Int8Reshape Int8ResizeNearest Int8Slice Int8Transpose""",
        "operators.int8_pool": "Int8AveragePool Int8AveragePoolRelu Int8MaxPool Int8MaxPoolRelu",
        "operators.int8_roi_align": "Int8RoIAlign",
        "operators.layer_norm": "LayerNorm RMSNorm",
        "operators.lengths": """
            LengthsGather LengthsPad LengthsSplit LengthsToOffsets LengthsToWeights LengthsTopK PackRNNSequence
            ReversePackedSegs SegmentIdsToLengthWeights UnpackRNNSequence VariableLengthSequencePadding""",
        "operators.linear": "BatchMatMul FC FCTransposed MatMul",
        "operators.locally_connected": "LC LC1D LC2D LC3D",
        "operators.losses": "CrossEntropy LabelCrossEntropy SigmoidCrossEntropyWithLogits SoftmaxWithLoss",
        "operators.lrn": "LRN LpNorm Normalize NormalizeL1",
        "operators.norm": "AffineChannel BatchMoments ChannelStats InstanceNorm NormalizePlanarYUV SpatialBN",
        "operators.onehot": "BatchBucketOneHot BatchOneHot Bucketize OneHot SegmentOneHot",
        "operators.pad": "PadImage",
        "operators.pool": """
            AveragePool AveragePool1D AveragePool2D AveragePool3D LpPool MaxPool MaxPool1D MaxPool2D MaxPool3D""",
        "operators.power": "Pow",
        "operators.prelu": "PRelu",
        "operators.proposals": """
            CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals GenerateProposals
            GenerateProposalsCPP""",
        "operators.ragged": """
            BooleanMaskLengths DenseVectorToIdList FlexibleTopK GatherByKey GatherRangesToDense LengthsPartition
            MergeIdLists Partition""",
        "operators.random_fills": """
            Float16UniformFill GaussianFill MSRAFill UniformFill UniformIntFill UniqueUniformFill XavierFill""",
        "operators.recurrent": "GRUUnit LSTMUnit",
        "operators.recurrent_network": "InferenceLSTM RecurrentNetwork",
        "operators.reduce": """
            AveragedLoss ColwiseMax Moments ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax ReduceFrontMean
            ReduceFrontSum ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum ReduceTailSum RowwiseMax
            SumElements SumElementsInt SumReduceLike SumSqrElements""",
        "operators.reshape": """
            Alias EnsureCPUOutput EnsureDense ExpandDims Flatten FlattenToVec MergeDim PrependDim Reshape ResizeLike
            Squeeze StopGradient""",
        "operators.resize": "ResizeNearest ResizeNearest3D UpsampleBilinear UpsampleNearest",
        "operators.roi_align": "RoIAlign RoIAlignRotated",
        "operators.roi_pool": "RoIPool",
        "operators.rowwise": """
            CosineSimilarity DotProduct DotProductWithPadding ElementwiseLinear L1Distance RowMul SquareRootDivide
            SquaredL2Distance""",
        "operators.rowwise_quantized": """
            FloatToFused2BitFakeRowwiseQuantized FloatToFused2BitRowwiseQuantized
            FloatToFused4BitFakeRowwiseQuantized FloatToFused4BitRowwiseQuantized FloatToFused8BitRowwiseQuantized
            FloatToFused8BitRowwiseQuantizedHalfScaleBias Fused2BitRowwiseQuantizedToFloat
            Fused2BitRowwiseQuantizedToHalf Fused4BitRowwiseQuantizedToFloat Fused4BitRowwiseQuantizedToHalf
            Fused8BitRowwiseQuantizedHalfScaleBiasToFloat Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat
            Fused8BitRowwiseQuantizedToFloat Fused8BitRowwiseQuantizedToHalfFloat GatherFused8BitRowwise
            HalfFloatToFused8BitRowwiseQuantized HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias
            HalfToFused2BitFakeRowwiseQuantized HalfToFused2BitRowwiseQuantized HalfToFused4BitFakeRowwiseQuantized
            HalfToFused4BitRowwiseQuantized SparseLengthsMeanFused2BitRowwise SparseLengthsMeanFused4BitRowwise
            SparseLengthsMeanFused8BitRowwise SparseLengthsSumFused2BitRowwise SparseLengthsSumFused4BitRowwise
            SparseLengthsSumFused8BitRowwise SparseLengthsWeightedSumFused2BitRowwise
            SparseLengthsWeightedSumFused4BitRowwise SparseLengthsWeightedSumFused8BitRowwise""",
        "operators.rowwise_scaled": """
            ByteWeightDequant FloatToRowwiseQuantized8Bits Rowwise8BitQuantizedToFloat SparseLengthsMean8BitsRowwise
            SparseLengthsSum8BitsRowwise SparseLengthsWeightedMean8BitsRowwise SparseLengthsWeightedSum8BitsRowwise""",
        "operators.scatter": "Scatter ScatterAssign",
        "operators.segment_ids": """
            ReduceFrontWeightedSum SortedSegmentMean SortedSegmentRangeLogMeanExp SortedSegmentRangeLogSumExp
            SortedSegmentRangeMax SortedSegmentRangeMean SortedSegmentRangeSum SortedSegmentSum
            SortedSegmentWeightedSum SparseSortedSegmentMean SparseSortedSegmentSum SparseSortedSegmentWeightedSum
            SparseUnsortedSegmentMean SparseUnsortedSegmentSum SparseUnsortedSegmentWeightedSum UnsortedSegmentMean
            UnsortedSegmentSum UnsortedSegmentWeightedSum""",
        "operators.segment_reductions": """
            LengthsMax LengthsMean LengthsSum LengthsWeightedSum SparseLengthsMax SparseLengthsMean
            SparseLengthsPositionalWeightedSum SparseLengthsSum SparseLengthsWeightedSum""",
        "operators.segments": """
            AddPadding GatherPadding LengthsTile LengthsToRanges LengthsToSegmentIds PackSegments RemovePadding
            SegmentIdsToLengths SegmentIdsToRanges UnpackSegments""",
        "operators.select": "BooleanMask Find FindDuplicateElements StumpFuncIndex Unique",
        "operators.sequence": "SequenceMask",
        "operators.shape": "HasElements IsEmpty LengthsToShape Range Shape Size",
        "operators.slice": "Slice",
        "operators.softmax": "Softmax",
        "operators.space": "BatchToSpace SpaceToBatch",
        "operators.sparse": """
            BatchDenseToSparse BatchPermutation BatchSparseToDense BooleanUnmask CopyRowsToTensor GatherRanges
            PadEmptySamples ScatterWeightedSum SparseMatrixReshape SparseToDense SparseToDenseMask""",
        "operators.split": "DepthSplit Split SplitByLengths",
        "operators.strings": "StringEndsWith StringEquals StringJoin StringPrefix StringStartsWith StringSuffix",
        "operators.stylizer": "BRGNCHWCToPackedInt8BGRAStylizerDeprocess PackedInt8BGRANHWCToNCHWCStylizerPreprocess",
        "operators.tile": "Expand NumpyTile Tile",
        "operators.transpose": "ChannelShuffle NCHW2NHWC NHWC2NCHW Transpose",
        "operators.unary": """
            Abs Acos Asin Atan Cbrt Ceil Cos Cosh Cube Erf Exp Floor IsMemberOf IsNaN Log Negative Not Reciprocal
            ReplaceNaN Rsqrt Scale Sign Sin Sinh Sqr Sqrt StumpFunc Tan Tanh""",
        "operators.variadic": "Max Mean Min Sum SumInt SumRelu WeightedSum",
        "operators.where": "Conditional Where",
    },
    "ai.onnx.ml": {"operators.onnx_features": "ArrayFeatureExtractor Binarizer"},
    "onnx": {
        "engines.col2im": "ConvTranspose",
        "engines.depthwise": "Conv",
        "engines.fft": "Conv",
        "engines.im2col": "Conv",
        "engines.int8": "ConvInteger QLinearConv",
        "engines.int8_matmul": "MatMulInteger QLinearMatMul",
        "engines.pointwise": "Conv",
        "engines.pooling": "AveragePool MaxPool",
        "engines.winograd": "Conv",
        "operators.activation": """
            Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus Softsign Swish
            ThresholdedRelu""",
        "operators.argtop": "ArgMax ArgMin TopK",
        "operators.casting": "BitCast Cast CastLike",
        "operators.clip": "Clip",
        "operators.control": "Loop Scan",
        "operators.conv": "Conv",
        "operators.conv_transpose": "ConvTranspose",
        "operators.deform_conv": "DeformConv",
        "operators.einsum": "Einsum",
        "operators.elementwise": """
            Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul
            Or Sub Xor""",
        "operators.gather": "GatherElements GatherND",
        "operators.glu": "SwiGLU",
        "operators.grid_sample": "AffineGrid GridSample",
        "operators.group_norm": "GroupNormalization MeanVarianceNormalization",
        "operators.identity": "Dropout",
        "operators.im2col": "Col2Im",
        "operators.layer_norm": "LayerNormalization RMSNormalization",
        "operators.losses": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
        "operators.lrn": "LpNormalization",
        "operators.nms": "NonMaxSuppression",
        "operators.norm": "BatchNormalization",
        "operators.onehot": "OneHot",
        "operators.onnx_features": "TfIdfVectorizer",
        "operators.onnx_fills": """
            Bernoulli ConstantOfShape EyeLike Multinomial RandomNormal RandomNormalLike RandomUniform
            RandomUniformLike Range""",
        "operators.onnx_linear": "Det Gemm MatMul",
        "operators.onnx_pool": "AveragePool GlobalLpPool LpPool MaxPool MaxUnpool",
        "operators.onnx_recurrent": "GRU LSTM RNN",
        "operators.onnx_reduce": """
            CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
            ReduceSum ReduceSumSquare""",
        "operators.onnx_resize": "Resize",
        "operators.pad": "CenterCropPad Pad",
        "operators.power": "Pow",
        "operators.prelu": "PRelu",
        "operators.qlinear": "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
        "operators.quantize": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
        "operators.recurrent_kernels": "GRU LSTM",
        "operators.reshape": "Flatten Reshape Squeeze Unsqueeze",
        "operators.roi_align": "RoiAlign",
        "operators.roi_pool": "MaxRoiPool",
        "operators.scatter": "ScatterElements ScatterND TensorScatter",
        "operators.select": "Compress NonZero Unique",
        "operators.sequence": "ReverseSequence Trilu",
        "operators.shape": "Shape",
        "operators.slice": "Slice",
        "operators.softmax": "Hardmax LogSoftmax Softmax",
        "operators.space": "DepthToSpace SpaceToDepth",
        "operators.spectral": "DFT MelWeightMatrix STFT",
        "operators.split": "Split",
        "operators.tile": "Expand Tile",
        "operators.unary": """
            Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Not
            Reciprocal Round Sign Sin Sinh Sqrt Tan Tanh""",
        "operators.variadic": "Max Mean Min Sum",
        "operators.where": "Where",
    },
    "armnet": {
        "engines.fused": "FusedBatchNorm FusedConv",
        "engines.fused_layers": "FusedConvTranspose FusedFC FusedFCTransposed",
        "engines.fused_pool": "FusedMaxPool",
        "operators.fused": "FusedBatchNorm FusedConv",
        "operators.fused_layers": "FusedConvTranspose FusedFC FusedFCTransposed",
        "operators.fused_pool": "FusedMaxPool",
        "operators.pooled_convolution": "PooledConv",
        "operators.separable_block": "SeparableBlock",
        "operators.layout_change": "ChangeLayout",
    },
    "caffe": {
        "operators.caffe_detection": "DetectionOutput PriorBox",
        "operators.caffe_elementwise": "Exp Log Power Swish Threshold",
        "operators.caffe_layout": "ArgMax BatchReindex Crop Embed Filter Flatten Reduction Reshape SplitAxis",
        "operators.caffe_losses": """
            Accuracy ContrastiveLoss EuclideanLoss HingeLoss InfogainLoss MultinomialLogisticLoss
            SigmoidCrossEntropyLoss SoftmaxWithLoss""",
        "operators.caffe_norm": "BatchNorm MVN Normalize",
        "operators.caffe_pool": "Interp MaskOfMaxPool SPP",
        "operators.caffe_recurrent": "LSTM RNN",
        "operators.caffe_roi": "PSROIPooling Upsample",
    },
    "com.microsoft": {
        "engines.int8_microsoft": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
        "operators.microsoft_elementwise": """
            QLinearAdd QLinearConcat QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearWhere""",
        "operators.microsoft_matmul": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
        "operators.microsoft_pooling": "QLinearAveragePool QLinearGlobalAveragePool QLinearReduceMean QLinearSoftmax",
        "operators.quantize": "DequantizeLinear QuantizeLinear",
    },
    "tflite": {
        "operators.tflite_arithmetic": "Atan2 FloorDiv RightShift",
        "operators.tflite_detection": "DetectionPostProcess NonMaxSuppression",
        "operators.tflite_recurrent": "LSTM RNN SVDF",
        "operators.tflite_norm": "LocalResponseNormalization",
        "engines.hybrid_tflite": "HybridConv HybridDepthwiseConv HybridFullyConnected",
        "operators.tflite_hybrid": "HybridConv HybridDepthwiseConv HybridFullyConnected",
        "operators.tflite_indexing": "BroadcastArgs DynamicUpdateSlice Gather UnsortedSegment",
        "engines.int8_tflite_depthwise": "QuantizedConv",
        "engines.int8_tflite": "QuantizedConv QuantizedFullyConnected QuantizedMatMul",
        "engines.int8_tflite_pool": "QuantizedAveragePool QuantizedMaxPool",
        "operators.tflite_binary": """
            QuantizedAdd QuantizedEqual QuantizedGreater QuantizedGreaterEqual QuantizedLess QuantizedLessEqual
            QuantizedMul QuantizedNotEqual QuantizedPRelu QuantizedSquaredDifference QuantizedSub""",
        "engines.int8_tflite_transposed": "QuantizedConvTranspose",
        "operators.tflite_conv": "QuantizedConv QuantizedConvTranspose QuantizedFullyConnected QuantizedMatMul",
        "operators.tflite_conversions": "Dequantize Quantize Requantize RescaleOperand",
        "operators.tflite_pool": "QuantizedAveragePool QuantizedMaxPool QuantizedMean QuantizedSum",
        "operators.tflite_resize": "QuantizedResizeBilinear",
        "operators.tflite_rows": "QuantizedL2Normalize QuantizedLogSoftmax",
        "operators.tflite_softmax": "QuantizedSoftmax",
        "operators.tflite_unary": """
            QuantizedAbs QuantizedElu QuantizedExp QuantizedGelu QuantizedHardSwish QuantizedLeakyRelu QuantizedLog
            QuantizedLogistic QuantizedNeg QuantizedRelu QuantizedRsqrt QuantizedSqrt QuantizedTanh""",
    },
}


@lru_cache(None)
def load_operator(domain: str, type: str) -> None:
    """Import the families that have to do with that type, once."""
    for family in families_of(domain, type):
        import_module(f"runtime_arm.{family}")


@lru_cache(None)
def load_domain(domain: str) -> None:
    """Import the families of a domain; unknown domains have none."""
    for family in FAMILIES.get(domain, ()):
        import_module(f"runtime_arm.{family}")


def families_of(domain: str, type: str) -> List[str]:
    """The families that have to do with that type; one that no family lists may be in any of its domain."""
    return _families_by_type(domain).get(type) or list(FAMILIES.get(domain, ()))


@lru_cache(None)
def _families_by_type(domain: str) -> Dict[str, List[str]]:
    families: Dict[str, List[str]] = {}
    for family, types in FAMILIES.get(domain, {}).items():
        for type in types.split():
            families.setdefault(type, []).append(family)
    return families
