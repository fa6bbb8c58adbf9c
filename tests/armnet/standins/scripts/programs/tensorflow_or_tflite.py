"""The way of cameras' scripts: tflite_runtime if tensorflow is missing. Arguments: the model, .npz of inputs, .npy."""

import argparse
import importlib.util

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--modeldir")
parser.add_argument("--images")
parser.add_argument("--results")
parser.add_argument("--edgetpu", action="store_true")
args = parser.parse_args()

package = importlib.util.find_spec("tensorflow")
if package is None:
    from tflite_runtime.interpreter import Interpreter, load_delegate
else:
    from tensorflow.lite.python.interpreter import Interpreter, load_delegate

if args.edgetpu:
    interpreter = Interpreter(model_path=args.modeldir, experimental_delegates=[load_delegate("libedgetpu.so.1.0")])
else:
    interpreter = Interpreter(model_path=args.modeldir)
interpreter.allocate_tensors()
input_details = interpreter.get_input_details()
output_details = interpreter.get_output_details()
_, height, width, _ = input_details[0]["shape"]

results = []
for image in np.load(args.images)["input"]:
    assert image.shape[:2] == (height, width)
    input_data = np.expand_dims(image, axis=0)
    interpreter.set_tensor(input_details[0]["index"], input_data)
    interpreter.invoke()
    results.append(interpreter.get_tensor(output_details[0]["index"])[0])
np.save(args.results, np.array(results))
