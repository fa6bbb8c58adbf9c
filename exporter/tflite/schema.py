"""TFLite's schema.fbs as tables: the fields of each table in the order of their slots, and its enumerations.

Pool2DOptions: padding:int8 stride_w:int32      a number has a type, and a default unless that is 0; what has no
AddOptions: pot_scale_int16:bool=1              type is an offset, to a string, a vector or a table; a hyphen is a
                                                slot that nothing uses any more
"""

from __future__ import annotations

from functools import cache
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np


class Field(NamedTuple):
    """A field's slot in its table's vtable, its dtype (None for an offset) and its value if it is absent."""

    slot: int
    dtype: Optional[str]
    default: Any


def _words(text: str) -> List[str]:
    return text.split()


_TABLES = """
    AddOptions: fused_activation_function:int8 pot_scale_int16:bool=1
    ArgMaxOptions: output_type:int8
    ArgMinOptions: output_type:int8
    BatchMatMulOptions: adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
    BidirectionalSequenceLSTMOptions: fused_activation_function:int8 cell_clip:float32 proj_clip:float32
        merge_outputs:bool time_major:bool=1 asymmetric_quantize_inputs:bool
    BidirectionalSequenceRNNOptions: time_major:bool fused_activation_function:int8 merge_outputs:bool
        asymmetric_quantize_inputs:bool
    BucketizeOptions: boundaries
    Buffer: data offset:uint64 size:uint64
    CallOnceOptions: init_subgraph_index:int32
    CallOptions: subgraph:uint32
    CastOptions: in_data_type:int8 out_data_type:int8
    ConcatEmbeddingsOptions: num_channels:int32 num_columns_per_channel embedding_dim_per_channel
    ConcatenationOptions: axis:int32 fused_activation_function:int8
    Conv2DOptions: padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8
        dilation_w_factor:int32=1 dilation_h_factor:int32=1 quantized_bias_type:int8
    Conv3DOptions: padding:int8 stride_d:int32 stride_w:int32 stride_h:int32 fused_activation_function:int8
        dilation_d_factor:int32=1 dilation_w_factor:int32=1 dilation_h_factor:int32=1
    CumsumOptions: exclusive:bool reverse:bool
    CustomQuantization: custom
    DepthToSpaceOptions: block_size:int32
    DepthwiseConv2DOptions: padding:int8 stride_w:int32 stride_h:int32 depth_multiplier:int32
        fused_activation_function:int8 dilation_w_factor:int32=1 dilation_h_factor:int32=1
    DimensionMetadata: format:int8 dense_size:int32 array_segments_type:uint8 array_segments
        array_indices_type:uint8 array_indices
    DivOptions: fused_activation_function:int8
    EmbeddingLookupSparseOptions: combiner:int8
    FakeQuantOptions: min:float32 max:float32 num_bits:int32 narrow_range:bool
    FullyConnectedOptions: fused_activation_function:int8 weights_format:int8 keep_num_dims:bool
        asymmetric_quantize_inputs:bool quantized_bias_type:int8
    GatherOptions: axis:int32 batch_dims:int32
    GeluOptions: approximate:bool
    HashtableOptions: table_id:int32 key_dtype:int8 value_dtype:int8
    IfOptions: then_subgraph_index:int32 else_subgraph_index:int32
    Int32Vector: values
    L2NormOptions: fused_activation_function:int8
    LSHProjectionOptions: type:int8
    LSTMOptions: fused_activation_function:int8 cell_clip:float32 proj_clip:float32 kernel_type:int8
        asymmetric_quantize_inputs:bool
    LeakyReluOptions: alpha:float32
    LocalResponseNormalizationOptions: radius:int32 bias:float32 alpha:float32 beta:float32
    Metadata: name buffer:uint32
    MirrorPadOptions: mode:int8
    Model: version:uint32 operator_codes subgraphs description buffers metadata_buffer metadata signature_defs
    MulOptions: fused_activation_function:int8
    OneHotOptions: axis:int32
    Operator: opcode_index:uint32 inputs outputs builtin_options_type:uint8 builtin_options custom_options
        custom_options_format:int8 mutating_variable_inputs intermediates large_custom_options_offset:uint64
        large_custom_options_size:uint64 builtin_options2_type:uint8 builtin_options2 debug_metadata_index:int32=-1
    OperatorCode: deprecated_builtin_code:int8 custom_code version:int32=1 builtin_code:int32
    PackOptions: values_count:int32 axis:int32
    Pool2DOptions: padding:int8 stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32
        fused_activation_function:int8
    QuantizationParameters: min max scale zero_point details_type:uint8 details quantized_dimension:int32
    RNNOptions: fused_activation_function:int8 asymmetric_quantize_inputs:bool
    RandomOptions: seed:int64 seed2:int64
    ReduceWindowOptions: reduce_function:int32
    ReducerOptions: keep_dims:bool
    ReshapeOptions: new_shape
    ResizeBilinearOptions: - - align_corners:bool half_pixel_centers:bool
    ResizeNearestNeighborOptions: align_corners:bool half_pixel_centers:bool
    ReverseSequenceOptions: seq_dim:int32 batch_dim:int32
    SVDFOptions: rank:int32 fused_activation_function:int8 asymmetric_quantize_inputs:bool
    SequenceRNNOptions: time_major:bool fused_activation_function:int8 asymmetric_quantize_inputs:bool
    ShapeOptions: out_type:int8
    SignatureDef: inputs outputs signature_key - subgraph_index:uint32
    SkipGramOptions: ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
    SoftmaxOptions: beta:float32
    SpaceToDepthOptions: block_size:int32
    SparseToDenseOptions: validate_indices:bool
    SparsityParameters: traversal_order block_map dim_metadata
    SplitOptions: num_splits:int32
    SplitVOptions: num_splits:int32
    SqueezeOptions: squeeze_dims
    StableHLOCompositeOptions: name decomposition_subgraph_index:int32 composite_attributes
        composite_attributes_format:int8 version:int32
    StablehloBroadcastInDimOptions: broadcast_dimensions
    StablehloCompareOptions: comparison_direction:uint32 compare_type:uint32
    StablehloConcatenateOptions: dimension:int64
    StablehloConvolutionOptions: window_strides padding lhs_dilation rhs_dilation window_reversal
        input_batch_dimension:int64 input_feature_dimension:int64 input_spatial_dimensions
        kernel_input_feature_dimension:int64 kernel_output_feature_dimension:int64 kernel_spatial_dimensions
        output_batch_dimension:int64 output_feature_dimension:int64 output_spatial_dimensions
        feature_group_count:int64 batch_group_count:int64 precision_config
    StablehloCustomCallOptions: call_target_name has_side_effect:bool backend_config api_version:int32
        called_computations custom_attributes
    StablehloDotGeneralOptions: lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions
        rhs_contracting_dimensions precision_config
    StablehloDynamicSliceOptions: slice_sizes
    StablehloGatherOptions: offset_dims collapsed_slice_dims start_index_map index_vector_dim:int64 slice_sizes
        indices_are_sorted:bool
    StablehloIotaOptions: iota_dimension:int64
    StablehloPadOptions: edge_padding_low edge_padding_high interior_padding
    StablehloReduceOptions: dimensions body_subgraph_index:int32
    StablehloReduceWindowOptions: window_dimensions window_strides base_dilations window_dilations padding
        body_subgraph_index:int32
    StablehloRngBitGeneratorOptions: algorithm:int8
    StablehloScatterOptions: indices_are_sorted:bool update_window_dims inserted_window_dims
        scatter_dims_to_operand_dims index_vector_dim:int64 unique_indices:bool
        update_computation_subgraph_index:int32
    StablehloSliceOptions: start_indices limit_indices strides
    StablehloSortOptions: dimension:int64 is_stable:bool comparator_subgraph_index:int32
    StablehloTransposeOptions: permutation
    StablehloWhileOptions: cond_subgraph_index:int32 body_subgraph_index:int32
    StridedSliceOptions: begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32
        shrink_axis_mask:int32 offset:bool
    SubGraph: tensors inputs outputs operators name debug_metadata_index:int32=-1
    SubOptions: fused_activation_function:int8 pot_scale_int16:bool=1
    Tensor: shape type:int8 buffer:uint32 name quantization is_variable:bool sparsity shape_signature has_rank:bool
        variant_tensors
    TensorMap: name tensor_index:uint32
    TransposeConvOptions: padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8
        quantized_bias_type:int8
    Uint16Vector: values
    Uint8Vector: values
    UnidirectionalSequenceLSTMOptions: fused_activation_function:int8 cell_clip:float32 proj_clip:float32
        time_major:bool asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
    UniqueOptions: idx_out_type:int8=2
    UnpackOptions: num:int32 axis:int32
    VarHandleOptions: container shared_name
    VariantSubType: shape type:int8 has_rank:bool
    WhileOptions: cond_subgraph_index:int32 body_subgraph_index:int32
"""

BUILTIN_OPERATORS = _words(
    """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN
    GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM
    STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM
    CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN
    TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN
    FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
    REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE
    MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG
    QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND
    SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO
    RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
    CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
    RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
    UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC
    STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
    STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL
    STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR
    STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
    STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE
    STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
    STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER
    STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT
    STABLEHLO_CBRT STABLEHLO_CASE
    """
)

# The tables of the unions BuiltinOptions and BuiltinOptions2
OPTIONS = _words(
    """
    NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
    SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
    LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions SkipGramOptions
    SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions BatchToSpaceNDOptions
    SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions
    StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
    MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions
    LessEqualOptions SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions
    ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions
    PackOptions LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions
    SquareOptions ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
    UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions
    SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions
    GatherNdOptions CosOptions WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions
    MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options
    NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions
    BatchMatMulOptions CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions
    HashtableOptions HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
    ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions
    UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions
    ATan2Options SignOptions BitcastOptions BitwiseXorOptions RightShiftOptions
    """
)
OPTIONS_2 = _words(
    """
    NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
    StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions
    StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions
    StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions
    StablehloGatherOptions StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions
    ReduceWindowOptions StableHLOCompositeOptions StablehloShiftLeftOptions
    """
)

TENSOR_TYPES = _words(
    """
    FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE VARIANT
    UINT32 UINT16 INT4 BFLOAT16 INT2 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2
    """
)

_declared: Dict[str, Dict[str, Field]] = {}


def declare(table: str, **fields: Union[int, Tuple[int, str]]) -> None:
    """Declare a table of another schema: slots of offsets, slots and dtypes of numbers (0 if absent)."""
    _declared[table] = {
        name: Field(*field, 0) if isinstance(field, tuple) else Field(field, None, 0) for name, field in fields.items()
    }


def fields_of(table: str) -> Dict[str, Field]:
    """The fields of a table by name; empty for a table without fields or one that is not known."""
    return _declared.get(table) or _parsed().get(table, {})


@cache
def _parsed() -> Dict[str, Dict[str, Field]]:
    tables: Dict[str, Dict[str, Field]] = {}
    name = ""
    for word in _TABLES.split():
        if word.endswith(":"):
            name = word[:-1]
            tables[name] = {}
            slot = -1
            continue
        slot += 1
        field, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        dtype = np.dtype(kind).newbyteorder("<").str if kind else None
        if field != "-":
            tables[name][field] = Field(slot, dtype, _default(kind, default))
    return tables


def _default(kind: str, text: str) -> Any:
    number = int(text or 0)
    return bool(number) if kind == "bool" else float(number) if kind.startswith("float") else number
