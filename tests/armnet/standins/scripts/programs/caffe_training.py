"""The way of Caffe's notebook on LeNet: a net written in Python, a solver stepped by hand. No arguments."""

import caffe
import numpy as np
from caffe import layers as L
from caffe import params as P


def lenet(batch_size):
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[batch_size, 1, 8, 8]))
    n.label = L.Input(shape=dict(dim=[batch_size]))
    n.conv1 = L.Convolution(n.data, kernel_size=3, num_output=6, weight_filler=dict(type="xavier"))
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.relu1 = L.ReLU(n.pool1, in_place=True)
    n.score = L.InnerProduct(n.relu1, num_output=2, weight_filler=dict(type="xavier"), param=[dict(lr_mult=1)])
    n.loss = L.SoftmaxWithLoss(n.score, n.label)
    return n.to_proto()


with open("train.prototxt", "w") as f:
    f.write(str(lenet(16)))
with open("solver.prototxt", "w") as f:
    f.write(
        'train_net: "train.prototxt"\ntest_net: "train.prototxt"\ntest_iter: 1\ntest_interval: 1000\n'
        'base_lr: 0.05\nmomentum: 0.9\nlr_policy: "inv"\ngamma: 0.0001\npower: 0.75\nmax_iter: 100\n'
        'snapshot_prefix: "lenet"\nrandom_seed: 3\n'
    )
solver = caffe.get_solver("solver.prototxt")
print([(k, v.data.shape) for k, v in solver.net.blobs.items()])
assert type(caffe.AdamSolver("solver.prototxt")).__name__ == "AdamSolver"

rng = np.random.RandomState(0)
losses = []
for it in range(60):
    label = rng.randint(0, 2, 16)
    data = rng.randn(16, 1, 8, 8) + (2 * label - 1)[:, None, None, None]
    for net in (solver.net, solver.test_nets[0]):
        net.blobs["data"].data[...] = data
        net.blobs["label"].data[...] = label
    solver.step(1)
    losses.append(float(solver.net.blobs["loss"].data))
    if it % 20 == 0:
        print("Iteration", it, "loss", losses[-1], "gradients", solver.net.params["conv1"][0].diff.std() > 0)
assert np.mean(losses[-10:]) < 0.2 * losses[0], losses
solver.net.forward()
solver.test_nets[0].forward(start="conv1")
assert solver.test_nets[0].blobs["loss"].data == solver.net.blobs["loss"].data
assert (solver.test_nets[0].blobs["score"].data.argmax(1) == label).mean() > 0.8

solver.snapshot()
net = caffe.Net("train.prototxt", "lenet_iter_60.caffemodel", caffe.TEST)
net.blobs["data"].data[...], net.blobs["label"].data[...] = data, label
assert net.forward()["loss"] == solver.net.blobs["loss"].data
solver.solve("lenet_iter_60.solverstate")
assert solver.iter == 100

# Surgery: the weights of one net in another.
net.params["conv1"][0].data[...] *= 2
net.params["conv1"][1].data[...] *= 2
doubled = net.forward(end="conv1")["conv1"].copy()
net.copy_from("lenet_iter_60.caffemodel")
np.testing.assert_allclose(doubled, 2 * net.forward(end="conv1")["conv1"], rtol=1e-6)
net.save("copy.caffemodel")
