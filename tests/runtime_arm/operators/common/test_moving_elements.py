"""Operators that only move elements: a run allocates nothing of a blob's size."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

from runtime_arm.netdef import OperatorDef
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

IMAGE = (2, 32, 80, 81)
INDICES = np.arange(40, dtype=np.int32)


def op(type: str, inputs: int = 1, outputs: int = 1, domain: str = "", **arguments: Any) -> OperatorDef:
    names = [f"x{i}" for i in range(inputs)]
    return OperatorDef.of(type, names, [f"y{i}" for i in range(outputs)], domain=domain, **arguments)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


CASES: List[Tuple[OperatorDef, List[Any]]] = [
    (op("Transpose", axes=[0, 2, 3, 1]), []),
    (op("NCHW2NHWC"), []),
    (op("ChannelShuffle", group=4), []),
    (op("Concat", 2, 2, axis=1), [np.zeros(IMAGE, np.float32)]),
    (op("Split", 1, 2, axis=1), []),
    (op("Slice", starts=[0, 0, 1], ends=[-1, -1, 70]), []),
    (op("PadImage", pad=2), []),
    (op("PadImage", pad_t=2, pad_b=1, pad_l=0, pad_r=0, mode="reflect"), []),
    (op("Pad", 2, domain="onnx", mode="edge"), [ints(0, 1, 2, 0, 0, 0, 1, 0)]),
    (op("Tile", tiles=2, axis=1), []),
    (op("Tile", 2, domain="onnx"), [ints(1, 2, 1, 2)]),
    (op("Expand", 2), [ints(2, 2, 32, 80, 81)]),
    (op("Gather", 2, axis=2), [INDICES]),
    (op("Gather", 2), [INDICES % 2]),
    (op("BatchGather", 2), [INDICES % 32]),
    (op("DepthToSpace", domain="onnx", blocksize=4), []),
    (op("DepthToSpace", domain="onnx", blocksize=2, mode="CRD"), []),
    (op("SpaceToBatch", block_size=1), []),
    (op("Im2Col", kernel=3), []),
    (op("Trilu", domain="onnx"), []),
    (op("ScatterAssign", 3), [np.array([1], np.int32), np.zeros((1, *IMAGE[1:]), np.float32)]),
]


@pytest.mark.parametrize(
    ("operator", "others"), CASES, ids=[f"{one.full_type}-{i}" for i, (one, _) in enumerate(CASES)]
)
def test_a_run_allocates_nothing(operator: OperatorDef, others: List[Any]) -> None:
    inputs = [np.zeros(IMAGE, np.float32), *others]
    constants = [i for i, x in enumerate(inputs) if x.dtype == np.int64]
    assert allocated_nbytes(operator, inputs, "NUMPY", constants) < NUMPY_NBYTES
