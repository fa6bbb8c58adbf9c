"""The way of deep dreams: gradients of a layer with respect to the picture. Arguments: prototxt, caffemodel."""

import sys

import caffe
import numpy as np
from google.protobuf import text_format

net_fn, param_fn = sys.argv[1:]
model = caffe.io.caffe_pb2.NetParameter()
with open(net_fn) as file:
    text_format.Merge(file.read(), model)
model.force_backward = True
with open("tmp.prototxt", "w") as file:
    file.write(str(model))
net = caffe.Net("tmp.prototxt", param_fn, caffe.TEST)


def make_step(net, step_size=1.5, end="fire2/concat"):
    src, dst = net.blobs["data"], net.blobs[end]
    net.forward(end=end)
    before = float(np.square(dst.data, dtype=np.float64).sum())
    dst.diff[:] = dst.data
    net.backward(start=end)
    g = src.diff[0]
    src.data[:] += step_size / np.abs(g).mean() * g
    return before


src = net.blobs["data"]
src.reshape(1, 3, 64, 64)
src.data[0] = np.random.RandomState(0).uniform(-100, 100, (3, 64, 64))
seen = [make_step(net) for _ in range(4)]
print(seen)
assert all(later > earlier for earlier, later in zip(seen, seen[1:])), seen
