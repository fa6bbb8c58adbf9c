"""Other runtimes that answer one input after the other, for ``armnet evaluate`` and the pytest plugin."""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple

from armnet.other_runtimes.onnxruntime import session_of
from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import by_name
from runtime_arm import Pair
from runtime_arm.errors import ExportError, UsageError, first_line
from runtime_arm.netdef import Array


class Session(NamedTuple):
    """Another runtime that answers one input after the other. run: an inference, from inputs to outputs by the pair's
    names; ExportError if the runtime refuses them.
    """

    name: str
    run: Callable[[Mapping[str, Array]], Dict[str, Array]]


def open_session(runtime: str, original: Original, threads: int) -> Session:
    """onnxruntime or tflite, ready to answer. UsageError for another name, or if there is no TFLite model."""
    if runtime == "onnxruntime":
        return _open_onnx(original, threads)
    if runtime == "tflite":
        return _open_tflite(original, threads)
    raise UsageError(f"--against takes onnxruntime or tflite, got {runtime!r}")


def _open_onnx(original: Original, threads: int) -> Session:
    session, name, where = session_of(original, threads)
    takes, gives = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))

    def run(feeds: Mapping[str, Array]) -> Dict[str, Array]:
        try:
            outputs = session.run(None, by_name(takes, feeds))
        except Exception as error:  # its exceptions have no common base
            raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
        return _by_pair(original.pair, dict(zip(gives, outputs)))

    return Session(name, run)


def _open_tflite(original: Original, threads: int) -> Session:
    from exporter.tflite.original_run import tflite_runtime

    if not original.is_tflite:
        raise UsageError("--against tflite runs the .tflite file that the pair was made from: name it with --model")
    module, name = tflite_runtime()
    where, model = original.tflite()
    try:
        interpreter = module.Interpreter(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{name} refuses {where}: {first_line(error)}") from error
    takes, gives = interpreter.get_input_details(), interpreter.get_output_details()

    def run(feeds: Mapping[str, Array]) -> Dict[str, Array]:
        try:
            for tensor, value in zip(takes, feeds.values()):
                interpreter.set_tensor(tensor["index"], value)
            interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise ExportError(f"{name} refuses an input: {first_line(error)}") from error
        outputs = {tensor["name"]: interpreter.get_tensor(tensor["index"]) for tensor in gives}
        return _by_pair(original.pair, outputs)

    return Session(name, run)


def _by_pair(pair: Pair, outputs: Mapping[str, Array]) -> Dict[str, Array]:
    """A runtime's outputs by the pair's names: by name if the names agree, else in order."""
    names = [info.name for info in pair.outputs]
    if set(names) <= set(outputs):
        return {name: outputs[name] for name in names}
    if len(names) != len(outputs):
        raise UsageError(f"the model gives {', '.join(outputs)}, the pair {', '.join(names)}")
    return dict(zip(names, outputs.values()))
