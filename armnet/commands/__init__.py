"""The commands, one module each, with ``add_arguments(parser)`` and ``run(args) -> exit status``. Its docstring is the
help.

Modules import what they need inside ``run``, so that ``armnet run`` starts with only NumPy.
"""

COMMANDS = {
    "export": "translate a trained network into a pair of protobufs, or a pair into ONNX, TFLite or Caffe2",
    "models": "list published models, and download them ready to use",
    "support": "list the operators of a network that cannot be translated",
    "optimize": "make a pair cheaper: fold, fuse and remove operators, save memory",
    "quantize": "make a pair smaller: store weights, and if you like activations, in fewer bits",
    "inspect": "list a pair's operators, with engines, shapes, costs and memory",
    "run": "run a model on pictures, sounds, videos or arrays, and say what it finds",
    "describe": "show or change what the inputs and outputs of a pair mean",
    "serve": "serve a model over HTTP: a page with a camera for people, JSON for programs",
    "evaluate": "measure the accuracy of a model on examples with known answers",
    "train": "train a network on examples, from scratch or from the weights that it has",
    "teach": "teach a network new classes, from one folder of pictures per class",
    "compare": "compare a pair with the original model and name the first blob that differs",
    "diff": "compare two variants of a model: accuracy, noise, bytes, time, memory",
    "profile": "show how long each operator takes",
    "bench": "measure how long an inference takes, also with other runtimes",
    "exec": "run a Python program with armnet in place of onnxruntime, TensorFlow Lite, Caffe or Caffe2",
    "standin": "install stand-ins for onnxruntime and other runtimes into this environment, or remove them",
    "pack": "pack a pair, the runtime and a self-test into one file",
    "keys": "make keys to sign bundles, and show who signed one",
    "device": "test, run and time on emulated ARM machines and over ssh, and count instructions",
    "setup": "install what a Raspberry Pi or a phone needs, here or over ssh",
    "cache": "list what armnet keeps on disk, and empty it",
    "doctor": "describe this machine, what slows it down, and whether a network fits into it",
}
