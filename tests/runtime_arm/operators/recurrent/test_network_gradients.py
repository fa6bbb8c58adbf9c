"""RecurrentNetworkGradient against the gradients of the same steps, one after the other in a plain net."""

from __future__ import annotations

from typing import Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import Array, NetDef, OperatorDef
from tests.support.operands import caffe2, random

STEPS, BATCH, SIZE = 4, 2, 3
BLOBS = ("x", "first_a", "first_b", "wa", "wb", "u")


def step(x: str, a: str, b: str, new_a: str, new_b: str, mark: str = "") -> List[OperatorDef]:
    """Two layers: a' = tanh(wa a + x), b' = tanh(wb b + u a')."""
    return [
        caffe2("Mul", f"{a} wa", f"pa{mark}", broadcast=1),
        caffe2("Sum", f"pa{mark} {x}", f"sa{mark}"),
        caffe2("Tanh", f"sa{mark}", new_a),
        caffe2("Mul", f"{b} wb", f"pb{mark}", broadcast=1),
        caffe2("Mul", f"{new_a} u", f"pu{mark}", broadcast=1),
        caffe2("Sum", f"pb{mark} pu{mark}", f"sb{mark}"),
        caffe2("Tanh", f"sb{mark}", new_b),
    ]


# As caffe2.python.recurrent writes it: a' has a gradient from outside, to which that of b' is added.
BACKWARDS = NetDef(
    op=(
        caffe2("TanhGradient", "b b_grad", "sb_grad"),
        caffe2("MulGradient", "sb_grad a u", "a_grad_accum u_grad", broadcast=1),
        caffe2("Sum", "a_grad a_grad_accum", "a_grad"),
        caffe2("MulGradient", "sb_grad b_prev wb", "b_prev_grad wb_grad", broadcast=1),
        caffe2("TanhGradient", "a a_grad", "x_t_grad"),
        caffe2("MulGradient", "x_t_grad a_prev wa", "a_prev_grad wa_grad", broadcast=1),
    ),
    external_input=("a", "b", "a_grad", "b_grad", "x_t", "a_prev", "b_prev", "wa", "wb", "u", "a", "b"),
)


def network(with_gradients: List[int]) -> OperatorDef:
    return caffe2(
        "RecurrentNetwork",
        " ".join(BLOBS),
        "all_a last_a all_b last_b steps",
        step_net=NetDef(
            op=tuple(step("x_t", "a_prev", "b_prev", "a", "b")),
            external_input=("x_t", "a_prev", "b_prev", "wa", "wb", "u"),
        ),
        backward_step_net=BACKWARDS,
        link_internal=["a_prev", "a", "b_prev", "b", "x_t"],
        link_external=["as", "as", "bs", "bs", "x"],
        link_offset=[0, 1, 0, 1, 0],
        backward_link_internal=["a_grad", "a_prev_grad", "b_grad", "b_prev_grad", "x_t_grad"],
        backward_link_external=["as_grad", "as_grad", "bs_grad", "bs_grad", "x_grad"],
        backward_link_offset=[1, 0, 1, 0, 0],
        recurrent_states=["as", "bs"],
        initial_recurrent_state_ids=[1, 2],
        alias_src=["as", "as", "bs", "bs"],
        alias_dst=["all_a", "last_a", "all_b", "last_b"],
        alias_offset=[1, -1, 1, -1],
        param=[3, 4, 5],
        param_grads=["wa_grad", "wb_grad", "u_grad"],
        outputs_with_grads=with_gradients,
    )


def unrolled() -> NetDef:
    names = [f"x{t}" for t in range(STEPS)]
    ops = [caffe2("Split", "x", " ".join(f"{name}_3d" for name in names), axis=0)]
    a, b = "first_a", "first_b"
    for t, name in enumerate(names):
        ops.append(caffe2("Squeeze", f"{name}_3d", name, dims=[0]))
        ops += step(name, a, b, f"a{t}", f"b{t}", str(t))
        a, b = f"a{t}", f"b{t}"
    for state in "ab":
        ops += [caffe2("ExpandDims", f"{state}{t}", f"{state}{t}_3d", dims=[0]) for t in range(STEPS)]
        ops.append(
            caffe2("Concat", " ".join(f"{state}{t}_3d" for t in range(STEPS)), f"all_{state} {state}_dims", axis=0)
        )
        ops.append(caffe2("Copy", f"{state}{STEPS - 1}_3d", f"last_{state}"))
    return NetDef(op=tuple(ops))


def gradients(net: NetDef, feeds: Dict[str, Array], tops: Dict[str, Array]) -> Dict[str, Array]:
    made, names = add_gradient_operators(net, {y: f"{y}_top" for y in tops})
    workspace = Workspace()
    for name, value in {**feeds, **{f"{y}_top": value for y, value in tops.items()}}.items():
        workspace.feed(name, value)
    workspace.run_net_once(made)
    return {name: workspace.fetch(names[name]) for name in BLOBS}


@pytest.mark.parametrize("with_gradients", [[2], [3], [0, 2], [1, 2], [0, 1, 2, 3]])
def test_a_layer_gets_the_gradient_of_its_output_and_that_of_the_next_layer(with_gradients: List[int]) -> None:
    shapes = [(STEPS, BATCH, SIZE), (BATCH, SIZE), (BATCH, SIZE), *[(SIZE,)] * 3]
    feeds = {name: random(shape, seed) for seed, (name, shape) in enumerate(zip(BLOBS, shapes))}
    op = network(with_gradients)
    rows = {"all": STEPS, "last": 1}
    tops = {op.output[i]: random((rows[op.output[i][:-2]], BATCH, SIZE), 9 + i) for i in with_gradients}
    found, wanted = (gradients(net, feeds, tops) for net in (NetDef(op=(op,)), unrolled()))
    for name in BLOBS:
        assert_close(found[name], wanted[name], terms=64, magnitude=float(np.abs(wanted[name]).max()), what=name)
