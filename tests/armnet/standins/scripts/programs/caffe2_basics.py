"""The way of Caffe2's tutorials: blobs, operators, nets, and a regression that is trained. No arguments."""

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace

print("current workspace:", workspace.CurrentWorkspace())
X = np.random.randn(2, 3).astype(np.float32)
workspace.FeedBlob("X", X)
np.testing.assert_array_equal(X, workspace.FetchBlob("X"))
X += 1
assert not np.array_equal(X, workspace.FetchBlob("X"))
workspace.SwitchWorkspace("gutentag", True)
assert not workspace.HasBlob("X")
workspace.SwitchWorkspace("default")
assert workspace.Blobs() == ["X"]
workspace.FeedBlob("words", np.array(["a", "bc"]))
assert list(workspace.FetchBlob("words")) in (["a", "bc"], [b"a", b"bc"])

op = core.CreateOperator("Relu", ["X"], ["Y"])
workspace.RunOperatorOnce(op)
np.testing.assert_array_equal(workspace.FetchBlob("Y"), np.maximum(workspace.FetchBlob("X"), 0))
op = core.CreateOperator("GaussianFill", [], ["Z"], shape=[100, 100], mean=1.0, std=1.0)
assert [arg.name for arg in op.arg] == ["shape", "mean", "std"]
workspace.RunOperatorOnce(op)
assert abs(workspace.FetchBlob("Z").mean() - 1) < 0.1
with core.NameScope("scope"):
    scoped = core.CreateOperator("Relu", ["x", core.BlobReference("y")], "z")
assert list(scoped.input) == ["scope/x", "y"]
assert list(scoped.output) == ["scope/z"]
tensor = utils.NumpyArrayToCaffe2Tensor(X, "X")
np.testing.assert_array_equal(utils.Caffe2TensorToNumpyArray(tensor), X)

init_net = core.Net("init")
W_gt = init_net.GivenTensorFill([], "W_gt", shape=[1, 2], values=[2.0, 1.5])
B_gt = init_net.GivenTensorFill([], "B_gt", shape=[1], values=[0.5])
ONE = init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
ITER = init_net.ConstantFill([], "ITER", shape=[1], value=0, dtype=core.DataType.INT64)
W = init_net.UniformFill([], "W", shape=[1, 2], min=-1.0, max=1.0)
B = init_net.ConstantFill([], "B", shape=[1], value=0.0)

train_net = core.Net("train")
X = train_net.GaussianFill([], "X", shape=[64, 2], mean=0.0, std=1.0, run_once=0)
Y_gt = X.FC([W_gt, B_gt], "Y_gt")
noise = train_net.GaussianFill([], "noise", shape=[64, 1], mean=0.0, std=0.1, run_once=0)
Y_noise = Y_gt.Add(noise, "Y_noise")
Y_noise = Y_noise.StopGradient([], "Y_noise")
Y_pred = X.FC([W, B], "Y_pred")
loss = train_net.AveragedLoss(train_net.SquaredL2Distance([Y_noise, Y_pred]), ["loss"])
gradient_map = train_net.AddGradientOperators([loss])
train_net.Iter(ITER, ITER)
LR = train_net.LearningRate(ITER, "LR", base_lr=-0.1, policy="step", stepsize=20, gamma=0.9)
train_net.WeightedSum([W, ONE, gradient_map[W], LR], W)
train_net.WeightedSum([B, ONE, gradient_map[B], LR], B)

workspace.ResetWorkspace()
workspace.RunNetOnce(init_net)
workspace.CreateNet(train_net)
for _ in range(100):
    workspace.RunNet(train_net.Proto().name)
np.testing.assert_allclose(workspace.FetchBlob("W"), [[2.0, 1.5]], atol=0.1)
np.testing.assert_allclose(workspace.FetchBlob("B"), [0.5], atol=0.1)
assert workspace.FetchBlob("loss") < 0.05
assert isinstance(train_net.Proto(), caffe2_pb2.NetDef)
