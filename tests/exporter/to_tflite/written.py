"""Pairs written as TFLite and run by LiteRT's reference kernels, with blobs in the pair's own order of dimensions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from exporter.to_tflite.export import translated
from exporter.to_tflite.model import Model
from exporter.to_tflite.writer import to_bytes
from runtime_arm.pair.pair import Pair
from tests.support.tflite_models import interpreter

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def run_written(
    pair: Pair, feeds: Mapping[str, Any], shapes: Optional[Mapping[str, Sequence[int]]] = None
) -> Tuple[Model, Dict[str, Any]]:
    """The model, and LiteRT's outputs by name."""
    model = translated(pair, shapes or {})
    return model, run_model(model, feeds)


def run_model(model: Model, feeds: Mapping[str, Any]) -> Dict[str, Any]:
    """LiteRT's outputs by name."""
    runner, tensors = interpreter(to_bytes(model)), model.graphs[0].tensors
    places = {detail["name"]: detail["index"] for detail in runner.get_input_details()}
    for name, number in model.inputs.items():
        x = np.asarray(feeds[name])
        runner.set_tensor(places[tensors[number].name], np.transpose(x, LAST) if name in model.turned else x)
    runner.invoke()
    places = {detail["name"]: detail["index"] for detail in runner.get_output_details()}
    found = {name: runner.get_tensor(places[tensors[number].name]) for name, number in model.outputs.items()}
    return {name: np.transpose(y, FIRST) if name in model.turned else y for name, y in found.items()}


def types_of(model: Model) -> List[str]:
    """The operators of the first graph."""
    return [operation.type for operation in model.graphs[0].operations]
