"""The way of Caffe2's MNIST tutorial: a LeNet by brew, trained, tested, and run by a Predictor.

Arguments: an .npz file with x_train, y_train, x_test, y_test (digits of 8 x 8), and where the prediction goes.
"""

import sys

import numpy as np
from caffe2.python import brew, core, model_helper, optimizer, workspace

digits = np.load(sys.argv[1])
core.GlobalInit(["caffe2", "--caffe2_log_level=0"])


def add_lenet_model(model, data):
    conv1 = brew.conv(model, data, "conv1", dim_in=1, dim_out=8, kernel=3, pad=1)
    pool1 = brew.max_pool(model, conv1, "pool1", kernel=2, stride=2)
    conv2 = brew.conv(model, pool1, "conv2", dim_in=8, dim_out=16, kernel=3, pad=1)
    pool2 = brew.max_pool(model, conv2, "pool2", kernel=2, stride=2)
    fc3 = brew.fc(model, pool2, "fc3", dim_in=16 * 2 * 2, dim_out=32)
    fc3 = brew.relu(model, fc3, fc3)
    pred = brew.fc(model, fc3, "pred", 32, 10)
    return brew.softmax(model, pred, "softmax")


def add_accuracy(model, softmax, label):
    return brew.accuracy(model, [softmax, label], "accuracy")


def add_training_operators(model, softmax, label):
    xent = model.LabelCrossEntropy([softmax, label], "xent")
    loss = model.AveragedLoss(xent, "loss")
    add_accuracy(model, softmax, label)
    model.AddGradientOperators([loss])
    optimizer.build_sgd(
        model, base_learning_rate=0.03, policy="step", stepsize=1, gamma=0.999, momentum=0.9, nesterov=1
    )


arg_scope = {"order": "NCHW"}
train_model = model_helper.ModelHelper(name="mnist_train", arg_scope=arg_scope)
train_model.net.AddExternalInput("data", "label")
add_training_operators(train_model, add_lenet_model(train_model, "data"), "label")
test_model = model_helper.ModelHelper(name="mnist_test", arg_scope=arg_scope, init_params=False)
add_accuracy(test_model, add_lenet_model(test_model, "data"), "label")
deploy_model = model_helper.ModelHelper(name="mnist_deploy", arg_scope=arg_scope, init_params=False)
deploy_model.net.AddExternalOutput(add_lenet_model(deploy_model, "data"))

workspace.RunNetOnce(train_model.param_init_net)
random = np.random.RandomState(0)
total_iters = 200
accuracy, loss = np.zeros(total_iters), np.zeros(total_iters)
for i in range(total_iters):
    rows = random.randint(0, len(digits["x_train"]), 32)
    workspace.FeedBlob("data", digits["x_train"][rows].astype(np.float32))
    workspace.FeedBlob("label", digits["y_train"][rows].astype(np.int32))
    if i == 0:
        workspace.CreateNet(train_model.net, overwrite=True)
    workspace.RunNet(train_model.net)
    accuracy[i] = workspace.blobs["accuracy"]
    loss[i] = workspace.FetchBlob("loss")
assert loss[-20:].mean() < loss[:20].mean() / 3, (loss[:20].mean(), loss[-20:].mean())

workspace.FeedBlob("data", digits["x_test"].astype(np.float32))
workspace.FeedBlob("label", digits["y_test"].astype(np.int32))
workspace.CreateNet(test_model.net)
workspace.RunNet(test_model.net.Proto().name)
print(f"test accuracy: {workspace.FetchBlob('accuracy'):.2f}")

workspace.RunNetOnce(test_model.param_init_net)
init_net = core.Net("init")
for param in deploy_model.params:
    values = workspace.FetchBlob(param)
    init_net.GivenTensorFill([], str(param), shape=values.shape, values=values)
predictor = workspace.Predictor(init_net.Proto().SerializeToString(), deploy_model.net.Proto().SerializeToString())
(prediction,) = predictor.run({"data": digits["x_test"].astype(np.float32)})
np.testing.assert_allclose(prediction, workspace.FetchBlob("softmax"), atol=1e-5)
np.save(sys.argv[2], prediction)
