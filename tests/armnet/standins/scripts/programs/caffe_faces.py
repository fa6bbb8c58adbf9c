"""A detector whose input is reshaped to each picture. Arguments: prototxt, caffemodel, .npz of inputs, .npz."""

import sys

import caffe
import numpy as np

deploy, model, inputs, results = sys.argv[1:]
caffe.set_device(0)
caffe.set_mode_gpu()
net = caffe.Net(deploy, caffe.TEST, weights=model)
image = np.load(inputs)["input"]
name = net.inputs[0]
net.blobs[name].reshape(*image.shape)
net.reshape()
net.blobs[name].data[...] = image
out = net.forward()
print(net._layer_names[0], net.layers[0].type, len(net.layers), sorted(out))
np.savez(results, **{key: out[key] for key in net.outputs})
