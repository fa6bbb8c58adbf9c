"""Opens the model of a session."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Tuple, Union

from armnet.standins.models import pair_of
from armnet.standins.onnxruntime.failures import (
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    failure,
    failure_to_load,
)
from armnet.standins.onnxruntime.options import WEIGHTS_FILE, WEIGHTS_SIZE, GraphOptimizationLevel, SessionOptions
from exporter.onnx.signature import Signature, read_signature
from runtime_arm.errors import ArmnetError, FormatError
from runtime_arm.files import map_file
from runtime_arm.pair.pair import Pair

_FROM_MODEL, _CONFIG = "ORT_LOAD_CONFIG_FROM_MODEL", "ort_config"  # the variable that allows it, the property


def open_model(source: Union[str, bytes], options: SessionOptions) -> Tuple[Signature, Pair, SessionOptions]:
    """What a model says about itself, its pair, and the options with those that the model brings along.

    NoSuchFile, InvalidProtobuf, InvalidArgument or NotImplemented if armnet cannot run the model.
    """
    if isinstance(source, str) and not os.path.exists(source):
        raise failure(NoSuchFile, f"Load model from {source} failed: the file does not exist")
    try:
        signature = read_signature(source if isinstance(source, bytes) else map_file(source), called(source))
        if signature is None:
            raise failure(InvalidArgument, f"Load model from {called(source)} failed: no graph was found in it")
        options = _configured(options, signature)
        return signature, _pair(source, options), options
    except FormatError as error:
        raise failure_to_load(error, called(source)) from error
    except ArmnetError as error:
        if isinstance(source, str) and os.path.isdir(source):
            raise failure(InvalidProtobuf, f"Load model from {source} failed: it is a folder") from error
        raise failure_to_load(error, called(source)) from error


def called(source: Union[str, bytes]) -> str:
    """What messages call a model."""
    return "the model in memory" if isinstance(source, bytes) else source


def write_optimised(pair: Pair, options: SessionOptions) -> None:
    """Write the optimised model as ONNX if the options ask for it. ArmnetError if it cannot be written."""
    if options.optimized_model_filepath:
        from armnet.onnx_file import save_onnx

        save_onnx(pair, options.optimized_model_filepath)
        if options._entries.get(WEIGHTS_FILE):
            _move_weights(options.optimized_model_filepath, options)


def _move_weights(path: str, options: SessionOptions) -> None:
    """Move the large weights of an ONNX file into another one beside it."""
    import onnx  # writing ONNX needed it

    onnx.save(
        onnx.load(path),
        path,
        save_as_external_data=True,
        location=options._entries[WEIGHTS_FILE],
        size_threshold=int(options._entries.get(WEIGHTS_SIZE, "1024")),
    )


def _configured(options: SessionOptions, signature: Signature) -> SessionOptions:
    if os.environ.get(_FROM_MODEL) != "1" or _CONFIG not in signature.properties:
        return options
    try:
        config: Dict[str, Any] = json.loads(signature.properties[_CONFIG])["session_options"]
        return options._configured(config)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise failure(InvalidArgument, f"the model's property {_CONFIG} holds no session_options: {error}") from error


def _pair(source: Union[str, bytes], options: SessionOptions) -> Pair:
    optimised = options.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL
    if not options._weights and not options._files:
        return pair_of(source, ".onnx", optimised)
    from exporter.onnx.export import from_onnx_file
    from exporter.onnx.reader import open_onnx
    from exporter.onnx.replaced import with_weights
    from optimize import optimize

    pair = from_onnx_file(with_weights(open_onnx(source), options._weights, options._files))
    return optimize(pair) if optimised else pair
