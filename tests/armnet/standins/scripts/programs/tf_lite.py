"""The way of the documentation: ``import tensorflow as tf``, ``tf.lite.Interpreter``. The same arguments."""

import sys

import numpy as np
import tensorflow as tf


class Classifier:
    def __init__(self, path):
        print("TensorFlow", tf.__version__)
        with open(path, "rb") as file:
            self.interpreter = tf.lite.Interpreter(model_content=file.read(), num_threads=2)
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]
        self.output = self.interpreter.get_output_details()[0]

    def __call__(self, image):
        self.interpreter.tensor(self.input["index"])()[0][:, :] = image
        self.interpreter.invoke()
        return np.squeeze(self.interpreter.get_tensor(self.output["index"]))


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    classifier = Classifier(sys.argv[1])
    np.save(sys.argv[3], [classifier(image) for image in np.load(sys.argv[2])["input"]])
