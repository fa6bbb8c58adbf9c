"""More cases: operators that only move elements."""

from __future__ import annotations

import numpy as np

from tests.exporter.tflite.cases import CASES, PICTURE, case, flags, floats, i32, integers, positive, scalar

__all__ = ["CASES"]

# Shapes
case("RESHAPE", [floats(3, 4), i32(2, -1)], "ReshapeOptions", NewShape=[2, -1])
case("RESHAPE:option", [floats(3, 4)], "ReshapeOptions", NewShape=[2, 6])
case("RESHAPE:computed", [floats(3, 4), np.array([6, 2], np.int32)])
case("SQUEEZE", [floats(1, 3, 1, 4)], "SqueezeOptions", SqueezeDims=[0])
case("SQUEEZE:all", [floats(1, 3, 1, 4)], "SqueezeOptions")
case("EXPAND_DIMS", [floats(3, 4), scalar(-1)])
case("TRANSPOSE", [floats(2, 3, 4), i32(2, 0, 1)])
case("SHAPE", [floats(3, 4)], "ShapeOptions", dtypes=["int32"], OutType=2)
case("SHAPE:open", [floats(3, 4)], "ShapeOptions", dtypes=["int32"], OutType=2, signature=True)
case("RANK", [floats(3, 4)], dtypes=["int32"])
case("CONCATENATION", [floats(2, 3), [floats(2, 4)], floats(2, 1)], "ConcatenationOptions", Axis=1)
case("CONCATENATION:last", [floats(2, 3), floats(2, 4)], "ConcatenationOptions", Axis=-1)
case("PACK", [floats(2, 3), floats(2, 3)], "PackOptions", Axis=1, ValuesCount=2)
case("PACK:last", [floats(2, 3), floats(2, 3)], "PackOptions", Axis=-1, ValuesCount=2)
case("UNPACK", [floats(2, 3)], "UnpackOptions", outputs=3, Num=3, Axis=1)
case("PAD", [floats(*PICTURE), [np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32)]])
case("PAD:computed", [floats(2, 3), np.array([[1, 0], [0, 2]], np.int32)])
case("PADV2", [floats(2, 3), [np.array([[1, 0], [0, 2]], np.int32)], [np.array(7, np.float32)]])
case("MIRROR_PAD:reflect", [floats(4, 5), [np.array([[1, 2], [3, 0]], np.int32)]], "MirrorPadOptions", Mode=0)
case("MIRROR_PAD:symmetric", [floats(4, 5), [np.array([[1, 2], [3, 0]], np.int32)]], "MirrorPadOptions", Mode=1)
case("TILE", [floats(2, 3), i32(2, 3)])
case("BROADCAST_TO", [floats(2, 1), i32(3, 2, 4)], version=2)
case("BROADCAST_ARGS", [np.array([2, 1, 4], np.int32), np.array([3, 1], np.int32)])

# Parts
case("SLICE", [floats(*PICTURE), i32(0, 1, 2, 0), i32(2, 3, -1, 4)])
case("SLICE:computed", [floats(3, 4), np.array([1, 0], np.int32), np.array([-1, 2], np.int32)])
for _name, _begin, _end, _strides, _masks in (
    ("plain", (0, 1), (2, 3), (1, 1), {}),
    ("steps", (0, -1), (3, -5), (2, -1), {}),
    ("masked", (1, 1), (0, 0), (1, 2), {"BeginMask": 1, "EndMask": 3}),
    ("backwards", (0, 0), (0, 0), (-1, -2), {"BeginMask": 3, "EndMask": 3}),
    ("shrunk", (-1, 1), (0, 3), (1, 1), {"ShrinkAxisMask": 1}),
    ("shrunk_masked", (-1, 1), (0, 3), (1, 1), {"BeginMask": 1, "ShrinkAxisMask": 1}),
    ("offset", (-2, 1), (2, 2), (1, 1), {"Offset": True}),
    ("offset_masked", (2, -3), (2, 2), (1, 1), {"Offset": True, "BeginMask": 1}),
    ("added", (0, 1, 0), (0, 2, 3), (1, 1, 1), {"NewAxisMask": 1}),
    ("ellipsis", (0, 1), (0, 2), (1, 1), {"EllipsisMask": 1}),
):
    case(
        f"STRIDED_SLICE:{_name}",
        [floats(3, 4), i32(*_begin), i32(*_end), i32(*_strides)],
        "StridedSliceOptions",
        **_masks,
    )
    if _name not in ("added", "ellipsis") and "Offset" not in _masks:
        case(
            f"STRIDED_SLICE:{_name}_computed",
            [floats(3, 4), np.array(_begin, np.int32), np.array(_end, np.int32), i32(*_strides)],
            "StridedSliceOptions",
            **_masks,
        )
case(
    "STRIDED_SLICE:backwards_from_before",
    [floats(3, 4), i32(-9, 3), i32(0, 0), i32(-1, -1)],
    "StridedSliceOptions",
    EndMask=3,
)
case("SPLIT", [scalar(1), floats(2, 6)], "SplitOptions", outputs=3, NumSplits=3)
case("SPLIT_V", [floats(2, 6), i32(1, -1, 2), scalar(1)], "SplitVOptions", outputs=3, NumSplits=3)
case(
    "SPLIT_V:open_batch",
    [floats(2, 6), i32(1, -1, 2), scalar(-1)],
    "SplitVOptions",
    outputs=3,
    signature=True,
    NumSplits=3,
)

# Indices
case("GATHER", [floats(5, 4), integers(0, 5, 2, 3)], "GatherOptions", Axis=0)
case("GATHER:axis", [floats(2, 5, 4), integers(0, 5, 3)], "GatherOptions", Axis=1)
case("GATHER:batch", [floats(2, 3, 5, 4), integers(0, 5, 2, 6)], "GatherOptions", Axis=2, BatchDims=1)
case("GATHER_ND", [floats(3, 4, 5), integers(0, 3, 2, 2)])
case("EMBEDDING_LOOKUP", [integers(0, 5, 3), [floats(5, 4)]], dtypes=["float32"])
case("SCATTER_ND", [integers(0, 4, 5, 1), floats(5, 3), i32(4, 3)], dtypes=["float32"])
case(
    "SPARSE_TO_DENSE",
    [[np.array([1, 4], np.int32)], i32(6), floats(2), [np.array(9, np.float32)]],
    "SparseToDenseOptions",
)
case(
    "SPARSE_TO_DENSE:matrix",
    [[np.array([[0, 1], [2, 0]], np.int32)], i32(3, 2), [np.array(5, np.float32)], floats()],
    "SparseToDenseOptions",
    dtypes=["float32"],
)
case("DYNAMIC_UPDATE_SLICE", [floats(4, 5), floats(2, 3), np.array([3, 1], np.int32)])
case(
    "ONE_HOT",
    [np.array([0, 2, -1, 7], np.int32), scalar(3), [np.array(2, np.float32)], [np.array(-1, np.float32)]],
    "OneHotOptions",
    dtypes=["float32"],
    Axis=-1,
)
case(
    "ONE_HOT:first",
    [np.array([[0, 2]], np.int32), scalar(3), [np.array(1, np.float32)], [np.array(0, np.float32)]],
    "OneHotOptions",
    dtypes=["float32"],
    Axis=0,
)
case("TOPK_V2", [floats(3, 7), scalar(4)], outputs=2, dtypes=["float32", "int32"])
case("TOPK_V2:ties", [np.array([[1, 3, 3, 0, 1]], np.float32), scalar(3)], outputs=2, dtypes=["float32", "int32"])
case("WHERE", [flags(3, 4)], dtypes=["int64"])
case("SELECT", [flags(3), floats(3, 4), floats(3, 4)], dtypes=["float32"])
case("SELECT_V2", [flags(3, 1), floats(3, 4), floats(4)], dtypes=["float32"])
case("REVERSE_V2", [floats(2, 3, 4), i32(1)])
case(
    "REVERSE_SEQUENCE", [floats(4, 3, 2), np.array([2, 4, 1], np.int32)], "ReverseSequenceOptions", SeqDim=0, BatchDim=1
)
case(
    "REVERSE_SEQUENCE:swapped",
    [floats(3, 2, 4), np.array([2, 4, 1], np.int32)],
    "ReverseSequenceOptions",
    SeqDim=2,
    BatchDim=0,
)
case(
    "UNIQUE", [np.array([3, 1, 3, 2, 1], np.int32)], "UniqueOptions", outputs=2, dtypes=["int32", "int32"], IdxOutType=2
)
case("MATRIX_DIAG", [floats(2, 3)])
case("MATRIX_SET_DIAG", [floats(2, 3, 4), floats(2, 3)])
case("MATRIX_SET_DIAG:tall", [floats(2, 4, 3), floats(2, 3)])
case("SEGMENT_SUM", [floats(5, 2), np.array([0, 0, 1, 2, 2], np.int32)])
for _name in ("MAX", "MIN", "PROD", "SUM"):
    case(f"UNSORTED_SEGMENT_{_name}", [floats(5, 2), np.array([1, 0, -1, 1, 3], np.int32), scalar(5)])
case("BUCKETIZE", [3 * floats(9)], "BucketizeOptions", dtypes=["int32"], Boundaries=np.array([-1.0, 0.0, 2.5]))
case("BUCKETIZE:int32", [integers(-3, 3, 9)], "BucketizeOptions", dtypes=["int32"], Boundaries=np.array([-1.0, 0.0]))
_BOXES = np.concatenate([floats(20, 2), floats(20, 2) + 1.5], axis=1)
case(
    "NON_MAX_SUPPRESSION_V4",
    [_BOXES, positive(20), scalar(6), [np.array(0.3, np.float32)], [np.array(0.2, np.float32)]],
    outputs=2,
    dtypes=["int32", "int32"],
)
case(
    "NON_MAX_SUPPRESSION_V5",
    [
        _BOXES,
        positive(20),
        scalar(6),
        [np.array(0.6, np.float32)],
        [np.array(0.2, np.float32)],
        [np.array(0.5, np.float32)],
    ],
    outputs=3,
    dtypes=["int32", "float32", "int32"],
)

# Fills
case("FILL", [np.array([2, 3], np.int32), np.array(5, np.float32)], dtypes=["float32"])
case("FILL:constant", [i32(2, 3), floats()])
case("ZEROS_LIKE", [floats(2, 3)])
case("RANGE", [np.array(2, np.int32), np.array(11, np.int32), np.array(3, np.int32)])
case("RANGE:float", [np.array(2, np.float32), np.array(-1, np.float32), np.array(-0.5, np.float32)])

# Space
case("SPACE_TO_DEPTH", [floats(2, 4, 6, 3)], "SpaceToDepthOptions", BlockSize=2)
case("DEPTH_TO_SPACE", [floats(2, 4, 6, 8)], "DepthToSpaceOptions", BlockSize=2)
case("SPACE_TO_BATCH_ND", [floats(2, 4, 6, 3), i32(2, 3), [np.array([[0, 0], [0, 0]], np.int32)]])
case("SPACE_TO_BATCH_ND:padded", [floats(2, 4, 5, 3), i32(2, 3), [np.array([[1, 1], [0, 4]], np.int32)]])
case("SPACE_TO_BATCH_ND:batch", [floats(2, 4, 5, 3), i32(2, 3), [np.array([[1, 1], [0, 4]], np.int32)]], signature=True)
case(
    "BATCH_TO_SPACE_ND:batch", [floats(12, 2, 3, 3), i32(2, 3), [np.array([[1, 0], [2, 1]], np.int32)]], signature=True
)
case("BATCH_TO_SPACE_ND", [floats(12, 2, 3, 3), i32(2, 3), [np.array([[0, 0], [0, 0]], np.int32)]])
case("BATCH_TO_SPACE_ND:cropped", [floats(12, 2, 3, 3), i32(2, 3), [np.array([[1, 0], [2, 1]], np.int32)]])
