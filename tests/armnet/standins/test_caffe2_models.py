"""brew, ModelHelper and optimizer of the stand-in for caffe2: the nets that Caffe2's own made, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="nets are written as messages")

from armnet.standins.caffe2.proto import caffe2_pb2
from armnet.standins.caffe2.python import brew, core, model_helper, optimizer, workspace
from armnet.standins.caffe2.python.modeling import initializers
from armnet.standins.caffe2.python.predictor import mobile_exporter
from device_tests.suite.tolerance import assert_each_close
from runtime_arm.netdef import NetDef


@pytest.fixture(autouse=True)
def _clean(monkeypatch: Any) -> Iterator[None]:
    monkeypatch.setattr(optimizer, "_instances", {})
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def lenet(model: Any) -> Any:
    for number, channels in enumerate((6, 12), 1):
        before = f"pool{number - 1}" if number > 1 else "data"
        brew.conv(model, before, f"conv{number}", channels // 2 if number > 1 else 1, channels, 3, pad=1)
        brew.max_pool(model, f"conv{number}", f"pool{number}", kernel=2, stride=2)
    brew.fc(model, "pool2", "fc3", 48, 24)
    brew.relu(model, "fc3", "fc3")
    brew.fc(model, "fc3", "pred", 24, 10)
    return brew.softmax(model, "pred", "softmax")


def classic(model: Any) -> Any:
    brew.conv(model, "data", "c1", 1, 6, 3, pad=1)
    model.net.Tanh("c1", "t1")
    brew.lrn(model, "t1", "n1", size=3, alpha=0.1, beta=0.75, bias=1.0)
    brew.average_pool(model, "n1", "a1", kernel=3, stride=2, pad=1)
    brew.conv(model, "a1", "c2", 6, 8, 2)
    brew.prelu(model, "c2", "c2p", num_channels=8)
    brew.fc(model, "c2p", "f1", 72, 16)
    model.net.Sigmoid("f1", "s1")
    brew.fc(model, "s1", "f2", 16, 16)
    model.net.Elu("f2", "f2", alpha=1.0)
    model.net.Mul(["f2", "s1"], "g")
    brew.fc(model, "g", "pred", 16, 10)
    return brew.softmax(model, "pred", "softmax")


def mobile(model: Any) -> Any:
    with brew.arg_scope([brew.spatial_bn], epsilon=1e-3, momentum=0.95, is_test=False):
        for before, name, inner, outer, options in (
            ("data", "c1", 1, 8, {"kernel": 3, "pad": 1, "stride": 2}),
            ("c1n", "d1", 8, 8, {"kernel": 3, "pad": 1, "group": 8, "no_bias": True}),
            ("d1n", "p1", 8, 12, {"kernel": 1, "no_bias": True}),
        ):
            brew.conv(model, before, name, inner, outer, **options)
            brew.spatial_bn(model, name, f"{name}n", outer)
            brew.relu(model, f"{name}n", f"{name}n")
    model.net.ChannelShuffle("p1n", "sh", group=3, kernel=1)
    brew.conv(model, "sh", "p2", 12, 12, 1, group=3)
    model.net.LeakyRelu("p2", "p2", alpha=0.1)
    model.net.Concat(["p2", "p1n"], ["cc", "cci"], axis=1)
    model.net.AveragePool("cc", "gp", global_pooling=1)
    return brew.fc(model, "gp", "pred", 24, 10)


def averaged(model: Any, softmax: Any) -> Any:
    return model.AveragedLoss(model.LabelCrossEntropy([softmax, "label"], "xent"), "loss")


def with_loss(model: Any, prediction: Any) -> Any:
    return model.SoftmaxWithLoss([prediction, "label"], ["softmax", "loss"])[1]


def decayed(model: Any) -> None:
    optimizer.add_weight_decay(model, 0.005)
    optimizer.build_sgd(model, 0.05, momentum=0.9, policy="fixed")


RECORDED = {
    "lenet_sgd_step": (lenet, averaged, lambda m: optimizer.build_sgd(m, 0.1, policy="step", stepsize=20, gamma=0.5)),
    "lenet_momentum": (lenet, averaged, lambda m: optimizer.build_sgd(m, 0.03, momentum=0.9, nesterov=False)),
    "lenet_clip": (lenet, averaged, lambda m: optimizer.build_sgd(m, 0.1, max_gradient_norm=0.5)),
    "lenet_adam": (lenet, averaged, lambda m: optimizer.build_adam(m, 0.005)),
    "lenet_rmsprop": (lenet, averaged, lambda m: optimizer.build_rms_prop(m, 0.003, momentum=0.5)),
    "lenet_weight_decay": (lenet, averaged, decayed),
    "classic_adagrad": (classic, averaged, lambda m: optimizer.build_adagrad(m, 0.03)),
    "mobile_adam": (mobile, with_loss, lambda m: optimizer.build_adam(m, 0.01)),
}


def lines(net: NetDef, type: str = "") -> List[str]:
    """The operators, without devices, with their arguments in order, of one type or of all."""
    ops = [op.replace(device_option=None, arg=sorted(op.arg, key=lambda arg: arg.name)) for op in net.op]
    return [NetDef(op=(op,)).to_text() for op in ops if type in ("", op.type)]


def own(net: Any) -> NetDef:
    return NetDef.from_bytes(net.Proto().SerializeToString())


@pytest.mark.parametrize("name", RECORDED)
def test_models_are_those_of_caffe2(name: str, shared: Path) -> None:
    build: Callable[[Any], Any]
    build, loss, optimise = RECORDED[name]
    model = model_helper.ModelHelper(name=name)
    model.net.AddExternalInput("data", "label")
    model.AddGradientOperators([loss(model, build(model))])
    optimise(model)
    recorded = np.load(shared / "goldens/training/caffe2_train_dev.npz")
    train, init = (NetDef.from_bytes(recorded[f"{name}|{net}"].tobytes()) for net in ("train_net", "param_init_net"))
    assert lines(own(model.net)) == lines(train)
    assert [line.replace("values=", "value=") for line in lines(init)] == lines(own(model.param_init_net))
    assert set(own(model.net).external_input) == set(train.external_input)


def test_a_model_learns() -> None:
    random = np.random.default_rng(0)
    model = model_helper.ModelHelper(name="learning", arg_scope={"order": "NCHW"})
    model.net.AddExternalInput("data", "label")
    brew.fc(model, "data", "hidden", 4, 16)
    brew.tanh(model, "hidden", "hidden")
    prediction = brew.fc(model, "hidden", "prediction", 16, 3)
    softmax, loss = model.SoftmaxWithLoss([prediction, "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    brew.iter(model, "iter")
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.03)
    data = random.standard_normal((64, 4)).astype(np.float32)
    workspace.FeedBlob("data", data)
    workspace.FeedBlob("label", data[:, :3].argmax(axis=1).astype(np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 60)
    assert workspace.FetchBlob("accuracy") > 0.9
    assert workspace.FetchBlob("iter").tolist() == [60]
    assert [str(param) for param in model.params] == ["hidden_w", "hidden_b", "prediction_w", "prediction_b"]
    test = model_helper.ModelHelper(name="test", init_params=False)
    with core.NameScope("other"):
        brew.fc(test, "data", "hidden", 4, 16)
    assert not test.param_init_net.Proto().op
    net, inputs = model_helper.ExtractPredictorNet(model.net.Proto(), ["data"], ["prediction"], renames={"data": "x"})
    assert [op.type for op in net.Proto().op] == ["FC", "Tanh", "FC"]
    assert (inputs, list(net.Proto().external_output)) == (["x"], ["prediction"])
    workspace.FeedBlob("x", data)
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("prediction").shape == (64, 3)


def test_every_layer_runs() -> None:
    model = model_helper.ModelHelper(name="layers", arg_scope={"order": "NCHW"})
    constant = {"weight_init": ("ConstantFill", {"value": 0.5}), "bias_init": ("ConstantFill", {"value": 1.0})}
    workspace.FeedBlob("x", np.ones((1, 2, 4, 4), np.float32))
    up = brew.conv_transpose(model, "x", "up", 2, 3, 2, stride=2, **constant)
    grouped = brew.group_conv(model, "x", "grouped", 2, 4, [1, 2], group=2, **constant)
    flat = brew.conv_nd(model, "x", "flat", 2, 1, [4, 4], **constant)
    normed = [
        brew.instance_norm(model, "x", "instance", 2),
        brew.spatial_gn(model, "x", "groups", 2, group=2),
        brew.layer_norm(model, "x", "layer", [2, 4, 4])[0],
        brew.spatial_bn(model, "x", "batch", 2, is_test=True, init_bias=2.0),
    ]
    total = brew.sum(model, normed, "total")
    joined = brew.concat(model, [total, model.Negative(total, "negative")], "joined", axis=1)
    dropped = brew.dropout(model, joined, "dropped", is_test=True)
    linear = brew.elementwise_linear(model, brew.transpose(model, flat, "turned", axes=[0, 2, 3, 1]), "linear", 1)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob(up)[0, 0, 0].tolist() == [2.0] * 8
    assert workspace.FetchBlob(grouped)[0, :, 0, 0].tolist() == [2.0] * 4
    assert workspace.FetchBlob(flat).tolist() == [[[[17.0]]]]
    assert workspace.FetchBlob(dropped).shape == (1, 4, 4, 4)
    assert workspace.FetchBlob(linear).ravel().tolist() == [17.0]
    assert_each_close(workspace.FetchBlob("batch"), np.full((1, 2, 4, 4), 2 + 1 / np.sqrt(1 + 1e-5)), terms=2)
    assert {str(blob) for blob in model.GetComputedParams()} == {"batch_rm", "batch_riv"}


def test_a_sparse_gradient_changes_the_rows_that_were_read() -> None:
    for build, options in (
        (optimizer.build_sgd, {}),
        (optimizer.build_sgd, {"momentum": 0.9}),
        (optimizer.build_adagrad, {"rowWise": True}),
        (optimizer.build_adam, {"rowWise": True}),
        (optimizer.build_adam, {"use_lr_adaption": True}),
        (optimizer.build_adadelta, {}),
        (optimizer.build_wngrad, {}),
        (optimizer.build_storm, {}),
    ):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name="sparse")
        table = model.create_param("table", [5, 3], initializers.Initializer("ConstantFill", value=1.0))
        model.net.AddExternalInput("rows")
        model.AddGradientOperators([model.AveragedLoss(model.Gather([table, "rows"], "read"), "loss")])
        gradient = model.param_to_grad[table]
        assert isinstance(gradient, core.GradientSlice)
        build(model, 0.5, **options)
        workspace.FeedBlob("rows", np.array([1, 4], np.int64))
        workspace.RunNetOnce(model.param_init_net)
        workspace.RunNetOnce(model.net)
        changed = (workspace.FetchBlob("table") < 1).all(axis=1)
        assert changed.tolist() == [False, True, False, False, True], (build, options)


RARE: Dict[str, Tuple[Callable[[Any], Any], List[float]]] = {  # losses of Caffe2 (of torch 1.8.1)
    "wngrad": (lambda m: optimizer.build_wngrad(m, 2.0, moment_init=1.0), [1.1596375, 1.1076425, 1.0740412, 1.068084]),
    "storm": (lambda m: optimizer.build_storm(m, 0.5, momentum=2.0), [1.1596375, 1.0848563, 1.1098067, 1.0808587]),
    "gftrl": (
        lambda m: optimizer.build_gftrl(m, alpha=0.1, lambda1=0.01, lambda2=0.01),
        [1.1596375, 1.0838917, 1.0739188, 1.071131],
    ),
    "multi": (
        lambda m: optimizer.build_multi_precision_sgd(m, 0.5, momentum=0.9),
        [1.1596375, 1.0875266, 1.0785955, 1.0778263],
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_rare_solvers_lose_what_they_lose_in_caffe2(name: str) -> None:
    build, wanted = RARE[name]
    model = model_helper.ModelHelper(name=name)
    model.net.AddExternalInput("data", "label")
    model.AddGradientOperators([with_loss(model, brew.fc(model, "data", "y", 6, 3))])
    build(model)
    workspace.FeedBlob("data", np.sin(np.arange(48)).reshape(8, 6).astype(np.float32))
    workspace.FeedBlob("label", (np.arange(8) % 3).astype(np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("y_w", (np.cos(np.arange(18)) * 0.5).reshape(3, 6).astype(np.float32))
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(4):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert_each_close(np.array(losses, np.float32), np.array(wanted, np.float32), terms=64)


def test_a_model_is_exported_for_the_predictor() -> None:
    model = model_helper.ModelHelper(name="exported", arg_scope={"order": "NCHW"})
    brew.conv(model, "data", "c", 2, 3, 3)
    brew.relu(model, "c", "c")
    brew.softmax(model, brew.fc(model, "c", "f", 48, 4), "s")
    brew.fc(model, "c", "g", 48, 2)
    workspace.RunNetOnce(model.param_init_net)
    init_net, predict_net = mobile_exporter.Export(workspace, model.net, model.params)
    assert list(predict_net.external_input) == ["data", "c_w", "c_b", "f_w", "f_b", "g_w", "g_b"]
    assert list(predict_net.external_output) == ["s", "g"]
    assert [(op.type, *op.output) for op in init_net.op] == [
        ("GivenTensorFill", name) for name in ("c_w", "c_b", "f_w", "f_b", "g_w", "g_b", "data")
    ]
    predictor = workspace.Predictor(init_net.SerializeToString(), predict_net.SerializeToString())
    x = np.sin(np.arange(72)).reshape(1, 2, 6, 6).astype(np.float32)
    found = predictor.run({"data": x})
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(model.net)
    for one, name in zip(found, ("s", "g")):
        assert_each_close(one, workspace.FetchBlob(name), terms=64)


@pytest.mark.parametrize(
    "values", [np.arange(6, dtype=np.uint8).reshape(2, 3), np.array([b"a", b"\xff"], object), np.arange(3), np.ones(2)]
)
def test_arrays_become_operators_that_make_them(values: Any) -> None:
    net = caffe2_pb2.NetDef()
    if values.dtype == np.float64:
        with pytest.raises(TypeError, match="blob 'z': Caffe2 has no operator that makes an array of float64"):
            mobile_exporter.add_tensor(net, "z", values)
        return
    mobile_exporter.add_tensor(net, "z", values)
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("z").dtype == values.dtype
    assert np.array_equal(workspace.FetchBlob("z"), values)


def test_versions_count_how_often_blobs_are_written() -> None:
    net = core.Net("versions")
    net.Relu(["x"], ["y"])
    net.Relu(["y"], ["y"])
    ssa, versions = core.get_ssa(net)
    assert ssa == [([("x", 0)], [("y", 1)]), ([("y", 1)], [("y", 2)])]
    assert versions == {"x": 0, "y": 2}
    assert core.get_ssa(net, versions)[1] == {"x": 0, "y": 4}


def test_what_is_not_there_is_refused() -> None:
    model = model_helper.ModelHelper()
    brew.fc(model, "x", "y", 2, 2)
    with pytest.raises(AttributeError, match=r"no brew\.db_input"):
        _ = brew.db_input
    with pytest.raises(AttributeError, match=r"no optimizer\.build_yellowfin"):
        _ = optimizer.build_yellowfin
    with pytest.raises(RuntimeError, match="AddGradientOperators first"):
        optimizer.build_sgd(model, 0.1)
    with pytest.raises(AssertionError, match="'is_test' is required"):
        brew.dropout(model, "y", "z")
    model.AddGradientOperators([model.AveragedLoss("y", "loss")])
    with pytest.raises(RuntimeError, match="twice"):
        model.AddGradientOperators(["loss"])
    with pytest.raises(NotImplementedError, match="sparse_dedup_aggregator"):
        optimizer.build_adam(model, 0.1, sparse_dedup_aggregator="mean")
    with pytest.raises(AssertionError, match="rowWise"):
        optimizer.build_adam(model, 0.1, rowWise=True)
    with pytest.raises(RuntimeError, match="no operator has an input"):
        model_helper.ExtractPredictorNet(model.net.Proto(), ["nothing"], ["y"])
    brew.spatial_bn(model, "y", "z", 2, is_test=False)
    with pytest.raises(RuntimeError, match="is_test=0"):
        model_helper.ExtractPredictorNet(model.net.Proto(), ["x"], ["z"])
