"""The way of Caffe2's tutorial on pretrained models. Arguments: init_net, predict_net, .npz of inputs, .npy."""

import sys

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

INIT_NET, PREDICT_NET, inputs, results = sys.argv[1:]
core.GlobalInit(["caffe2", "--caffe2_log_level=0"])
img = np.load(inputs)["input"][:1].astype(np.float32)

with open(INIT_NET, "rb") as f:
    init_net = f.read()
with open(PREDICT_NET, "rb") as f:
    predict_net = f.read()
p = workspace.Predictor(init_net, predict_net)
name = list(caffe2_pb2.NetDef.FromString(predict_net).external_input)[0]
by_name = p.run({name: img})
in_order = p.run([img])
np.testing.assert_array_equal(np.asarray(by_name[0]), np.asarray(in_order[0]))

# The same with a workspace.
device_opts = core.DeviceOption(caffe2_pb2.CPU, 0)
init_def = caffe2_pb2.NetDef()
with open(INIT_NET, "rb") as f:
    init_def.ParseFromString(f.read())
    init_def.device_option.CopyFrom(device_opts)
    workspace.RunNetOnce(init_def)
net_def = caffe2_pb2.NetDef()
with open(PREDICT_NET, "rb") as f:
    net_def.ParseFromString(f.read())
    net_def.device_option.CopyFrom(device_opts)
    workspace.FeedBlob(name, img, device_option=device_opts)
    workspace.CreateNet(net_def)
workspace.RunNet(net_def.name)
found = workspace.FetchBlob(net_def.external_output[0])
np.testing.assert_allclose(found, by_name[0], rtol=1e-5, atol=1e-6)
print(len(workspace.Blobs()), workspace.HasBlob(name), workspace.Nets())
np.save(results, by_name[0])
