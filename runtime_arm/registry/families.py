"""The table of operator types: which modules declare them and which add engines to them.

A new family is a new file in ``operators/`` and a line in ``FAMILIES``: the module, and the types that it declares or
adds engines to. The test of this table prints missing lines.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Dict, List

# By domain. A family is imported when a net first names one of its types: a bundle contains no compiled code, and
# compiling all families takes a small device seconds. engines/ adds fast kernels to the declared operators.
FAMILIES: Dict[str, Dict[str, str]] = {
    "": {
        "engines.conv.depthwise_backward": "Conv1DGradient Conv2DGradient Conv3DGradient ConvGradient",
        "engines.conv.winograd_backward": "Conv1DGradient Conv2DGradient Conv3DGradient ConvGradient",
        "engines.conv.backward": "Conv1DGradient Conv2DGradient Conv3DGradient ConvGradient ConvTransposeGradient",
        "engines.conv.col2im": "ConvTranspose",
        "engines.conv.depthwise": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.conv.fft": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.conv.im2col": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.integers.caffe2": "Int8Conv Int8ConvRelu Int8FC Int8FCRelu",
        "engines.conv.pointwise": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "engines.pool.pooling": """
            AveragePool AveragePool1D AveragePool2D AveragePool3D MaxPool MaxPool1D MaxPool2D MaxPool3D""",
        "engines.conv.winograd": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "operators.elementwise.activation_gradients": """
            ClipGradient EluGradient GeluGradient HardSigmoidGradient LeakyReluGradient LogitGradient
            MishGradient ReluGradient ReluNGradient SeluGradient SigmoidGradient SoftplusGradient
            SoftsignGradient SwishGradient TanhGradient ThresholdedReluGradient""",
        "engines.norm.training": "SpatialBN",
        "operators.elementwise.activation": """
            Clip Elu Gelu HardSigmoid LeakyRelu Logit Mish Relu ReluN Selu Sigmoid Softplus Softsign Swish
            ThresholdedRelu""",
        "operators.reduce.argtop_gradients": "TopKGradient",
        "operators.reduce.argtop": "ArgMax ArgMin TopK",
        "operators.elementwise.cast": "Cast FloatToHalf HalfToFloat",
        "operators.layout.concat": "Concat DepthConcat",
        "operators.control.control": "If ONNXWhile While",
        "operators.conv.convolution_gradients": "Conv1DGradient Conv2DGradient Conv3DGradient ConvGradient",
        "operators.conv.convolution": "Conv Conv1D Conv2D Conv3D ConvRelu",
        "operators.conv.transposed_gradients": "ConvTransposeGradient",
        "operators.conv.transposed": "ConvTranspose",
        "operators.loss.criteria_gradients": """
            BernoulliJSDGradient CosineEmbeddingCriterionGradient MakeTwoClassGradient
            MarginRankingCriterionGradient PairWiseLossGradient SpatialSoftmaxWithLossGradient""",
        "operators.loss.criteria": """
            Accuracy BernoulliJSD CosineEmbeddingCriterion MakeTwoClass MarginRankingCriterion
            MultiClassAccuracy PairWiseLoss Perplexity SpatialSoftmaxWithLoss Summarize
            WeightedSigmoidCrossEntropyWithLogits""",
        "operators.loss.decoding": "CTCBeamSearchDecoder CTCGreedyDecoder SwapBestPath ViterbiPath",
        "operators.loss.ranking": "LambdaRankNdcg LambdaRankNdcgGradient",
        "operators.detection.caffe2": "BBoxTransform BoxWithNMSLimit HeatmapMaxKeypoint RMACRegions",
        "operators.detection.detectron": "GroupSpatialSoftmax PSRoIPool SpatialNarrowAs",
        "operators.elementwise.binary_gradients": """
            AddGradient DivGradient MaxGradient MeanGradient MinGradient MulGradient PReluGradient
            SubGradient WeightedSumGradient""",
        "operators.elementwise.binary": """
            Add And BitwiseAnd BitwiseOr BitwiseXor Div EQ GE GT LE LT Mod Mul NE Or Sub Xor""",
        "operators.rows.feature_transforms": """
            BatchBoxCox BatchBucketize BisectPercentile IndexHash NGramFromCategorical Percentile
            PiecewiseLinearTransform QuantDecode Quantile SelfBinningHistogram SinusoidPositionEncoding""",
        "operators.fills.caffe2": """
            ConstantFill DiagonalFill Float16ConstantFill GivenTensorBoolFill GivenTensorByteStringToUInt8Fill
            GivenTensorDoubleFill GivenTensorFill GivenTensorInt16Fill GivenTensorInt64Fill GivenTensorIntFill
            GivenTensorStringFill Int8GivenIntTensorFill Int8GivenTensorFill LengthsRangeFill RangeFill""",
        "operators.indexing.caffe2_gradients": "BatchGatherGradient BooleanMaskGradient",
        "operators.indexing.gather": "BatchGather Gather",
        "operators.elementwise.glu": "Glu",
        "operators.norm.group": "GroupNorm",
        "operators.reduce.histogram": "Histogram IntegralImage IntegralImageGradient",
        "operators.layout.caffe2_gradients": """
            ChannelShuffleGradient DropoutGrad ExpandGradient PadImageGradient SliceGradient TileGradient""",
        "operators.layout.identity": """
            AliasWithName Assert Copy CopyCPUToCPU CopyFromCPUInput CopyOnDeviceLike Dropout EnforceFinite NanCheck
            NegateGradient Print ZeroGradient""",
        "operators.conv.im2col": "Col2Im Im2Col",
        "operators.quantised.caffe2.conversion": "Int8Dequantize Int8GenQuantParams Int8Quantize",
        "operators.quantised.caffe2.functions": "Int8LeakyRelu Int8Relu Int8Sigmoid Int8Softmax",
        "operators.quantised.caffe2.products": "Int8Conv Int8ConvRelu Int8ConvTranspose Int8FC Int8FCRelu",
        "operators.quantised.caffe2.sums": "Int8Add Int8AddRelu Int8Sum Int8SumRelu",
        "operators.quantised.caffe2.layout": """
            Int8ChannelShuffle Int8Concat Int8Flatten Int8Reshape Int8ResizeNearest Int8Slice Int8Transpose""",
        "operators.quantised.caffe2.pool": "Int8AveragePool Int8AveragePoolRelu Int8MaxPool Int8MaxPoolRelu",
        "operators.quantised.caffe2.roi_align": "Int8RoIAlign",
        "operators.norm.standard_gradients": "GroupNormGradient InstanceNormGradient LayerNormGradient",
        "operators.norm.layer": "LayerNorm RMSNorm",
        "operators.rows.lengths": """
            LengthsGather LengthsPad LengthsSplit LengthsToOffsets LengthsToWeights LengthsTopK LengthsTopKGradient
            PackRNNSequence ReversePackedSegs SegmentIdsToLengthWeights UnpackRNNSequence
            VariableLengthSequencePadding""",
        "operators.linear.caffe2_gradients": "FCGradient FCTransposedGradient",
        "operators.linear.caffe2": "BatchMatMul FC FCTransposed MatMul",
        "operators.conv.locally_connected_gradients": "LC1DGradient LC2DGradient LC3DGradient LCGradient",
        "operators.conv.locally_connected": "LC LC1D LC2D LC3D",
        "operators.loss.caffe2_gradients": """
            CrossEntropyGradient LabelCrossEntropyGradient SigmoidCrossEntropyWithLogitsGradient
            SoftmaxWithLossGradient WeightedSigmoidCrossEntropyWithLogitsGradient""",
        "operators.loss.caffe2": "CrossEntropy LabelCrossEntropy SigmoidCrossEntropyWithLogits SoftmaxWithLoss",
        "operators.norm.local_gradients": """
            AffineChannelGradient BatchMomentsGradient LRNGradient LpNormGradient NormalizeGradient
            RMSNormGradient""",
        "operators.norm.local": "LRN LpNorm Normalize NormalizeL1",
        "operators.norm.channel_gradients": "SpatialBNGradient",
        "operators.norm.channel": "AffineChannel BatchMoments ChannelStats InstanceNorm NormalizePlanarYUV SpatialBN",
        "operators.norm.fused_relu": """
            SpatialBNAddRelu SpatialBNAddReluGradient SpatialBNRelu SpatialBNReluGradient""",
        "operators.indexing.onehot": "BatchBucketOneHot BatchOneHot Bucketize OneHot SegmentOneHot",
        "operators.layout.pad": "PadImage",
        "operators.pool.caffe2_gradients": """
            AveragePool1DGradient AveragePool2DGradient AveragePool3DGradient AveragePoolGradient
            LpPoolGradient MaxPool1DGradient MaxPool2DGradient MaxPool3DGradient MaxPoolGradient""",
        "operators.pool.caffe2": """
            AveragePool AveragePool1D AveragePool2D AveragePool3D LpPool MaxPool MaxPool1D MaxPool2D MaxPool3D""",
        "operators.elementwise.power": "Pow",
        "operators.elementwise.prelu": "PRelu",
        "operators.detection.proposals": """
            CollectAndDistributeFpnRpnProposals CollectRpnProposals DistributeFpnProposals GenerateProposals
            GenerateProposalsCPP""",
        "operators.rows.ragged": """
            BooleanMaskLengths DenseVectorToIdList FlexibleTopK GatherByKey GatherRangesToDense LengthsPartition
            MergeIdLists Partition""",
        "operators.fills.random": """
            Float16UniformFill GaussianFill MSRAFill UniformFill UniformIntFill UniqueUniformFill XavierFill""",
        "operators.recurrent.unit_gradients": "GRUUnitGradient LSTMUnitGradient",
        "operators.recurrent.caffe2_units": "GRUUnit LSTMUnit",
        "operators.recurrent.network_gradients": "RecurrentNetworkGradient",
        "operators.recurrent.caffe2_networks": "InferenceLSTM RecurrentNetwork",
        "operators.recurrent.caffe2_kernels": "InferenceLSTM",
        "operators.reduce.caffe2_gradients": """
            AveragedLossGradient ColwiseMaxGradient MomentsGradient ReduceBackMaxGradient
            ReduceBackMeanGradient ReduceBackSumGradient ReduceFrontMaxGradient ReduceFrontMeanGradient
            ReduceFrontSumGradient ReduceL1Gradient ReduceL2Gradient ReduceMaxGradient ReduceMeanGradient
            ReduceMinGradient ReduceSumGradient RowwiseMaxGradient SumElementsGradient""",
        "operators.reduce.caffe2": """
            AveragedLoss ColwiseMax Moments ReduceBackMax ReduceBackMean ReduceBackSum ReduceFrontMax ReduceFrontMean
            ReduceFrontSum ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum ReduceTailSum RowwiseMax
            SumElements SumElementsInt SumReduceLike SumSqrElements""",
        "operators.layout.reshape": """
            Alias EnsureCPUOutput EnsureDense ExpandDims Flatten FlattenToVec MergeDim PrependDim Reshape ResizeLike
            Squeeze StopGradient""",
        "operators.image.caffe2_gradients": "ResizeNearest3DGradient ResizeNearestGradient UpsampleBilinearGradient",
        "operators.image.caffe2": "ResizeNearest ResizeNearest3D UpsampleBilinear UpsampleNearest",
        "operators.detection.roi_gradients": "RoIAlignGradient",
        "operators.detection.roi_align": "RoIAlign RoIAlignRotated",
        "operators.detection.roi_pool": "RoIPool",
        "operators.rows.rowwise_gradients": """
            CosineSimilarityGradient DotProductGradient DotProductWithPaddingGradient
            ElementwiseLinearGradient L1DistanceGradient SquaredL2DistanceGradient""",
        "operators.rows.rowwise": """
            CosineSimilarity DotProduct DotProductWithPadding ElementwiseLinear L1Distance RowMul SquareRootDivide
            SquaredL2Distance""",
        "operators.rows.rowwise_quantized": """
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
        "operators.rows.rowwise_scaled": """
            ByteWeightDequant FloatToRowwiseQuantized8Bits Rowwise8BitQuantizedToFloat SparseLengthsMean8BitsRowwise
            SparseLengthsSum8BitsRowwise SparseLengthsWeightedMean8BitsRowwise SparseLengthsWeightedSum8BitsRowwise""",
        "operators.indexing.scatter": "Scatter ScatterAssign",
        "operators.rows.segment_ids": """
            ReduceFrontWeightedSum SortedSegmentMean SortedSegmentRangeLogMeanExp SortedSegmentRangeLogSumExp
            SortedSegmentRangeMax SortedSegmentRangeMean SortedSegmentRangeSum SortedSegmentSum
            SortedSegmentWeightedSum SparseSortedSegmentMean SparseSortedSegmentSum SparseSortedSegmentWeightedSum
            SparseUnsortedSegmentMean SparseUnsortedSegmentSum SparseUnsortedSegmentWeightedSum UnsortedSegmentMean
            UnsortedSegmentSum UnsortedSegmentWeightedSum""",
        "operators.rows.segment_gradients": """
            BatchPermutationGradient LengthsIndicesInGradientMeanGradient
            LengthsIndicesInGradientSumGradient LengthsIndicesInGradientWeightedSumGradient
            LengthsMaxWithMainInputAndForwardOutputGradient SortedSegmentMeanGradient
            SortedSegmentRangeLogMeanExpGradient SortedSegmentRangeLogSumExpGradient
            SortedSegmentRangeMaxGradient SortedSegmentRangeMeanGradient SortedSegmentRangeSumGradient
            SortedSegmentSumGradient SortedSegmentWeightedSumGradient
            SparseLengthsIndicesInGradientMeanGradient SparseLengthsIndicesInGradientSumGradient
            SparseLengthsIndicesInGradientWeightedSumGradient
            SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient UnsortedSegmentMeanGradient
            UnsortedSegmentSumGradient UnsortedSegmentWeightedSumGradient""",
        "operators.rows.segment_reductions": """
            LengthsMax LengthsMean LengthsSum LengthsWeightedSum SparseLengthsMax SparseLengthsMean
            SparseLengthsPositionalWeightedSum SparseLengthsSum SparseLengthsWeightedSum""",
        "operators.rows.segments": """
            AddPadding GatherPadding LengthsTile LengthsToRanges LengthsToSegmentIds PackSegments RemovePadding
            SegmentIdsToLengths SegmentIdsToRanges UnpackSegments""",
        "operators.indexing.select": "BooleanMask Find FindDuplicateElements StumpFuncIndex Unique",
        "operators.layout.sequence": "SequenceMask",
        "operators.fills.shape": "HasElements IsEmpty LengthsToShape Range Shape Size",
        "operators.layout.slice": "Slice",
        "operators.norm.softmax_gradients": "SoftmaxGradient",
        "operators.norm.softmax": "Softmax",
        "operators.solvers.adaptive": "Adadelta Adagrad Adam RmsProp",
        "operators.solvers.counters": "AtomicIter CreateMutex Iter",
        "operators.solvers.learning_rate": "LearningRate",
        "operators.solvers.momentum": "MomentumSGD MomentumSGDUpdate",
        "operators.solvers.scaling": """
            ClipTensorByScaling Ftrl GFtrl Lars LearningRateAdaption Storm WeightScale Wngrad""",
        "operators.solvers.sparse": """
            Float16SparseNormalize RowWiseSparseAdagrad RowWiseSparseAdam SparseAdadelta SparseAdagrad SparseAdam
            SparseFtrl SparseMomentumSGDUpdate SparseNormalize SparseStorm SparseWngrad""",
        "operators.layout.space": "BatchToSpace SpaceToBatch",
        "operators.rows.sparse_gradients": "FlexibleTopKGradient SparseToDenseMaskGradient",
        "operators.rows.sparse": """
            BatchDenseToSparse BatchPermutation BatchSparseToDense BooleanUnmask CopyRowsToTensor GatherRanges
            PadEmptySamples ScatterWeightedSum SparseMatrixReshape SparseToDense SparseToDenseMask""",
        "operators.layout.split": "DepthSplit Split SplitByLengths",
        "operators.text.caffe2": "StringEndsWith StringEquals StringJoin StringPrefix StringStartsWith StringSuffix",
        "operators.image.stylizer": """
            BRGNCHWCToPackedInt8BGRAStylizerDeprocess PackedInt8BGRANHWCToNCHWCStylizerPreprocess""",
        "operators.layout.tile": "Expand NumpyTile Tile",
        "operators.layout.transpose": "ChannelShuffle NCHW2NHWC NHWC2NCHW Transpose",
        "operators.elementwise.unary_gradients": """
            AbsGradient AcosGradient AsinGradient AtanGradient CbrtGradient CosGradient CoshGradient
            CubeGradient ErfGradient ReciprocalGradient RsqrtGradient SinGradient SinhGradient TanGradient""",
        "operators.elementwise.unary": """
            Abs Acos Asin Atan Cbrt Ceil Cos Cosh Cube Erf Exp Floor IsMemberOf IsNaN Log Negative Not Reciprocal
            ReplaceNaN Rsqrt Scale Sign Sin Sinh Sqr Sqrt StumpFunc Tan Tanh""",
        "operators.elementwise.variadic": "Max Mean Min Sum SumInt SumRelu WeightedSum",
        "operators.elementwise.where": "Conditional Where",
    },
    "ai.onnx.ml": {
        "engines.ml.trees": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
        "operators.ml.features": """
            ArrayFeatureExtractor Binarizer CategoryMapper FeatureVectorizer Imputer LabelEncoder Normalizer
            OneHotEncoder Scaler""",
        "operators.ml.linear": "LinearClassifier LinearRegressor SVMClassifier SVMRegressor",
        "operators.ml.trees": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    },
    "ai.onnx.preview.training": {"operators.loss.onnx_training": "Adagrad Adam Momentum"},
    "onnx": {
        "operators.attention.onnx": "Attention",
        "operators.attention.rotary": "RotaryEmbedding",
        "engines.conv.col2im": "ConvTranspose",
        "engines.conv.depthwise": "Conv",
        "engines.conv.fft": "Conv",
        "engines.conv.im2col": "Conv",
        "engines.integers.onnx_depthwise": "QLinearConv",
        "engines.integers.onnx": "ConvInteger QLinearConv",
        "engines.integers.onnx_matmul": "MatMulInteger QLinearMatMul",
        "engines.conv.pointwise": "Conv",
        "engines.pool.pooling": "AveragePool MaxPool",
        "engines.conv.winograd": "Conv",
        "operators.elementwise.activation": """
            Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus Softsign Swish
            ThresholdedRelu""",
        "operators.reduce.argtop": "ArgMax ArgMin TopK",
        "operators.elementwise.cast": "BitCast Cast CastLike",
        "operators.elementwise.clip": "Clip",
        "operators.control.control": "Loop Scan",
        "operators.control.sequences": """
            ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty
            SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence""",
        "operators.conv.convolution": "Conv",
        "operators.conv.transposed": "ConvTranspose",
        "operators.conv.deformable": "DeformConv",
        "operators.linear.einsum": "Einsum",
        "operators.elementwise.binary": """
            Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul
            Or Sub Xor""",
        "operators.indexing.gather": "Gather GatherElements GatherND",
        "operators.elementwise.glu": "SwiGLU",
        "operators.image.decoding": "ImageDecoder",
        "operators.image.grid_sample": "AffineGrid GridSample",
        "operators.norm.group": "GroupNormalization MeanVarianceNormalization",
        "operators.layout.identity": "Dropout",
        "operators.conv.im2col": "Col2Im",
        "operators.norm.layer": "LayerNormalization RMSNormalization",
        "operators.loss.caffe2": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
        "operators.norm.local": "LpNormalization",
        "operators.detection.nms": "NonMaxSuppression",
        "operators.norm.channel": "BatchNormalization",
        "operators.indexing.onehot": "OneHot",
        "operators.text.onnx": "RegexFullMatch StringConcat StringNormalizer StringSplit",
        "operators.text.tfidf": "TfIdfVectorizer",
        "operators.fills.onnx": """
            Bernoulli ConstantOfShape EyeLike Multinomial RandomNormal RandomNormalLike RandomUniform
            RandomUniformLike Range""",
        "operators.linear.onnx": "Det Gemm MatMul",
        "operators.pool.onnx": "AveragePool GlobalLpPool LpPool MaxPool MaxUnpool",
        "operators.recurrent.onnx": "GRU LSTM RNN",
        "operators.reduce.onnx": """
            CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
            ReduceSum ReduceSumSquare""",
        "operators.image.onnx": "Resize",
        "operators.layout.pad": "CenterCropPad Pad",
        "operators.elementwise.power": "Pow",
        "operators.elementwise.prelu": "PRelu",
        "operators.quantised.onnx.products": "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
        "operators.quantised.onnx.conversion": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
        "operators.recurrent.onnx_kernels": "GRU LSTM RNN",
        "operators.layout.reshape": "Flatten Reshape Squeeze Unsqueeze",
        "operators.detection.roi_align": "RoiAlign",
        "operators.detection.roi_pool": "MaxRoiPool",
        "operators.indexing.scatter": "ScatterElements ScatterND TensorScatter",
        "operators.indexing.select": "Compress NonZero Unique",
        "operators.layout.sequence": "ReverseSequence Trilu",
        "operators.fills.shape": "Shape",
        "operators.layout.slice": "Slice",
        "operators.norm.softmax": "Hardmax LogSoftmax Softmax",
        "operators.layout.space": "DepthToSpace SpaceToDepth",
        "operators.image.spectral": "DFT MelWeightMatrix STFT",
        "operators.layout.split": "Split",
        "operators.layout.tile": "Expand Tile",
        "operators.elementwise.unary": """
            Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Not
            Reciprocal Round Sign Sin Sinh Sqrt Tan Tanh""",
        "operators.elementwise.variadic": "Max Mean Min Sum",
        "operators.elementwise.where": "Where",
    },
    "armnet": {
        "operators.recurrent.onnx_gradients": "GRUGradient LSTMGradient RNNGradient",
        "operators.recurrent.onnx_gradient_kernels": "GRUGradient LSTMGradient RNNGradient",
        "operators.attention.onnx_gradients": "AttentionGradient",
        "operators.conv.convolution_gradients": "ConvGradient",
        "operators.conv.transposed_gradients": "ConvTransposeGradient",
        "engines.conv.depthwise_backward": "ConvGradient",
        "engines.conv.winograd_backward": "ConvGradient",
        "engines.conv.backward": "ConvGradient ConvTransposeGradient",
        "operators.elementwise.onnx_gradients": """
            AcoshGradient AsinhGradient AtanhGradient CeluGradient ClipGradient HardSwishGradient
            MaxGradient MinGradient PReluGradient PowGradient SwishGradient ThresholdedReluGradient
            WhereGradient""",
        "operators.image.onnx_gradients": "ResizeGradient",
        "operators.indexing.onnx_gradients": "GatherElementsGradient GatherNDGradient",
        "operators.layout.caffe2_gradients": "SliceGradient SumLike TileGradient",
        "operators.layout.onnx_gradients": "PadGradient",
        "operators.linear.onnx_gradients": "GemmGradient MatMulGradient",
        "operators.loss.onnx_gradients": "NegativeLogLikelihoodLossGradient SoftmaxCrossEntropyLossGradient",
        "operators.norm.onnx_gradients": """
            GroupNormalizationGradient LayerNormalizationGradient LogSoftmaxGradient
            RMSNormalizationGradient""",
        "operators.norm.softmax_gradients": "SoftmaxGradient",
        "operators.pool.caffe2_gradients": "AveragePoolGradient MaxPoolGradient",
        "operators.reduce.onnx_gradients": """
            ReduceL1Gradient ReduceL2Gradient ReduceLogSumExpGradient ReduceLogSumGradient
            ReduceMaxGradient ReduceMeanGradient ReduceMinGradient ReduceSumGradient
            ReduceSumSquareGradient""",
        "engines.fused.fused": "FusedConv",
        "engines.fused.fused_batch_norm": "FusedBatchNorm",
        "engines.fused.fused_layers": "FusedConvTranspose FusedFC FusedFCTransposed",
        "engines.fused.fused_pool": "FusedMaxPool",
        "engines.pool.phases": "MaxPoolOffsetsGradient MaxPoolWithOffsets",
        "operators.fused.fused": "FusedConv",
        "operators.fused.fused_batch_norm": "FusedBatchNorm",
        "operators.fused.fused_layers": "FusedConvTranspose FusedFC FusedFCTransposed",
        "operators.fused.fused_pool": "FusedMaxPool",
        "operators.fused.pooled_convolution": "PooledConv",
        "operators.fused.gated_convolution": "GatedConv",
        "operators.fused.separable_block": "SeparableBlock",
        "operators.fused.layout_change": "ChangeLayout",
        "operators.rows.reduced_slices": "ReduceSlices",
        "operators.quantised.lookup": "LookUp",
        "operators.quantised.narrow": "RoundNumbers UnpackNumbers",
        "operators.elementwise.masked_relu": "ReluMaskGradient ReluWithMask",
        "operators.pool.offsets": "MaxPoolOffsetsGradient MaxPoolWithOffsets",
        "operators.norm.fused_relu": "SpatialBNOutputGradient",
        "operators.norm.recomputed": "SpatialBNAgain",
        "operators.quantised.int4": "UnpackInt4",
        "operators.quantised.packed": "UnpackBfloat16 UnpackBlocks UnpackPalette",
    },
    "caffe": {
        "operators.detection.caffe": "DetectionOutput PriorBox",
        "operators.elementwise.caffe": "Exp Log Power Swish Threshold",
        "operators.layout.caffe": "ArgMax BatchReindex Crop Embed Filter Flatten Reduction Reshape SplitAxis",
        "operators.loss.caffe": """
            Accuracy ContrastiveLoss EuclideanLoss HingeLoss InfogainLoss MultinomialLogisticLoss
            SigmoidCrossEntropyLoss SoftmaxWithLoss""",
        "operators.norm.caffe": "BatchNorm MVN Normalize",
        "operators.pool.caffe": "Interp MaskOfMaxPool SPP",
        "operators.recurrent.caffe": "LSTM RNN",
        "operators.solvers.adaptive": "RMSProp",
        "operators.solvers.learning_rate": "LearningRate",
        "operators.detection.caffe_roi": "PSROIPooling Upsample",
    },
    "com.microsoft": {
        "operators.attention.grouped": "GroupQueryAttention",
        "operators.attention.microsoft": "MultiHeadAttention",
        "operators.attention.rotary": "RotaryEmbedding",
        "engines.integers.microsoft": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
        "operators.recurrent.microsoft": "DynamicQuantizeLSTM",
        "operators.recurrent.microsoft_kernels": "DynamicQuantizeLSTM",
        "operators.quantised.microsoft.blocks": "GatherBlockQuantized MatMulNBits",
        "operators.quantised.microsoft.elementwise": """
            QLinearAdd QLinearConcat QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearWhere""",
        "operators.quantised.microsoft.products": "DynamicQuantizeMatMul MatMulIntegerToFloat QGemm",
        "operators.quantised.microsoft.pooling": """
            QLinearAveragePool QLinearGlobalAveragePool QLinearReduceMean QLinearSoftmax""",
        "operators.quantised.onnx.conversion": "DequantizeLinear QuantizeLinear",
        "operators.text.tokenizer": "Tokenizer",
    },
    "tflite": {
        "operators.elementwise.tflite": "Atan2 Cast FloorDiv Logistic RightShift",
        "operators.detection.posenet": "PosenetDecoder",
        "operators.detection.tflite": "DetectionPostProcess NonMaxSuppression",
        "operators.recurrent.tflite": "LSTM RNN SVDF",
        "operators.recurrent.tflite_kernels": "LSTM RNN SVDF",
        "operators.recurrent.tflite_hybrid": "LSTM RNN",
        "operators.norm.tflite": "LocalResponseNormalization",
        "operators.layout.tflite": "BatchToSpaceND SpaceToBatchND",
        "operators.audio.micro": """
            SignalEnergy SignalFftAutoScale SignalFilterBank SignalFilterBankLog SignalFilterBankSquareRoot SignalIrfft
            SignalPCAN SignalRfft SignalSpectralSubtraction SignalWindow""",
        "operators.audio.micro_buffers": "SignalDelay SignalFramer SignalOverlapAdd SignalStacker",
        "operators.image.mediapipe": "LandmarksToMatrix TransformLandmarks TransformPicture",
        "operators.pool.mediapipe": "MaxPoolWithPlaces MaxUnpool",
        "engines.integers.tflite_hybrid": "HybridConv HybridDepthwiseConv HybridFullyConnected",
        "operators.quantised.tflite.hybrid": "HybridConv HybridDepthwiseConv HybridFullyConnected",
        "operators.indexing.tflite": "BroadcastArgs DynamicUpdateSlice Gather UnsortedSegment",
        "engines.integers.tflite_depthwise": "QuantizedConv",
        "engines.integers.tflite": "QuantizedConv QuantizedFullyConnected QuantizedMatMul",
        "engines.integers.tflite_pool": "QuantizedAveragePool QuantizedMaxPool",
        "operators.quantised.tflite.binary": """
            QuantizedAdd QuantizedDiv QuantizedEqual QuantizedGreater QuantizedGreaterEqual QuantizedLess
            QuantizedLessEqual QuantizedMul QuantizedNotEqual QuantizedPRelu QuantizedSquaredDifference QuantizedSub""",
        "engines.integers.tflite_transposed": "QuantizedConvTranspose",
        "operators.quantised.tflite.products": """
            QuantizedConv QuantizedConvTranspose QuantizedFullyConnected QuantizedMatMul""",
        "operators.quantised.tflite.conversions": "Dequantize Quantize Requantize RescaleOperand",
        "operators.quantised.tflite.pool": "QuantizedAveragePool QuantizedMaxPool QuantizedMean QuantizedSum",
        "operators.quantised.tflite.prod": "QuantizedProd",
        "operators.quantised.tflite.recurrent": "QuantizedLSTM QuantizedSVDF",
        "operators.quantised.tflite.recurrent_kernels": "QuantizedLSTM QuantizedSVDF",
        "operators.quantised.tflite.resize": "QuantizedResizeBilinear",
        "operators.quantised.tflite.rows": "QuantizedL2Normalize QuantizedLogSoftmax",
        "operators.quantised.tflite.softmax": "QuantizedSoftmax",
        "operators.quantised.tflite.unary": """
            QuantizedAbs QuantizedElu QuantizedExp QuantizedGelu QuantizedHardSwish QuantizedLeakyRelu QuantizedLog
            QuantizedLogistic QuantizedNeg QuantizedRelu QuantizedRsqrt QuantizedSqrt QuantizedTanh""",
    },
}


@lru_cache(None)
def load_operator(domain: str, type: str) -> None:
    """Import the families that declare a type or add engines to it."""
    for family in families_of(domain, type):
        import_module(f"runtime_arm.{family}")


@lru_cache(None)
def load_domain(domain: str) -> None:
    """Import the families of a domain; an unknown domain has none."""
    for family in FAMILIES.get(domain, ()):
        import_module(f"runtime_arm.{family}")


def families_of(domain: str, type: str) -> List[str]:
    """The families that declare a type or add engines to it; all families of the domain if none lists the type."""
    return _families_by_type(domain).get(type) or list(FAMILIES.get(domain, ()))


@lru_cache(None)
def _families_by_type(domain: str) -> Dict[str, List[str]]:
    families: Dict[str, List[str]] = {}
    for family, types in FAMILIES.get(domain, {}).items():
        for type in types.split():
            families.setdefault(type, []).append(family)
    return families
