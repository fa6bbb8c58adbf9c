"""What armnet's stand-in for caffe2.python does, call by call."""

from __future__ import annotations

import logging
from typing import Any, Iterator

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="nets are written as messages")

from armnet.standins import notes
from armnet.standins.caffe2.proto import caffe2_pb2
from armnet.standins.caffe2.python import core, utils, workspace


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    workspace.ResetWorkspace()
    yield
    workspace.SwitchWorkspace("default")
    workspace.ResetWorkspace()


def doubling(name: str = "doubling") -> Any:
    net = core.Net(name)
    net.Add([net.AddExternalInput("x"), "x"], ["y"])
    net.AddExternalOutput("y")
    return net


def test_blobs_are_copies() -> None:
    x = np.zeros(3, np.float32)
    assert workspace.FeedBlob("x", x)
    x[0] = 1
    workspace.FetchBlob("x")[1] = 1
    assert not workspace.FetchBlob(core.BlobReference("x")).any()
    workspace.FeedBlob("t", utils.NumpyArrayToCaffe2Tensor(np.arange(3)))
    assert [one.tolist() for one in workspace.FetchBlobs(["x", "t"])] == [[0, 0, 0], [0, 1, 2]]
    assert workspace.Blobs() == ["t", "x"]
    with pytest.raises(RuntimeError, match="no blob 'z' in the workspace; it has t, x"):
        workspace.FetchBlob("z")


def test_blobs_are_found_by_name() -> None:
    workspace.blobs["x"] = np.arange(3)
    assert workspace.blobs["x"].tolist() == [0, 1, 2]
    assert ("x" in workspace.blobs, "y" in workspace.blobs) == (True, False)
    assert (list(workspace.blobs), len(workspace.blobs)) == (["x"], 1)


def test_workspaces_are_apart() -> None:
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.SwitchWorkspace("other", True)
    assert (workspace.CurrentWorkspace(), workspace.Blobs()) == ("other", [])
    assert set(workspace.Workspaces()) == {"default", "other"}
    with pytest.raises(RuntimeError, match="no workspace 'third'"):
        workspace.SwitchWorkspace("third")


def test_nets_run_by_name() -> None:
    net = doubling()
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError, match="give overwrite=True"):
        workspace.CreateNet(net)
    workspace.CreateNet(net.Proto().SerializeToString(), overwrite=True)
    for called in (net, net.Proto(), net.Name()):
        workspace.ResetWorkspace()
        workspace.FeedBlob("x", np.full(2, 3, np.float32))
        workspace.CreateNet(net)
        assert workspace.RunNet(called, num_iter=2)
        assert workspace.FetchBlob("y").tolist() == [6, 6]
    assert workspace.Nets() == [net.Name()]
    with pytest.raises(RuntimeError, match="no net 'nothing'"):
        workspace.RunNet("nothing")
    assert not workspace.RunNet("nothing", allow_fail=True)


def test_a_net_that_cannot_run_says_why() -> None:
    with pytest.raises(RuntimeError, match="NoSuchOperator"):
        workspace.RunOperatorOnce(core.CreateOperator("NoSuchOperator", [], ["y"]))
    with pytest.raises(AttributeError, match="no operator 'NoSuchOperator'"):
        core.Net("n").NoSuchOperator([], ["y"])
    with pytest.raises(RuntimeError):
        workspace.RunNetOnce(b"no net")
    with pytest.raises(AttributeError, match="no message 'PlanDef'"):
        _ = caffe2_pb2.PlanDef
    with pytest.raises(AttributeError, match=r"no core\.Cluster"):
        _ = core.Cluster


def test_a_predictor_takes_inputs_by_name_and_in_order() -> None:
    init = core.Net("init")
    init.GivenTensorFill([], "w", shape=[2, 3], values=np.arange(6, dtype=np.float32))
    init.ConstantFill([], "b", shape=[2], value=1.0)
    net = core.Net("predict")
    net.FC(["x", "w", "b"], "y")
    net.AddExternalOutput("y")
    x = np.ones((1, 3), np.float32)
    for nets in ((init.Proto(), net.Proto()), tuple(one.Proto().SerializeToString() for one in (init, net))):
        predictor = workspace.Predictor(*nets)
        assert [predictor.run(given)[0].tolist() for given in ([x], {"x": x})] == [[[4, 13]]] * 2
        with pytest.raises(RuntimeError, match="x"):
            predictor.run({"z": x})


def test_names_are_fresh_and_scoped() -> None:
    net = core.Net("net")
    other = core.Net("net")
    assert other.Name() != net.Name()
    with core.NameScope("a"), core.NameScope("b"):
        y = net.Relu("x")
        z = y.Relu([], "z")
    assert str(z) == "a/b/z"
    assert list(net.Proto().op[0].input) == ["a/b/x"]
    assert net.Proto().op[1].input[0] == str(y)
    assert [str(one) for one in net.external_inputs] == ["a/b/x"]
    first, second = net.Split([z], 2, axis=0)
    assert str(first) != str(second)
    assert net.Clone("copy").Proto().op == net.Proto().op
    assert {core.BlobReference("q"): 1}["q"] == 1


def test_arguments_have_caffe2s_kinds() -> None:
    op = core.CreateOperator(
        "Any", "x", "y", f=0.5, i=True, s="word", ints=(1, 2), floats=np.array([0.5, 1]), net=doubling("inner").Proto()
    )
    kinds = {arg.name: [field.name for field, _ in arg.ListFields() if field.name != "name"] for arg in op.arg}
    assert kinds == {"f": ["f"], "i": ["i"], "s": ["s"], "ints": ["ints"], "floats": ["floats"], "net": ["n"]}
    assert utils.MakeArgument("k", 3).i == 3
    with pytest.raises(ValueError, match="'k' cannot be an argument"):
        utils.MakeArgument("k", object())


def test_other_devices_give_way_to_the_processor(caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(notes, "_said", set())
    with caplog.at_level(logging.WARNING, "armnet.standins"):
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            net = doubling()
        assert caplog.messages == []
        assert core.DeviceOption(caffe2_pb2.CUDA, 1).device_id == 1
        net.RunAllOnGPU()
    assert len(caplog.messages) == 2
    assert all("changes nothing" in message for message in caplog.messages)
    assert (workspace.has_gpu_support, workspace.NumCudaDevices()) == (False, 0)
