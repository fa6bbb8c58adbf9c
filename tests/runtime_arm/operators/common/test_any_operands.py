"""Random operands: every operator of Caffe2's refuses them or returns what its shape function says."""

from __future__ import annotations

import random
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import DataDependent, Operator, registered
from runtime_arm.registry.specs import TensorSpec

TRIALS = 60
OPERATORS = [schema for schema in registered() if schema.domain == "" and not schema.control]
SHAPES = [
    (),
    (0,),
    (1,),
    (2,),
    (3,),
    (6,),
    (2, 3),
    (3, 2),
    (0, 3),
    (3, 0),
    (2, 3, 4),
    (1, 2, 5, 5),
    (2, 3, 4, 4),
    (4, 2, 2, 2),
    (2, 2, 3, 3, 3),
    (2, 5),
]
DTYPES = [*["float32"] * 6, *["int32"] * 4, *["int64"] * 3, "bool", "float64", "uint8"]
ARGUMENTS: Dict[str, List[Any]] = {
    "axis": [0, 1, -1],
    "axes": [[0], [1, 0]],
    "block_size": [2],
    "boundaries": [[0.0, 1.0]],
    "broadcast": [0, 1],
    "dims": [[0], [1]],
    "ends": [[-1, -1]],
    "group": [1, 2],
    "is_test": [1],
    "k": [1, 2],
    "keepdims": [0, 1],
    "kernel": [1, 2, 3],
    "lengths": [[2, 1], [3]],
    "mask": [[1, 2]],
    "max_length": [2],
    "modulo": [7],
    "num_bins": [3],
    "num_reduce_dim": [0, 1, 2],
    "order": ["NCHW", "NHWC"],
    "p": [1, 2],
    "pad": [0, 1],
    "quantile": [0.5],
    "shape": [[2, 3], [6], [-1]],
    "split": [[1, 2]],
    "starts": [[0, 0]],
    "stride": [1, 2],
    "target_length": [3],
    "tiles": [2],
    "to": [1, 2, 10],
    "values": [[1.0, 2.0]],
}


def operand(draw: random.Random) -> np.ndarray:
    numbers = np.random.default_rng(draw.randrange(1 << 30))
    shape = draw.choice(SHAPES)
    values = numbers.integers(0, 4, shape) if draw.random() < 0.7 else numbers.standard_normal(shape) * 3
    return np.asarray(values).astype(draw.choice(DTYPES))


def count(limits: Tuple[int, Any], draw: random.Random) -> int:
    low, high = limits
    return draw.randint(low, low + 2 if high is None else high)


def specs_of(schema: Operator, op: OperatorDef, operands: List[np.ndarray], known: bool) -> Any:
    """What the shape function returns; None if it depends on data."""
    specs = [TensorSpec.known(x) if known else TensorSpec(x.shape, x.dtype) for x in operands]
    try:
        return schema.infer(op, specs)
    except DataDependent:
        return None if known else specs_of(schema, op, operands, known=True)


@pytest.mark.parametrize("schema", OPERATORS, ids=[schema.type for schema in OPERATORS])
def test_operands_are_refused_or_give_the_inferred_shapes(schema: Operator) -> None:
    draw = random.Random(schema.type)
    for _ in range(TRIALS):
        operands = [operand(draw) for _ in range(count(schema.inputs, draw))]
        if draw.random() < 0.4:
            operands = [operands[0].copy() for _ in operands]
        names = [f"x{i}" for i in range(len(operands))], [f"y{i}" for i in range(count(schema.outputs, draw))]
        given = {name: draw.choice(values) for name, values in ARGUMENTS.items() if draw.random() < 0.25}
        op = OperatorDef.of(schema.type, *names, **given)
        try:
            with np.errstate(all="ignore"):
                specs = specs_of(schema, op, operands, known=draw.random() < 0.7)
                results = schema.evaluate(op, [x.copy() for x in operands])
        except ArmnetError:
            continue
        for spec, result in zip(specs or (), results):
            assert spec.value is not None or (spec.shape, spec.dtype) == (result.shape, result.dtype), (op, operands)
