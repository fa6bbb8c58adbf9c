"""What the real Caffe2 refuses is refused: arguments out of range, inputs and outputs that do not fit together."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef

Shapes = Sequence[Tuple[int, ...]]
ROWS = ((3, 5), (3, 5))
BATCH_NORM = ((2, 3, 4), (3,), (3,), (3,), (3,))
MOMENTS = ((4,), (4,), (4,), (4,), (1,))


def run(type: str, inputs: Sequence[Any], outputs: Sequence[str], **arguments: Any) -> Workspace:
    workspace, names = Workspace(), [f"x{number}" for number in range(len(inputs))]
    for name, value in zip(names, inputs):
        workspace.feed(name, value)
    op = OperatorDef.of(type, names, outputs, **arguments)
    workspace.run_net_once(NetDef(op=(op,)))
    return workspace


@pytest.mark.parametrize(
    ("type", "shapes", "outputs", "arguments", "reason"),
    [
        ("Adadelta", MOMENTS, 3, {"epsilon": -1e-4}, "epsilon must be"),
        ("Adadelta", MOMENTS, 3, {"decay": -0.9}, "decay must be"),
        ("ClipTensorByScaling", ((5,), (1,)), 1, {"threshold": 0.0}, "threshold must be"),
        ("Lars", ((5,), (5,), (1,), (1,), (1,)), 1, {"lr_min": -0.5}, "lr_min must be"),
        ("Lars", ((5,), (5,), (1,), (1,), (1,)), 1, {"offset": -0.5}, "offset must be"),
        ("SpatialBN", BATCH_NORM, 1, {"is_test": 1, "epsilon": -0.01}, "epsilon must be"),
        ("SpatialBN", BATCH_NORM, 1, {"is_test": 1, "momentum": -0.5}, "momentum must be"),
        ("LpPool", ((1, 2, 6),), 1, {"kernel": 2}, "four dimensions"),
        ("MaxPool", ((1, 2, 6),), 1, {"kernels": [2], "stride": 2}, "same number of dimensions"),
        ("AveragePool", ((1, 2, 6),), 1, {"kernels": [2], "strides": [1, 2]}, "same number of dimensions"),
        ("AveragePool", ((1, 2, 6),), 1, {"kernels": [2], "pad": 1}, "same number of dimensions"),
        ("LpNormGradient", ((3, 4), (1,)), 1, {"p": 3}, "p must be"),
        ("CrossEntropyGradient", (*ROWS, (3, 1)), 1, {}, "dY must be a vector"),
        ("LayerNormGradient", ((3, 5), (3, 5), (3,), (3,), (3, 5)), 3, {"elementwise_affine": 1}, "sixth input"),
        ("DotProductWithPaddingGradient", ((3, 4), (3, 8), (3, 1)), 2, {"replicate": 1}, "dZ a number for each"),
    ],
)
def test_floats_that_caffe2_refuses(
    type: str, shapes: Shapes, outputs: int, arguments: Dict[str, Any], reason: str
) -> None:
    given = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(ArmnetError, match=reason):
        run(type, given, [f"y{number}" for number in range(outputs)], **arguments)


def test_a_gradient_of_prelu_in_place_is_refused() -> None:
    given = np.ones((2, 3, 2), np.float32)
    workspace = Workspace()
    for name, value in (("x", given), ("dy", given), ("slope", np.ones(3, np.float32))):
        workspace.feed(name, value)
    op = OperatorDef.of("PReluGradient", ["x", "dy", "x", "slope"], ["dx", "dslope"])
    with pytest.raises(ArmnetError, match="in place"):
        workspace.run_net_once(NetDef(op=(op,)))


@pytest.mark.parametrize("count", [np.array([-1]), np.array([1.0])])
def test_counts_are_integers_from_0_on(count: Any) -> None:
    workspace = Workspace()
    workspace.feed("it", count)
    with pytest.raises(ArmnetError, match="count must"):
        workspace.run_net_once(NetDef(op=(OperatorDef.of("Iter", ["it"], ["it"]),)))


def test_iter_without_inputs_and_outputs_is_refused() -> None:
    with pytest.raises(ArmnetError):
        Workspace().run_net_once(NetDef(op=(OperatorDef.of("Iter", [], []),)))


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "reason"),
    [
        ("Gather", [np.ones((5, 3), np.float32), np.array([0, 1])], {"match_outer": 1}, "match_outer needs"),
        (
            "PackSegments",
            [np.array([2, 3], np.int32), np.ones((5, 2), np.float32)],
            {"return_presence_mask": 1},
            "need each other",
        ),
        (
            "ScatterWeightedSum",
            [
                np.ones((6, 0), np.float32),
                np.ones(1, np.float32),
                np.zeros(0, np.int64),
                np.ones((0, 0), np.float32),
                np.ones(1, np.float32),
            ],
            {},
            "must have a dimension and elements",
        ),
    ],
)
def test_other_inputs_that_caffe2_refuses(
    type: str, inputs: Sequence[Any], arguments: Dict[str, Any], reason: str
) -> None:
    with pytest.raises(ArmnetError, match=reason):
        run(type, inputs, ["x0" if type == "ScatterWeightedSum" else "y"], **arguments)


def test_int8_leaky_relu_with_an_alpha_of_1_is_refused() -> None:
    quantization = {"Y_scale": 0.5, "Y_zero_point": 7}
    ops = (
        OperatorDef.of("Int8Quantize", ["x"], ["q"], **quantization),
        OperatorDef.of("Int8LeakyRelu", ["q"], ["y"], alpha=1.0, **quantization),
    )
    workspace = Workspace()
    workspace.feed("x", np.ones(3, np.float32))
    with pytest.raises(ArmnetError, match="alpha"):
        workspace.run_net_once(NetDef(op=ops))


def test_split_by_lengths_splits_the_channels() -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    workspace = run("SplitByLengths", [x, np.array([2, 3], np.int32)], ["a", "b"])
    assert np.array_equal(workspace.fetch("a"), x[:, :2])
    assert np.array_equal(workspace.fetch("b"), x[:, 2:])
