"""Fused operators do what their parts do one after the other, by every engine; recorded runs of OneFlow's agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ArmnetError, ShapeError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.paths import module_at

RANDOM = np.random.default_rng(5)
ACTIVATIONS: List[Dict[str, Any]] = [
    {},
    {"activation": "Relu"},
    {"activation": "Clip", "min": 0.0, "max": 6.0},
    {"activation": "LeakyRelu", "alpha": 0.1},
    {"activation": "onnx.HardSwish"},
    {"activation": "Swish"},
    {"activation": "Sigmoid"},
    {"activation": "Elu", "alpha": 0.5},
    {"activation": "PRelu"},
    {"activation": "onnx.Gelu"},
]


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def name_of(arguments: Dict[str, Any]) -> str:
    return str(arguments.get("activation", "none"))


def fused_conv(x: Array, w: Array, *, bias: bool = True, addend: Optional[Array] = None, **arguments: Any) -> Any:
    """The operator and its operands."""
    filters = w.shape[0]
    operands = [x, w, normal(filters) if bias else None, addend]
    names = ["x", "w", "b" if bias else "", "" if addend is None else "r"]
    if arguments.get("activation") == "PRelu":
        operands.append(normal(filters))
        names.append("s")
    return OperatorDef.of("FusedConv", names, ["y"], domain="armnet", **arguments), operands


@pytest.mark.parametrize("arguments", ACTIVATIONS, ids=name_of)
@pytest.mark.parametrize("added", [False, True])
def test_every_engine_of_conv_is_one_of_fused_conv(arguments: Dict[str, Any], added: bool) -> None:
    for kernel, pad, order in ((1, 0, "NCHW"), (3, 1, "NCHW"), (1, 0, "NHWC"), (3, 1, "NHWC")):
        shape = (2, 6, 40, 41) if order == "NCHW" else (2, 40, 41, 6)
        w = normal(8, 6, kernel, kernel) if order == "NCHW" else normal(8, kernel, kernel, 6)
        y = (2, 8, 40, 41) if order == "NCHW" else (2, 40, 41, 8)
        op, operands = fused_conv(
            normal(*shape), w, addend=normal(*y) if added else None, kernel=kernel, pad=pad, order=order, **arguments
        )
        engines = assert_engines_match_reference(op, operands, terms=6 * kernel**2, magnitude=30.0)
        assert "IM2COL" in engines
        assert ("POINTWISE" in engines) == (kernel == 1)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kernel", "group", "least"),
    [(1, 1, {"POINTWISE", "IM2COL"}), (3, 1, {"WINOGRAD", "IM2COL"}), (3, 8, {"DEPTHWISE", "IM2COL"})],
)
def test_a_floor_by_every_engine(kernel: int, group: int, least: Any, bias: bool, added: bool) -> None:
    x, w, floor = normal(2, 8, 40, 41), normal(8, 8 // group, kernel, kernel), normal(8, 1, 1) - 1
    op, operands = with_floor(
        fused_conv(
            x, w, bias=bias, addend=normal(2, 8, 40, 41) if added else None, kernel=kernel, pad=kernel // 2, group=group
        ),
        floor,
    )
    engines = assert_engines_match_reference(op, operands, terms=8 * kernel**2, magnitude=30.0, constants=(1, 4))
    assert least <= set(engines)
    (y,) = run_kernel(op, operands)
    (before,) = run_kernel(op.replace(input=op.input[:4], arg=op.arg[:-1]), operands[:4])
    np.testing.assert_array_equal(y, np.maximum(before, floor))
    assert (y == floor).any(axis=(0, 2, 3)).all()


def with_floor(made: Any, floor: Array, **arguments: Any) -> Any:
    op, operands = made
    named = OperatorDef.of(op.type, [*op.input, "f"], ["y"], domain="armnet", activation="onnx.Max", **arguments)
    return named.replace(arg=(*op.arg, *named.arg)), [*operands, floor]


@pytest.mark.parametrize(
    ("floor", "arguments", "complaint"),
    [
        ((8,), {}, "one number per channel"),
        ((1, 1, 1), {}, "one number per channel"),
        ((8, 4, 4), {}, "one number per channel"),
        ((8, 1, 1), {"order": "NHWC"}, "channels first"),
    ],
)
def test_a_floor_is_one_number_a_channel(floor: Any, arguments: Any, complaint: str) -> None:
    x, w = normal(1, 4, 6, 6), normal(8, 4, 3, 3)
    if arguments:
        x, w = normal(1, 6, 6, 4), normal(8, 3, 3, 4)
    op, operands = with_floor(fused_conv(x, w, kernel=3), normal(*floor), **arguments)
    with pytest.raises(ShapeError, match=complaint):
        run_kernel(op, operands)


@pytest.mark.parametrize(("activation", "precise"), [("onnx.HardSwish", True), ("onnx.Gelu", False)])
def test_an_activation_without_a_formula_for_double_precision_is_left_to_the_reference(
    activation: str, precise: bool
) -> None:
    """The formulas of Gelu and Erf approximate for float32."""
    x, w, b = (RANDOM.standard_normal(shape) for shape in ((2, 4, 9, 9), (6, 4, 3, 3), (6,)))
    conv = OperatorDef.of("FusedConv", ["x", "w", "b"], ["y"], domain="armnet", kernel=3, activation=activation)
    fc = OperatorDef.of("FusedFC", ["x", "w", "b"], ["y"], domain="armnet", activation=activation)
    for op, inputs in ((conv, [x, w, b]), (fc, [x[0, 0], w[:, 0].reshape(6, 9), b])):
        assert bool(assert_engines_match_reference(op, inputs, terms=37, magnitude=20.0)) == precise


def test_a_floor_is_for_convolutions() -> None:
    op = OperatorDef.of("FusedFC", ["x", "w", "b", "", "f"], ["y"], domain="armnet", activation="onnx.Max")
    with pytest.raises(ShapeError, match="a floor is for convolutions"):
        run_kernel(op, [normal(2, 5), normal(4, 5), normal(4), None, normal(4)])


@pytest.mark.parametrize("arguments", ACTIVATIONS, ids=name_of)
def test_the_reference_is_conv_then_add_then_activation(arguments: Dict[str, Any]) -> None:
    x, w, r = normal(1, 4, 6, 6), normal(8, 2, 3, 3), normal(1, 8, 4, 4)
    op, operands = fused_conv(x, w, addend=r, kernel=3, group=2, **arguments)
    (fused,) = run_kernel(op, operands)
    (conv,) = run_kernel(OperatorDef.of("Conv", ["x", "w", "b"], ["y"], kernel=3, group=2), operands[:3])
    result = (conv.astype(np.float64) + r).astype(np.float32)
    activation = activation_of(op)
    if activation is not None:
        (result,) = run_kernel(activation, [result, *operands[4:]])
    np.testing.assert_array_equal(fused, result)


@pytest.mark.parametrize("arguments", ACTIVATIONS, ids=name_of)
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_batch_normalisation_in_blocks(arguments: Dict[str, Any], added: bool, order: str) -> None:
    x = normal(2, 7, 60, 61) if order == "NCHW" else normal(2, 60, 61, 7)
    operands = [x, normal(7), normal(7), normal(7), np.abs(normal(7)) + 1, normal(*x.shape) if added else None]
    if arguments.get("activation") == "PRelu":
        operands.append(normal(7))
    names = [name if value is not None else "" for name, value in zip("xstmvrp", operands)]
    op = OperatorDef.of("FusedBatchNorm", names, ["y"], domain="armnet", is_test=1, order=order, **arguments)
    for constants in ((), (1, 2, 3, 4)):
        assert_engines_match_reference(op, operands, magnitude=20.0, constants=constants)


@pytest.mark.parametrize("arguments", ACTIVATIONS, ids=name_of)
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    ("type", "x", "w", "y", "rest"),
    [
        ("FC", (3, 2, 40), (70, 80), (3, 70), {}),
        ("FCTransposed", (3, 2, 40), (80, 70), (3, 70), {}),
        ("ConvTranspose", (2, 6, 20, 31), (6, 4, 3, 3), (2, 8, 41, 63), {"kernel": 3, "stride": 2, "group": 2}),
    ],
)
def test_other_layers_do_what_their_parts_do(
    type: str, x: Any, w: Any, y: Any, rest: Any, arguments: Dict[str, Any], added: bool
) -> None:
    operands: List[Any] = [normal(*x), normal(*w), normal(y[1]), normal(*y) if added else None]
    if arguments.get("activation") == "PRelu":
        operands.append(normal(y[1]))
    names = [name if value is not None else "" for name, value in zip("xwbrs", operands)]
    op = OperatorDef.of(f"Fused{type}", names, ["y"], domain="armnet", **rest, **arguments)
    engines = assert_engines_match_reference(op, operands, terms=80, magnitude=60.0)
    assert engines == (["COL2IM"] if type == "ConvTranspose" else ["NUMPY"])
    (plain,) = run_kernel(OperatorDef.of(type, names[:3], ["y"], **rest), operands[:3])
    result = plain if operands[3] is None else (plain.astype(np.float64) + operands[3]).astype(np.float32)
    activation = activation_of(op)
    if activation is not None:
        (result,) = run_kernel(activation, [result, *operands[4:]])
    np.testing.assert_array_equal(run_kernel(op, operands)[0], result)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"activation": "Relu"}, {"activation": "Clip", "min": 0.25, "max": 1.0}, {"activation": "Sigmoid"}],
    ids=name_of,
)
@pytest.mark.parametrize(
    "rest",
    [{"kernel": 3, "stride": 2, "pad": 1}, {"kernel": 2, "stride": 2, "order": "NHWC"}, {"global_pooling": 1}],
    ids=str,
)
def test_a_pool_does_what_its_parts_do(rest: Dict[str, Any], arguments: Dict[str, Any]) -> None:
    op, x = OperatorDef.of("FusedMaxPool", ["x"], ["y"], domain="armnet", **rest, **arguments), normal(2, 6, 40, 41)
    x[1, 2, 3] = np.nan
    limited = arguments.get("activation") != "Sigmoid"
    assert assert_engines_match_reference(op, [x]) == (["NUMPY"] if limited else [])
    (result,) = run_kernel(OperatorDef.of("MaxPool", ["x"], ["y"], **rest), [x])
    activation = activation_of(op)
    if activation is not None:
        (result,) = run_kernel(activation, [result])
    np.testing.assert_array_equal(run_kernel(op, [x])[0], result)


def test_sums_that_broadcast_are_left_to_the_reference() -> None:
    for type, w in (("FusedFC", (4, 5)), ("FusedConvTranspose", (5, 4, 1, 1))):
        x, rest = (normal(3, 5), {}) if type == "FusedFC" else (normal(3, 5, 1, 1), {"kernel": 1})
        op = OperatorDef.of(type, ["x", "w", "b", "r"], ["y"], domain="armnet", **rest)
        operands = [x, normal(*w), normal(4), normal(1)]
        assert supporting_engines(op, operands) == []
        assert run_kernel(op, operands)[0].shape == (3, 4, *x.shape[2:])


def test_running_allocates_no_blob() -> None:
    x, w, r = normal(1, 16, 96, 96), normal(16, 16, 3, 3), normal(1, 16, 96, 96)
    op, operands = fused_conv(x, w, addend=r, kernel=3, pad=1, activation="Swish")
    assert allocated_nbytes(op, operands, "IM2COL") < NUMPY_NBYTES < r.nbytes // 4


@pytest.mark.parametrize(
    ("change", "error", "complaint"),
    [
        ({"activation": "Softmax"}, ArgumentError, "activation 'Softmax' cannot be fused"),
        ({"activation": "onnx.Nothing"}, ArgumentError, "activation 'onnx.Nothing' cannot be fused"),
        ({"activation": "ReluN", "n": -1.0}, ArgumentError, "n must be greater than 0"),
        ({"addend": normal(1, 8, 4, 2)}, ShapeError, "shapes do not broadcast"),
        ({"addend": np.zeros((1, 8, 4, 4))}, ShapeError, "inputs must be of one dtype"),
        ({"kernel": 2}, ShapeError, "the kernel must have the size of the weights"),
    ],
)
def test_what_does_not_fit_is_refused(change: Dict[str, Any], error: Any, complaint: str) -> None:
    op, operands = fused_conv(normal(1, 4, 6, 6), normal(8, 4, 3, 3), **{"kernel": 3, **change})
    with pytest.raises(error, match=complaint):
        run_kernel(op, operands)


@pytest.mark.parametrize("addend", [(1, 8, 4, 1), (8, 1, 1), (3, 8, 4, 4)])
def test_a_sum_that_broadcasts_is_left_to_the_reference(addend: Any) -> None:
    op, operands = fused_conv(normal(1, 4, 6, 6), normal(8, 4, 3, 3), addend=normal(*addend), kernel=3)
    assert not supporting_engines(op, operands)
    (conv,) = run_kernel(OperatorDef.of("Conv", ["x", "w", "b"], ["y"], kernel=3), operands[:3])
    assert_close(run_kernel(op, operands)[0], conv + operands[3])
    norm = [normal(1, 8, 4, 4), *(np.abs(normal(8)) + 1 for _ in range(4)), normal(*addend)]
    op = OperatorDef.of("FusedBatchNorm", list("xstmvr"), ["y"], domain="armnet", is_test=1)
    assert not supporting_engines(op, norm)


def test_a_slope_needs_prelu() -> None:
    op = OperatorDef.of("FusedConv", ["x", "w", "", "", "s"], ["y"], domain="armnet", kernel=3, activation="Relu")
    with pytest.raises(ShapeError, match="a slope needs PRelu"):
        run_kernel(op, [normal(1, 4, 6, 6), normal(8, 4, 3, 3), None, None, normal(8)])


@pytest.mark.parametrize("type", ["FusedConv", "FusedMaxPool"])
def test_prelu_needs_a_slope(type: str) -> None:
    op = OperatorDef.of(
        type,
        ["x", "w"][: 2 if type == "FusedConv" else 1],
        ["y"],
        domain="armnet",
        kernel=3,
        stride=2,
        activation="PRelu",
    )
    with pytest.raises(ShapeError, match="PRelu needs a slope"):
        run_kernel(op, [normal(1, 4, 6, 6), normal(8, 4, 3, 3)][: len(op.input)])
    with pytest.raises(ShapeError, match="Max needs a floor"):
        run_kernel(
            op.replace(arg=(*op.arg[:-1], Argument.of("activation", "onnx.Max"))),
            [normal(1, 4, 6, 6), normal(8, 4, 3, 3)][: len(op.input)],
        )


def test_training_is_not_fused() -> None:
    op = OperatorDef.of("FusedBatchNorm", list("xstmv"), ["y"], domain="armnet", is_test=0)
    with pytest.raises(ArmnetError, match="is_test must be 1"):
        run_kernel(op, [normal(1, 4, 6, 6), *(normal(4) for _ in range(4))])


def oneflow_cases(shared: Path) -> List[Dict[str, Any]]:
    cases = module_at(shared / "goldens" / "load_goldens.py").oneflow_cases()
    return [case for case in cases if case["status"] == "ok" and not case["training"]]


def test_oneflows_evaluation_of_fused_batch_normalisation(shared: Path) -> None:
    """Every recorded case in evaluation mode: BN, BN + ReLU, BN + addition + ReLU."""
    cases = oneflow_cases(shared)
    assert {case["kind"] for case in cases} == {"bn", "bn_relu", "bn_relu_unfused", "bn_add_relu"}
    for case in cases:
        assert case["axis"] == 1
        a = case["a"]
        channels = a["x"].shape[1]
        scale, bias = a.get("gamma", np.ones(channels, np.float32)), a.get("beta", np.zeros(channels, np.float32))
        operands = [a["x"], scale, bias, a["running_mean_in"], a["running_var_in"], a.get("addend")]
        names = [name if value is not None else "" for name, value in zip("xstmvr", operands)]
        activation = {"activation": "Relu"} if case["kind"] != "bn" else {}
        op = OperatorDef.of(
            "FusedBatchNorm", names, ["y"], domain="armnet", is_test=1, epsilon=case["eps"], **activation
        )
        for engine in ("REFERENCE", *lookup(op).kernels):
            (y,) = run_kernel(op, operands, engine)
            assert_close(y, a["y"], what=f"{case['id']} by {engine}")


def test_a_normalisation_may_overwrite_its_input() -> None:
    x, r = normal(1, 3, 50, 50), normal(1, 3, 50, 50)
    constants = {name: np.abs(normal(3)) + 1 for name in "stmv"}
    net = NetDef.from_text("""
        net "": x, s, t, m, v, r -> y
        Sigmoid(x) -> a
        armnet.FusedBatchNorm(a, s, t, m, v, r) -> y  is_test=1  activation="LeakyRelu"
    """)
    executor, feeds = Executor(net, constants), {"x": x, "r": r}
    in_place, apart = (executor.run(feeds, fetches)["y"] for fetches in (["y"], ["y", "a", "r"]))
    np.testing.assert_array_equal(in_place, apart)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_no_image_is_transposed_to_none(order: str) -> None:
    shape = (0, 3, 3, 9) if order == "NCHW" else (0, 3, 9, 3)
    op = OperatorDef.of(
        "FusedConvTranspose",
        ["x", "w", "b", "", "s"],
        ["y"],
        domain="armnet",
        kernel=1,
        order=order,
        activation="PRelu",
    )
    operands = [normal(*shape), normal(3, 1, 1, 1), normal(1), None, normal(1)]
    assert "COL2IM" in assert_engines_match_reference(op, operands, terms=3)
