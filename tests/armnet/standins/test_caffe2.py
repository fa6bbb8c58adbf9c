"""What armnet's stand-in for caffe2.python does, call by call."""

from __future__ import annotations

import logging
import threading
from typing import Any, Dict, Iterator

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="nets are written as messages")

from armnet.standins import fusing, notes
from armnet.standins.caffe2.proto import caffe2_pb2
from armnet.standins.caffe2.python import core, scope, utils, workspace
from device_tests.suite.tolerance import assert_close

RNG = np.random.RandomState(0)


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


# Nets that run again and again


def layered(has_output: bool = True) -> Any:
    """x -> conv -> relu, in place -> dropout that does nothing -> pool -> y, which may be said to be the output."""
    net = core.Net("layered")
    net.Conv(["x", "w", "b"], "conv", kernel=3, pad=1)
    net.Relu("conv", "conv")
    net.Dropout("conv", ["dropped", "mask"], is_test=1)
    net.MaxPool("dropped", "pool", kernel=2, stride=2)
    net.Sigmoid("pool", "y")
    if has_output:
        net.AddExternalOutput("y")
    return net


def feed_layered(seed: int, *names: str) -> None:
    random = np.random.RandomState(seed)
    for name, shape in {"x": (1, 2, 6, 6), "w": (3, 2, 3, 3), "b": (3,)}.items():
        values = random.randn(*shape).astype(np.float32)
        if name in names or not names:
            workspace.FeedBlob(name, values)


def expected_blobs(net: Any) -> Dict[str, Any]:
    """The blobs of the workspace after the net ran once on its inputs, operator by operator, elsewhere."""
    given = {name: workspace.FetchBlob(name) for name in ("x", "w", "b")}
    here = workspace.CurrentWorkspace()
    workspace.SwitchWorkspace("once", create_if_missing=True)
    workspace.ResetWorkspace()
    for name, value in given.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net.Proto())
    found = {name: workspace.FetchBlob(name) for name in workspace.Blobs()}
    workspace.SwitchWorkspace(here)
    return found


def network_of(net: Any) -> Any:
    return workspace._space().nets[net.Name()]._network


@pytest.mark.parametrize("has_output", [True, False])
@pytest.mark.parametrize("unfused", [1, 16])
def test_a_net_that_runs_again_and_again_gives_what_it_gives_once(
    has_output: bool, unfused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusing, "_UNFUSED_RUNS", unfused)
    net = layered(has_output)
    feed_layered(0)
    workspace.CreateNet(net)
    changes = ["x", "", "x", "w", "", "b", "x", "", "x"]
    for seed, changed in enumerate(changes):
        if changed:
            feed_layered(seed, changed)
        workspace.RunNet(net)
        expected = expected_blobs(net)
        names = list(expected) if seed % 3 == 2 else ["y", "conv"][: 1 + seed % 2]
        if seed == 4:
            feed_layered(99, "x", "w")  # what is read later is still what the run gave
        for name in names:
            if name in ("x", "w") and seed == 4:
                continue
            assert_close(workspace.FetchBlob(name), expected[name], terms=18)
    assert network_of(net) is not None


def test_a_blob_that_is_fed_after_a_run_is_what_was_fed() -> None:
    net = layered()
    feed_layered(0)
    workspace.CreateNet(net)
    for _ in range(3):
        workspace.RunNet(net)
    assert network_of(net) is not None
    workspace.FeedBlob("pool", np.zeros((1, 3, 3, 3), np.float32))
    workspace.FeedBlob("conv", np.ones(2, np.float32))
    assert workspace.FetchBlob("dropped").shape == (1, 3, 6, 6)
    assert not workspace.FetchBlob("pool").any()
    assert workspace.FetchBlob("conv").tolist() == [1, 1]


def test_other_nets_read_what_a_net_would_have_left() -> None:
    net, after, once = layered(), core.Net("after"), core.Net("once")
    after.Scale("pool", "more", scale=2.0)
    once.Scale("conv", "most", scale=3.0)
    feed_layered(0)
    for one in (net, after):
        workspace.CreateNet(one)
    for seed in range(4):
        feed_layered(seed, "x")
        workspace.RunNet(net)
        workspace.RunNet(after)
        expected = expected_blobs(net)
        workspace.RunNetOnce(once)
        assert_close(workspace.FetchBlob("more"), 2 * expected["pool"], terms=18)
        assert_close(workspace.FetchBlob("most"), 3 * expected["conv"], terms=18)


def test_strings_stay_bytes() -> None:
    net = core.Net("strings")
    net.Copy(["s"], ["inner"])
    net.Copy(["inner"], ["t"])
    net.AddExternalOutput("t")
    workspace.FeedBlob("s", np.array([b"ab", b"\xff\x00c"], object))
    workspace.CreateNet(net)
    for _ in range(20):
        workspace.RunNet(net)
        assert workspace.FetchBlob("t").tolist() == [b"ab", b"\xff\x00c"]
    assert workspace.FetchBlob("inner").tolist() == [b"ab", b"\xff\x00c"]


def test_a_net_whose_first_run_failed_leaves_every_blob() -> None:
    net = core.Net("first")
    net.MatMul(["x", "w"], ["inner"])
    net.Relu(["inner"], ["y"])
    net.AddExternalOutput("y")
    workspace.FeedBlob("w", np.ones((3, 2), np.float32))
    workspace.FeedBlob("x", np.ones((1, 4), np.float32))
    workspace.CreateNet(net)
    assert not workspace.RunNet(net, allow_fail=True)
    workspace.FeedBlob("x", np.ones((1, 3), np.float32))
    workspace.RunNet(net)
    assert workspace.HasBlob("inner")
    assert workspace.Blobs() == ["inner", "w", "x", "y"]


def test_shapes_that_do_not_fit_are_refused_where_nobody_asks_for_the_result() -> None:
    net = core.Net("overwritten")
    net.Add(["x", "z"], ["inner"])
    net.Abs(["x"], ["inner"])
    net.Relu(["inner"], ["y"])
    net.AddExternalOutput("y")
    for name in "xz":
        workspace.FeedBlob(name, np.ones((3, 3), np.float32))
    workspace.CreateNet(net)
    assert all(workspace.RunNet(net) for _ in range(3))
    workspace.FeedBlob("x", np.ones((4, 3), np.float32))
    with pytest.raises(RuntimeError, match="do not broadcast"):
        workspace.RunNet(net)


def test_a_blob_that_did_not_change_before_may_get_another_shape() -> None:
    net = core.Net("sum")
    net.Add(["x", "z"], ["y"])
    net.AddExternalOutput("y")
    for z in (np.ones((1, 1), np.float32), np.full((2, 1), 5, np.float32)):
        workspace.FeedBlob("z", z)
        for x in (1, 2, 3):
            workspace.FeedBlob("x", np.full((2, 2), x, np.float32))
            if not workspace.Nets():
                workspace.CreateNet(net)
            workspace.RunNet(net)
            np.testing.assert_array_equal(workspace.FetchBlob("y"), x + z + np.zeros((2, 2)))


@pytest.mark.parametrize("type", ["writes what it reads", "is random", "counts", "prints"])
def test_nets_that_do_more_run_operator_by_operator(type: str) -> None:
    net = core.Net("more")
    net.Relu("x", "y")
    if type == "writes what it reads":
        net.Scale("x", "x", scale=2.0)
    elif type == "is random":
        net.Dropout("y", ["z", "mask"], ratio=0.5, is_test=0)
    elif type == "counts":
        net.Iter([], "count")
    else:
        net.Print("y", [])
    workspace.FeedBlob("x", np.ones(1, np.float32))
    workspace.CreateNet(net)
    for _ in range(4):
        workspace.RunNet(net)
    assert network_of(net) is None
    if type == "writes what it reads":
        assert workspace.FetchBlob("x").tolist() == [16]
    if type == "counts":
        assert workspace.FetchBlob("count").tolist() == [4]


def test_a_predictor_that_runs_often_gets_fused_operators() -> None:
    init, net = core.Net("init"), layered()
    for name, shape in {"w": [3, 2, 3, 3], "b": [3]}.items():
        init.GivenTensorFill([], name, shape=shape, values=RNG.randn(int(np.prod(shape))).astype(np.float32))
    predictor = workspace.Predictor(init.Proto(), net.Proto())
    x = RNG.randn(1, 2, 6, 6).astype(np.float32)
    first = predictor.run([x])[0]
    for _ in range(fusing._UNFUSED_RUNS):
        assert_close(predictor.run({"x": x})[0], first, terms=18)
    assert predictor._running._fused is not None


def test_a_predictor_whose_net_keeps_a_state_goes_on_with_it() -> None:
    init, net = core.Net("init"), core.Net("sums")
    init.ConstantFill([], "total", shape=[1], value=0.0)
    net.Add(["total", "x"], "total")
    net.AddExternalOutput("total")
    predictor = workspace.Predictor(init.Proto(), net.Proto())
    found = [float(predictor.run([np.ones(1, np.float32)])[0][0]) for _ in range(fusing._UNFUSED_RUNS + 4)]
    assert found == list(range(1, fusing._UNFUSED_RUNS + 5))


def test_blobs_of_a_net_that_keeps_a_state_can_be_asked_for_from_the_first_run_on() -> None:
    init, net = core.Net("init"), core.Net("sums")
    init.ConstantFill([], "total", shape=[1], value=0.0)
    net.Add(["total", "x"], "total")
    net.Relu("x", "y")
    net.Relu("y", "z")
    net.AddExternalOutput("z")
    network = workspace.Predictor(init.Proto(), net.Proto())._running
    found = [network.run([np.ones(1, np.float32)], ["total", "y"])["total"].tolist() for _ in range(3)]
    assert found == [[1], [2], [3]]


def test_a_net_that_is_made_has_its_blobs_before_it_runs() -> None:
    workspace.FeedBlob("x", np.ones(3, np.float32))
    net = doubling()
    workspace.CreateNet(net)
    assert workspace.HasBlob("y")
    assert workspace.Blobs() == ["x", "y"]
    assert b"uninitialized" in workspace.FetchBlob("y")
    workspace.RunNet(net)
    assert np.array_equal(workspace.FetchBlob("y"), np.full(3, 2, np.float32))


def test_a_net_that_reads_a_missing_blob_is_refused_when_it_is_made() -> None:
    with pytest.raises(RuntimeError, match="'x', which is no blob yet"):
        workspace.CreateNet(doubling())
    assert not workspace.HasBlob("y")


def test_each_thread_has_name_scopes_of_its_own() -> None:
    found = []

    def name() -> None:
        found.append(scope.CurrentNameScope())
        with scope.NameScope("theirs"):
            found.append(core.ScopedName("b"))

    with core.NameScope("ours"):
        thread = threading.Thread(target=name)
        thread.start()
        thread.join()
        assert scope.CurrentNameScope() == "ours/"
    assert found == ["", "theirs/b"]


def test_texts_are_fetched_as_bytes() -> None:
    for name, given in (("text", "héllo"), ("bytes", "héllo".encode())):
        workspace.FeedBlob(name, given)
        assert workspace.FetchBlob(name) == "héllo".encode()
        assert type(workspace.FetchBlob(name)) is bytes
    for given in (np.array(["a", "bc"]), np.array([b"a", b"bc"]), np.array(["a", b"bc"], object)):
        workspace.FeedBlob("array", given)
        found = workspace.FetchBlob("array")
        assert (found.dtype, found.tolist()) == (object, [b"a", b"bc"])
    workspace.FeedBlob("one", np.array("a"))
    assert (workspace.FetchBlob("one").shape, workspace.FetchBlob("one")[()]) == ((), b"a")


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.5, 3, np.float32(2), None, (1, 2)])
def test_what_is_no_array_is_not_fed(value: Any) -> None:
    with pytest.raises(RuntimeError, match="blob 'x': Caffe2 takes NumPy arrays and texts, not"):
        workspace.FeedBlob("x", value)
    assert not workspace.HasBlob("x")


def test_objects_that_are_no_texts_are_not_fed() -> None:
    with pytest.raises(RuntimeError, match="an array of objects holds texts alone, there is int"):
        workspace.FeedBlob("x", np.array([1, "a"], object))


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "complex64", "datetime64"])
def test_types_that_caffe2_lacks_are_not_fed(dtype: str) -> None:
    with pytest.raises(RuntimeError, match=dtype):
        workspace.FeedBlob("x", np.zeros(2, dtype))
