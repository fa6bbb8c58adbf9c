"""The commands, a module each: ``add_arguments(parser)`` and ``run(args) -> exit status``; its docstring is its help.

Modules import what they need inside ``run``, so that ``armnet run`` starts with NumPy alone.
"""

COMMANDS = {
    "export": "translate a trained network into a pair of protobufs, or a pair into ONNX, TFLite or Caffe2",
    "models": "list models that others have published, and fetch them ready to use",
    "support": "say, before conversion, which operators of a network cannot be translated",
    "optimize": "make a pair cheaper: fold, fuse and remove operators, save memory",
    "quantize": "make a pair smaller: weights, and perhaps activations, of fewer bits",
    "inspect": "list a pair's operators, with engines, shapes, costs and memory",
    "run": "run a model on pictures, sounds, videos or arrays, and say what it finds",
    "describe": "say what a pair takes and what its outputs mean, and store that",
    "serve": "serve a model over HTTP: a page with a camera for people, JSON for programs",
    "evaluate": "say how right a model is, on examples whose answers are known",
    "train": "train a network on examples, from scratch or from the weights that it has",
    "teach": "teach a network new classes from a folder of pictures for each",
    "compare": "run the original model beside the pair and name the first blob that differs",
    "diff": "hold two variants of a model side by side: accuracy, noise, bytes, time, memory",
    "profile": "show how long each operator of an inference takes",
    "bench": "time an inference, beside other runtimes if you like",
    "exec": "run a Python program with armnet in place of onnxruntime, TensorFlow Lite, Caffe or Caffe2",
    "standin": "put stand-ins for onnxruntime and other runtimes into this environment, or take them away",
    "pack": "pack a pair, the runtime and a self-test into one file",
    "keys": "make keys that sign bundles, and tell who signed one",
    "device": "test, run, time and count on emulated ARM machines and over ssh",
    "setup": "install what a Raspberry Pi or a phone needs, here or over ssh",
    "cache": "list what is kept on disk to be fast the next time, and empty it",
    "doctor": "describe this machine, what slows it down, and whether a network fits",
}
