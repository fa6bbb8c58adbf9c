"""Networks that become TFLite files, pairs and files again: the same numbers, and files that LiteRT verifies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import pytest

from optimize import quantize
from runtime_arm import Predictor
from runtime_arm.pair.pair import Pair

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

from exporter import export
from exporter.to_tflite.export import translated
from exporter.to_tflite.writer import to_bytes
from tests.exporter.tflite.test_networks import INTEGER
from tests.exporter.to_tflite.test_networks import DEMO, FLOATS, NEAR, feeds_of
from tests.exporter.to_tflite.written import FIRST, LAST, types_of
from tests.support.tflite_models import interpreter

QUICK = ("mnist", "squeezenet", "ultraface", "lenet", "hybrid")


def through_a_file(pair: Pair, shapes: Dict[str, Tuple[int, ...]], path: Path) -> Tuple[Any, Pair]:
    """The model that is written, and the pair that is made of its file."""
    model = translated(pair, shapes)
    path.write_bytes(to_bytes(model))
    return model, export(str(path))


def run_as(pair: Pair, model: Any, feeds: Dict[str, Any]) -> Dict[str, Any]:
    """A pair made of a TFLite file, fed and read in the order of dimensions of the pair before."""
    turned = {name: np.transpose(x, LAST) if name in model.turned else x for name, x in feeds.items()}
    with Predictor(pair, threads=1) as predictor:
        found = list(predictor.run([turned[name] for name in model.inputs]).values())
    return {name: np.transpose(y, FIRST) if name in model.turned else y for name, y in zip(model.outputs, found)}


def assert_round(pair: Pair, shapes: Dict[str, Tuple[int, ...]], folder: Path, near: float) -> None:
    """Pair -> TFLite -> pair -> TFLite -> pair: numbers within ``near``, no more operations in the second file."""
    feeds = feeds_of(pair, shapes)
    with Predictor(pair, threads=1) as predictor:
        wanted = predictor.run(feeds)
    model, again = through_a_file(pair, shapes, folder / "once.tflite")
    last, twice = through_a_file(again, {}, folder / "twice.tflite")
    assert len(types_of(last)) <= len(types_of(model))
    places = dict(zip(last.inputs, model.inputs)), dict(zip(last.outputs, model.outputs))
    assert not last.turned, "pictures have their channels last already"
    last.inputs = {places[0][name]: number for name, number in last.inputs.items()}
    last.outputs = {places[1][name]: number for name, number in last.outputs.items()}
    last.turned = model.turned
    for one, made in ((again, model), (twice, last)):
        found = run_as(one, made, feeds)
        assert list(found) == list(wanted)
        for name, y in wanted.items():
            far = np.abs(found[name].astype(np.float64) - y).max(initial=0)
            assert far <= near * max(1.0, float(np.abs(y).max(initial=0))), name
    interpreter((folder / "twice.tflite").read_bytes())  # verifies the file


@pytest.mark.parametrize("name", QUICK)
def test_a_float_network(name: str, shared: Path, tmp_path: Path) -> None:
    files, shapes, _ = FLOATS[name]
    assert_round(export(*(str(shared / "models" / file) for file in files)), shapes, tmp_path, NEAR)


@pytest.mark.parametrize("name", [name for name in INTEGER if "coco" not in name and "tf2" not in name])
def test_an_integer_network(name: str, shared: Path, tmp_path: Path) -> None:
    assert_round(export(str(shared / f"models/tflite/{name}.tflite")), {}, tmp_path, 0.0)


@pytest.mark.parametrize("activations", ["dynamic", "int8", "int16"])
def test_the_digits_quantised(activations: str, tmp_path: Path) -> None:
    plain = export(str(DEMO / "digits.onnx"))
    samples = [{plain.inputs[0].name: x} for x in np.random.default_rng(0).random((8, 1, 1, 8, 8)).astype(np.float32)]
    pair = quantize(plain, samples, activations=activations)
    assert_round(pair, {}, tmp_path, 1e-6)  # a softmax of floats follows the integers


def test_damaged_files_are_not_verified() -> None:
    data = to_bytes(translated(export(str(DEMO / "digits.onnx")), {}))
    with pytest.raises(ValueError, match=r"(?i)model"):
        interpreter(data[: len(data) // 2])
