"""Trained neural networks on any ARM device that has Python and NumPy.

    import armnet

    pair = armnet.optimize(armnet.export("model.onnx"))
    with armnet.Predictor(pair) as predictor:
        outputs = predictor.run([x])

With only NumPy, as on a device:

open              a Model of any model: ``armnet.open("ssd.tflite").predict("cats.jpg")`` gives typed results
Predictor         runs a pair: ``Predictor(pair).run({"data": x})``
load              a Predictor for a pair's folder or zip file, a bundle, or an init_net.pb and a predict_net.pb
Pair              a network: the nets that make its weights and its outputs, with inputs, outputs and metadata
TensorInfo        name, shape and dtype of one input or output of a pair
Workspace         runs nets one by one on named blobs, as Caffe2's workspace does
QuantizedTensor   an 8-bit blob with its scale and zero point
NetDef            a net: an immutable list of operators, with its bytes and its text form
OperatorDef       an operator of a net: type, inputs, outputs, arguments, engine
evaluate          the accuracy of a model: ``armnet.evaluate("digits", "held_back.npz").metrics["top1"]``
optimize          makes a pair cheaper: folds, fuses, removes operators and saves memory
Report            what optimize did, step by step, and what it did not do
quantize          makes a pair smaller: stores weights, and if asked activations, in fewer bits
pick_engines      chooses the engine of every operator; with ``engines="measure"`` it times them
pack              writes a pair, its runtime and a self-test as one file, a bundle
ArmnetError       the base of every error that armnet raises on purpose

With other packages, depending on the model's format (a MissingDependency says what to install):

export            translates an ONNX, TFLite, Caffe or Caffe2 model into a pair
support           lists the operators of a model that cannot be translated
compare           compares a pair with the original model and finds the first blob that differs
save_onnx         writes a pair as an ONNX file
save_tflite       writes a pair as a TFLite file

Modules: ``armnet.errors`` (the exceptions), ``armnet.netdef`` (nets as values), ``armnet.memonger`` (Caffe2's memory
sharing by blob names) and ``armnet.onnx_backend`` (ONNX's backend interface; needs onnx).

These names are the public interface; everything else is internal. Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime_arm.imports import lazy_names
from runtime_arm.version import VERSION

if TYPE_CHECKING:
    from armnet import errors, memonger, netdef
    from armnet.comparison import compare
    from armnet.evaluation.evaluate import evaluate
    from armnet.onnx_file import save_onnx
    from armnet.opening import open
    from armnet.tflite_file import save_tflite
    from exporter import export
    from exporter.bundle.pack import pack
    from exporter.support import support
    from optimize import Report, optimize, pick_engines, quantize
    from runtime_arm.errors import ArmnetError
    from runtime_arm.execution.predictor import Predictor, load
    from runtime_arm.execution.workspace import Workspace
    from runtime_arm.netdef import NetDef, OperatorDef
    from runtime_arm.pair.metadata import TensorInfo
    from runtime_arm.pair.pair import Pair
    from runtime_arm.registry.specs import QuantizedTensor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "ArmnetError": "runtime_arm.errors",
            "NetDef": "runtime_arm.netdef",
            "OperatorDef": "runtime_arm.netdef",
            "Pair": "runtime_arm.pair.pair",
            "Predictor": "runtime_arm.execution.predictor",
            "QuantizedTensor": "runtime_arm.registry.specs",
            "Report": "optimize",
            "TensorInfo": "runtime_arm.pair.metadata",
            "Workspace": "runtime_arm.execution.workspace",
            "compare": "armnet.comparison",
            "errors": "armnet.errors",
            "evaluate": "armnet.evaluation.evaluate",
            "export": "exporter",
            "load": "runtime_arm.execution.predictor",
            "memonger": "armnet.memonger",
            "netdef": "armnet.netdef",
            "open": "armnet.opening",
            "optimize": "optimize",
            "pack": "exporter.bundle.pack",
            "pick_engines": "optimize",
            "quantize": "optimize",
            "save_onnx": "armnet.onnx_file",
            "save_tflite": "armnet.tflite_file",
            "support": "exporter.support",
        },
    )

__version__ = VERSION

__all__ = [
    "ArmnetError",
    "NetDef",
    "OperatorDef",
    "Pair",
    "Predictor",
    "QuantizedTensor",
    "Report",
    "TensorInfo",
    "Workspace",
    "compare",
    "errors",
    "evaluate",
    "export",
    "load",
    "memonger",
    "netdef",
    "open",
    "optimize",
    "pack",
    "pick_engines",
    "quantize",
    "save_onnx",
    "save_tflite",
    "support",
]
