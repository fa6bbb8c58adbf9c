"""The way of Caffe's notebook on classification. Arguments: prototxt, caffemodel, picture, .npz of inputs, .npz."""

import os
import sys

os.environ["GLOG_minloglevel"] = "2"
import caffe
import numpy as np

model_def, model_weights, picture, inputs, results = sys.argv[1:]
caffe.set_mode_cpu()
net = caffe.Net(model_def, model_weights, caffe.TEST)

mu = np.array([104.0, 117.0, 123.0])
print("mean-subtracted values:", list(zip("BGR", mu)))
transformer = caffe.io.Transformer({"data": net.blobs["data"].data.shape})
transformer.set_transpose("data", (2, 0, 1))
transformer.set_mean("data", mu)
transformer.set_raw_scale("data", 255)
transformer.set_channel_swap("data", (2, 1, 0))

net.blobs["data"].reshape(50, 3, 227, 227)
net.blobs["data"].reshape(2, 3, 227, 227)
image = caffe.io.load_image(picture)
transformed_image = transformer.preprocess("data", image)
net.blobs["data"].data[...] = transformed_image
output = net.forward()
output_prob = output["pool_final"][0].flatten()
print("predicted class is:", output_prob.argmax())
top_inds = output_prob.argsort()[::-1][:5]
print("in the top five:", *top_inds)

for layer_name, blob in net.blobs.items():
    print(layer_name + "\t" + str(blob.data.shape))
for layer_name, param in net.params.items():
    print(layer_name + "\t" + str(param[0].data.shape), str(param[1].data.shape))
filters = net.params["conv1"][0].data
feat = net.blobs["conv1"].data[0, :36]
print(filters.transpose(0, 2, 3, 1).shape, feat.shape, (feat >= 0).all())

recorded = np.load(inputs)["input"]
both = net.forward_all(blobs=["conv1"], data=recorded)
classifier = caffe.Classifier(
    model_def, model_weights, mean=mu, channel_swap=(2, 1, 0), raw_scale=255, image_dims=(256, 256)
)
print("by ten crops:", classifier.predict([image])[0].argmax(), classifier.predict([image], oversample=False).argmax())
np.savez(results, prob=both["pool_final"], picture=output_prob)
