"""Caffe's nets and solvers in training: sharing, freezing, losses, splits, and texts that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close, assert_each_close
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ArmnetError, ExportError, FormatError, UsageError
from training.caffe import Net, Solver
from training.caffe.files import weights_of

DATA = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }\n'
LABEL = 'layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 4 } } }\n'
PRODUCT = (
    'layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" %s inner_product_param { num_output: %d '
    'weight_filler { type: "xavier" } } }\n'
)
LOSS = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "t" top: "loss" }\n'
NET = DATA + LABEL + PRODUCT % ("fc", "x", "y", "", 2) + LOSS
SGD = 'base_lr: 0.5 lr_policy: "fixed" momentum: 0.9 random_seed: 3\n'


def batch(rows: int = 4) -> Any:
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 3)).astype(np.float32)
    return {"x": x, "t": (x[:, 0] > 0).astype(np.float32)}


def test_a_loss_falls() -> None:
    solver = Solver(SGD, NET)
    losses = [float(solver.step(batch())["loss"]) for _ in range(20)]
    assert losses[-1] < 0.2 * losses[0]


def test_files_may_be_given_as_pycaffe_takes_them(tmp_path: Path) -> None:
    text, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    text.write_text(NET)
    weights.write_bytes(Net(NET, seed=7).save())
    for files in ((text, weights), (str(text), str(weights))):
        np.testing.assert_array_equal(Net(*files).params["fc"][0].data, Net(NET, seed=7).params["fc"][0].data)
    with pytest.raises(ArmnetError, match=r"nowhere\.prototxt: No such file"):
        Net(str(tmp_path / "nowhere.prototxt"))


def test_blobs_take_the_shapes_that_follow_from_the_inputs() -> None:
    net = Net(DATA + PRODUCT % ("fc", "x", "y", "", 2))
    net.blobs["x"].reshape(7, 3)
    net.reshape()
    assert net.blobs["y"].shape == (7, 2)
    net.blobs["x"].reshape((5, 3))
    net.blobs["x"].data[...] = 1
    assert net.forward()["y"].shape == (5, 2)


def test_a_reshape_leaves_what_blobs_hold() -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
    layer { name: "p" type: "Power" bottom: "x" top: "x" power_param { scale: 2 } }
    layer { name: "a" type: "AbsVal" bottom: "x" top: "y" }
    """
    net = Net(text)
    net.blobs["x"].data[...] = 1
    net.blobs["y"].data[...] = 7
    net.reshape()
    assert (net.blobs["x"].data.max(), net.blobs["y"].data.min()) == (1, 7)
    assert net.forward()["y"].max() == 2


def test_a_reshape_between_the_passes_changes_no_gradient() -> None:
    net, x = Net(DATA + PRODUCT % ("fc", "x", "y", "", 2)), np.random.RandomState(4).rand(2, 3).astype(np.float32)
    net.blobs["x"].reshape(2, 3)
    net.forward(x=x)
    net.reshape()
    net.backward(y=np.ones((2, 2)))
    assert_each_close(net.params["fc"][0].diff, np.tile(x.sum(axis=0), (2, 1)), terms=2)


@pytest.mark.parametrize("type", ["LSTM", "RNN"])
def test_a_sequence_goes_on_in_the_next_pass(type: str) -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" top: "going" input_param { shape { dim: 4 dim: 2 dim: 3 }
      shape { dim: 4 dim: 2 } } }
    layer { name: "r" type: "%s" bottom: "x" bottom: "going" top: "y" recurrent_param { num_output: 5
      weight_filler { type: "uniform" min: -1 max: 1 } } }
    """
    net, x = Net(text % type), np.random.RandomState(3).rand(4, 2, 3).astype(np.float32)
    going = np.ones((4, 2), np.float32)
    going[0] = 0
    whole = net.forward(x=x, going=going)["y"]
    steps = []
    for step in range(4):
        steps.append(net.forward(x=x[step : step + 1], going=going[step : step + 1])["y"])
        net.reshape()
    assert_close(np.concatenate(steps), whole, terms=3 + 5)
    beginning = net.forward(x=x[:1], going=np.zeros((1, 2)))["y"]
    assert_close(beginning, whole[:1], terms=3 + 5)
    assert net.forward(x=x[:, :1], going=going[:, :1])["y"].shape == (4, 1, 5)


def test_shared_parameters_are_one_blob_that_both_layers_change() -> None:
    share = 'param { name: "w" } param { name: "b" }'
    text = DATA + PRODUCT % ("a", "x", "h", share, 3) + PRODUCT % ("b", "h", "y", share, 3)
    net = Net(text)
    assert net.params["a"][0] is net.params["b"][0]
    assert len(net.parameters()) == 2
    net.forward(x=batch()["x"])
    net.backward(y=np.ones((4, 3), np.float32))
    weights, h = net.params["a"][0], net.blobs["h"].data
    ones = np.ones((4, 3), np.float32)
    wanted = ones.T @ h + (ones @ weights.data).T @ batch()["x"]
    assert_close(weights.diff, wanted, terms=2 * 4 * 3)


def test_factors_that_any_layer_states_for_a_shared_parameter_count() -> None:
    first, second = 'param { name: "w" }', 'param { name: "w" lr_mult: 2 decay_mult: 0 }'
    text = DATA + PRODUCT % ("a", "x", "h", "%s", 3) + PRODUCT % ("b", "h", "y", "%s", 3)
    for one, other in ((first, second), (second, first)):
        shared = Net(text % (one, other)).parameters()
        assert [(one.rate, one.decay) for one in shared] == [(2, 0), (1, 1), (1, 1)]  # w, and the two biases
    with pytest.raises(ExportError, match=r"layer 'b' .*shares 'w' with lr_mult 2, another layer says 1"):
        Net(text % ('param { name: "w" lr_mult: 1 }', second))
    with pytest.raises(ExportError, match=r"layer 'b' .*shares 'w' with decay_mult 0, another layer says 1"):
        Net(text % ('param { name: "w" decay_mult: 1 }', second))
    with pytest.raises(ExportError, match=r"layer 'b' .*there are 3 param for 2 parameters"):
        Net(text % ("", "param { } param { } param { }"))


def test_parameters_of_two_shapes_may_share_one_memory() -> None:
    share = 'param { name: "w" %s }'
    text = DATA + PRODUCT % ("a", "x", "h", share % "", 2) + PRODUCT % ("b", "h", "y", share % "%s", 3)
    with pytest.raises(ExportError, match=r"layer 'b' .*shares 'w', which has another shape"):
        Net(text % "")
    net = Net(text % "share_mode: PERMISSIVE")
    wide, tall = net.params["a"][0], net.params["b"][0]
    assert (wide.shape, tall.shape) == ((2, 3), (3, 2))
    wide.data[...] = np.arange(6).reshape(2, 3)
    assert np.array_equal(tall.data, np.arange(6).reshape(3, 2))
    assert len(net.parameters()) == 3
    net.forward(x=batch()["x"])
    net.backward(y=np.ones((4, 3), np.float32))
    ones = np.ones((4, 3), np.float32)
    wanted = (ones.T @ net.blobs["h"].data).ravel() + ((ones @ tall.data).T @ batch()["x"]).ravel()
    assert_close(wide.diff.ravel(), wanted, terms=2 * 4 * 3)


def test_hdf5_holds_what_layers_share_once() -> None:
    pytest.importorskip("h5py", reason="HDF5 needs the package h5py")
    share = 'param { name: "w" } param { name: "b" }'
    text = DATA + PRODUCT % ("a", "x", "h", share, 3) + PRODUCT % ("b", "h", "y", share, 3)
    one, other = Net(text), Net(text)
    saved = one.save(hdf5=True)
    assert list(weights_of(saved)) == ["a"]
    other.copy_from(saved)
    assert np.array_equal(other.params["b"][0].data, one.params["a"][0].data)
    with pytest.raises(UsageError, match="layer 'a/b': HDF5 has no such name"):
        Net(DATA + PRODUCT % ("a/b", "x", "h", "", 3)).save(hdf5=True)
    part = Net(text.replace('param { name: "b" }', "")).save(hdf5=True)
    with pytest.raises(FormatError, match="layer 'b' shares a part of its parameters"):
        Net(text, part)


def test_a_snapshot_has_the_gradients_if_the_solver_says_so() -> None:
    for more, count in (("", 0), ("snapshot_diff: true\n", 6)):
        solver = Solver(SGD + more, DATA + LABEL + PRODUCT % ("fc", "x", "y", "", 2) + LOSS)
        solver.step(batch())
        saved = message_class("NetParameter")()
        saved.ParseFromString(solver.snapshot()[0])
        (fc,) = [layer for layer in saved.layer if layer.name == "fc"]
        assert list(fc.blobs[0].diff) == solver.net.params["fc"][0].diff.ravel().tolist()[:count]


def test_a_frozen_layer_stays_and_gets_no_gradient() -> None:
    frozen = "param { lr_mult: 0 } param { lr_mult: 0 }"
    solver = Solver(SGD, DATA + LABEL + PRODUCT % ("a", "x", "h", frozen, 5) + PRODUCT % ("fc", "h", "y", "", 2) + LOSS)
    before = [blob.data.copy() for blob in solver.net.params["a"]]
    for _ in range(3):
        solver.step(batch())
    assert all(np.array_equal(blob.data, values) for blob, values in zip(solver.net.params["a"], before))
    assert not solver.net.blobs["h"].diff.any()


def test_a_blob_read_twice_is_split_under_caffes_names() -> None:
    text = DATA + 'layer { name: "s" type: "Eltwise" bottom: "x" bottom: "x" top: "y" }\n'
    net = Net(f"force_backward: true\n{text}")
    assert {"x_x_0_split_0", "x_x_0_split_1"} <= set(net.blobs)
    net.forward(x=np.ones((4, 3)))
    found = net.backward(y=np.full((4, 3), 2.0))
    np.testing.assert_array_equal(found["x"], np.full((4, 3), 4.0, np.float32))


def test_a_parameter_layer_learns() -> None:
    text = DATA + LABEL + 'layer { name: "shift" type: "Parameter" top: "b" parameter_param { shape { dim: 3 } } }\n'
    text += 'layer { name: "s" type: "Bias" bottom: "x" bottom: "b" top: "h" bias_param { axis: 1 } }\n'
    solver = Solver(SGD, text + PRODUCT % ("fc", "h", "y", "", 2) + LOSS)
    feeds = batch()
    solver.step(feeds)
    (moved,) = (blob.data.copy() for blob in solver.net.params["shift"])
    assert moved.any()
    np.testing.assert_array_equal(Net(text, solver.net.save()).forward(x=feeds["x"])["h"], feeds["x"] + moved)


def test_rows_of_sub_batches_follow_each_other() -> None:
    whole = Solver(SGD, NET.replace("dim: 4", "dim: 8"))
    parts = Solver(SGD + "iter_size: 2", NET, whole.net.save())
    whole.step(batch(8))
    parts.step(batch(8))
    for one, other in zip(whole.net.params["fc"], parts.net.params["fc"]):
        assert_close(one.data, other.data, terms=8)


def test_a_snapshot_goes_on_bit_for_bit() -> None:
    solver = Solver(SGD.replace("fixed", "inv") + "gamma: 0.1 power: 0.7", NET)
    for _ in range(3):
        solver.step(batch())
    other = Solver(SGD.replace("fixed", "inv") + "gamma: 0.1 power: 0.7", NET)
    other.restore(*solver.snapshot())
    assert float(solver.step(batch())["loss"]) == float(other.step(batch())["loss"])
    assert np.array_equal(solver.net.params["fc"][0].data, other.net.params["fc"][0].data)


@pytest.mark.parametrize(
    ("solver", "net", "message"),
    [
        ("nonsense", NET, "the solver is no SolverParameter"),
        (SGD, "nonsense", "the net is no NetParameter"),
        (SGD.replace("fixed", "sometimes"), NET, "no lr_policy 'sometimes'"),
        (SGD + 'type: "Magic"', NET, "no solver 'Magic'"),
        (SGD + 'type: "AdaGrad"', NET, "AdaGrad uses no momentum"),
        (SGD, NET.replace("SoftmaxWithLoss", "SoftmaxLos"), r"layer 'loss' \(SoftmaxLos\): no such layer"),
        (SGD, NET.replace('bottom: "y"', 'bottom: "z"'), "no layer before it gives its bottom 'z'"),
        (SGD, NET.replace("xavier", "magic"), "no filler 'magic'"),
    ],
)
def test_texts_that_do_not_fit_are_refused_by_name(solver: str, net: str, message: str) -> None:
    with pytest.raises(ArmnetError, match=message):
        Solver(solver, net)


def test_feeds_and_snapshots_that_do_not_fit_are_refused() -> None:
    solver = Solver(SGD, NET)
    with pytest.raises(ArmnetError, match="no input 'z'; the net takes x, t"):
        solver.step({"z": np.ones(3)})
    with pytest.raises(ArmnetError, match="layer 'fc'"):
        solver.step({"x": np.ones((4, 5)), "t": np.zeros(4)})
    with pytest.raises(ArmnetError, match="a label is out of range"):
        solver.step({"x": np.ones((4, 3)), "t": np.full(4, 9)})
    with pytest.raises(ArmnetError, match="of another net or another solver"):
        Solver(SGD, DATA + PRODUCT % ("fc", "x", "y", "", 7)).restore(None, solver.snapshot()[1])
    with pytest.raises(ArmnetError, match="the solverstate cannot be read"):
        solver.restore(None, b"\xff\xff")


def test_a_loss_that_states_no_top_is_learned_from() -> None:
    net = Net(NET.replace(' top: "loss"', ""), seed=1)
    assert net.forward(**batch()) == {}
    net.backward()
    stated = Net(NET, seed=1)
    stated.forward(**batch())
    stated.backward()
    np.testing.assert_array_equal(net.params["fc"][0].diff, stated.params["fc"][0].diff)
    assert np.abs(net.params["fc"][0].diff).max() > 0
    two = NET.replace(' top: "loss"', "") + LOSS.replace(' top: "loss"', "").replace('"loss"', '"again"')
    assert Net(two, seed=1).outputs == []


def test_parameters_that_do_not_learn_have_no_gradient_and_no_share_in_the_clipped_length() -> None:
    frozen = NET.replace('top: "y"', 'top: "y" param { lr_mult: 0 } param { lr_mult: 1 }')
    net = Net(frozen, seed=1)
    net.forward(**batch())
    net.backward()
    assert not net.params["fc"][0].diff.any()
    assert net.params["fc"][1].diff.any()
    forced = Net("force_backward: true " + frozen, seed=1)
    forced.forward(**batch())
    forced.backward()
    assert forced.params["fc"][0].diff.any()
    limit = float(np.abs(net.params["fc"][1].diff).max()) / 10
    solver = Solver(f'base_lr: 1 lr_policy: "fixed" clip_gradients: {limit} random_seed: 1\n', frozen)
    solver.step(batch())
    assert float(np.linalg.norm(solver.net.params["fc"][1].data)) == pytest.approx(limit, rel=1e-5)


# Parts of a pass, and layers that only run forwards


def test_a_pass_in_parts_is_the_whole_pass() -> None:
    text = """
    force_backward: true
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 4
      weight_filler { type: "xavier" } } }
    layer { name: "b" type: "TanH" bottom: "a" top: "a" }
    layer { name: "c" type: "InnerProduct" bottom: "a" top: "c" inner_product_param { num_output: 2
      weight_filler { type: "xavier" } } }
    """
    random = np.random.RandomState(1)
    x, dc = random.rand(2, 3).astype(np.float32), random.rand(2, 2).astype(np.float32)
    whole, parts = Net(text, phase="TRAIN", seed=1), Net(text, phase="TRAIN", seed=1)
    expected, gradient = whole.forward(x=x)["c"], whole.backward(c=dc)["x"]
    parts.blobs["x"].data[...] = x
    parts.forward_between(end="b")
    parts.forward_between("c", "c")
    np.testing.assert_array_equal(parts.blobs["c"].data, expected)
    parts.blobs["c"].diff[...] = dc
    parts.backward_between("c", "c")
    parts.backward_between("b")
    np.testing.assert_array_equal(parts.blobs["x"].diff, gradient)
    for name, blobs in whole.params.items():
        for blob, other in zip(blobs, parts.params[name]):
            np.testing.assert_array_equal(blob.diff, other.diff)
    with pytest.raises(UsageError, match="no layer 'd'"):
        parts.forward_between("d")
    with pytest.raises(UsageError, match="layer 'b' comes after layer 'a'"):
        parts.backward_between("a", "b")


def test_shared_parameters_are_one() -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
    layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 4 } }
    """
    one, other = Net(text), Net(text)
    other.share_with(one)
    one.params["a"][0].data[...] = 2
    assert other.forward(x=np.ones((2, 3)))["a"].tolist() == [[6] * 4] * 2
    with pytest.raises(UsageError, match="a blob has the shape"):
        other.share_with(Net(text.replace("num_output: 4", "num_output: 5")))


def test_layers_without_a_way_back_run_forwards() -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
    layer { name: "n" type: "Normalize" bottom: "x" top: "x" norm_param { across_spatial: false
      channel_shared: false } }
    layer { name: "p" type: "Permute" bottom: "x" top: "p" permute_param { order: 0 order: 2 order: 3 order: 1 } }
    """
    weights = message_class("NetParameter")()
    layer = weights.layer.add(name="n", type="Normalize")
    layer.blobs.add(shape={"dim": [3]}, data=[1, 2, 3])
    net = Net(text, weights.SerializeToString())
    x = np.random.RandomState(2).rand(1, 3, 2, 2).astype(np.float32)
    length = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    expected = (x / length * np.array([1, 2, 3], np.float32)[:, None, None]).transpose(0, 2, 3, 1)
    assert_close(net.forward(x=x)["p"], expected, terms=3)
    net.params["n"][0].data[...] *= 2
    assert_close(net.forward(x=x)["p"], 2 * expected, terms=3)
    with pytest.raises(ExportError, match="no such layer can be trained"):
        Net(text, phase="TRAIN")
    with pytest.raises(ExportError, match=r"layer 'p' \(Nothing\): armnet has no such layer type"):
        Net(text.replace('"Permute"', '"Nothing"'), weights.SerializeToString())


def test_a_layer_may_have_a_phase_of_its_own() -> None:
    text = (
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 } } }'
        ' layer { name: "b" type: "BatchNorm" bottom: "x" top: "b" phase: TRAIN }'
    )
    b = Net(text).forward(x=np.random.RandomState(0).randn(4, 2) + 5)["b"]
    assert_close(b.mean(axis=0), np.zeros(2, np.float32), terms=4, magnitude=8)
