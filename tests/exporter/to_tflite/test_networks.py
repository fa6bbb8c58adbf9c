"""Networks written as TFLite: LiteRT computes the same, and nothing is transposed that need not be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings

from device_tests.suite.tolerance import assert_close
from optimize import optimize, quantize
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.pair import Pair
from tests.exporter.tflite.test_networks import INTEGER
from tests.support.random_nets import RandomNet, random_nets

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

from exporter import export
from exporter.to_tflite.export import translated
from tests.exporter.to_tflite.written import run_written, types_of

NEAR = 1e-4  # of an output's largest magnitude, or absolute where that is below 1
LAST_BITS = 1e-7
DEMO = Path(__file__).parents[3] / "demo"
# Files below shared/models, the sizes that are open in them, and how many transpositions they need.
FLOATS: Dict[str, Tuple[Tuple[str, ...], Dict[str, Tuple[int, ...]], int]] = {
    "fastestdet": (("onnx/fastestdet/FastestDet.onnx",), {}, 0),
    "mnist": (("onnx/mnist_8/mnist.onnx",), {}, 0),
    "ppocr": (("onnx/ppocr_mobile_v1.1_det/ch_mobile_v1.1_det.onnx",), {"image": (1, 3, 96, 96)}, 0),
    "squeezenet": (("onnx/squeezenet_v1.1/squeezenet_v1.1.onnx",), {}, 0),
    "super_resolution": (("onnx/super_resolution_10/model.onnx",), {}, 1),
    "ultraface": (("onnx/ultraface/version-RFB-320_simplified.onnx",), {}, 0),
    "yunet": (("onnx/yunet/yunet_n_320_320.onnx",), {}, 0),
    "lenet": (("caffe/lenet_armnn/lenet.prototxt", "caffe/lenet_armnn/lenet_iter_9000.caffemodel"), {}, 0),
    "mtcnn": (("caffe/mtcnn/det3.prototxt", "caffe/mtcnn/det3.caffemodel"), {}, 0),
    "slim": (("caffe/ultraface/slim-320.prototxt", "caffe/ultraface/slim-320.caffemodel"), {}, 0),
    "deeplab": (("tflite/deeplabv3_257_float/deeplabv3.tflite",), {}, 0),
    "face": (("tflite/mediapipe_face_detection_short_range/face_detection_short_range.tflite",), {}, 0),
    "hybrid": (("tflite/mlperf_tiny_kws_dscnn/kws_ref_model_float32.tflite",), {}, 0),
    "selfie": (("tflite/mediapipe_selfie_segmentation/selfie_segmentation.tflite",), {}, 0),
}


def feeds_of(pair: Pair, shapes: Dict[str, Tuple[int, ...]]) -> Dict[str, Any]:
    """Random inputs, of the sizes that the TFLite model has."""
    model, rng, feeds = translated(pair, shapes), np.random.default_rng(0), {}
    for name, number in model.inputs.items():
        tensor = model.graphs[0].tensors[number]
        shape = tuple(tensor.shape[axis] for axis in (0, 3, 1, 2)) if name in model.turned else tensor.shape
        if tensor.dtype.kind == "f":
            feeds[name] = rng.standard_normal(shape).astype(tensor.dtype)
        else:
            limits = np.iinfo(tensor.dtype)
            feeds[name] = rng.integers(limits.min, limits.max, shape, tensor.dtype, endpoint=True)
    return feeds


def differences(pair: Pair, shapes: Optional[Dict[str, Tuple[int, ...]]] = None) -> Dict[str, float]:
    """How much LiteRT's outputs differ from the pair's, at most."""
    feeds = feeds_of(pair, shapes or {})
    _, found = run_written(pair, feeds, shapes)
    with Predictor(pair, threads=1) as predictor:
        wanted = predictor.run(feeds)
    assert {name: y.shape for name, y in found.items()} == {name: np.shape(y) for name, y in wanted.items()}
    return {
        name: float(np.abs(found[name].astype(np.float64) - y).max() / max(1.0, float(np.abs(y).max())))
        for name, y in wanted.items()
    }


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_network_computes_the_same_without_needless_transpositions(name: str, shared: Path) -> None:
    files, shapes, transpositions = FLOATS[name]
    pair = export(*(str(shared / "models" / file) for file in files))
    assert max(differences(pair, shapes).values()) < NEAR
    assert types_of(translated(pair, shapes)).count("TRANSPOSE") == transpositions


@pytest.mark.parametrize("name", INTEGER)
def test_an_integer_network_computes_the_same_bits(name: str, shared: Path) -> None:
    pair = export(str(shared / f"models/tflite/{name}.tflite"))
    assert set(differences(pair).values()) == {0.0}
    assert "TRANSPOSE" not in types_of(translated(pair, {}))


def test_the_digits_compute_the_same_plain_optimised_and_quantised() -> None:
    plain = export(str(DEMO / "digits.onnx"))
    samples = [{plain.inputs[0].name: x} for x in np.random.default_rng(0).random((8, 1, 1, 8, 8)).astype(np.float32)]
    for pair in (plain, optimize(plain), quantize(plain, None, "float16")):
        assert max(differences(pair).values()) < NEAR
    integers = quantize(plain, samples, "int8", "int8")
    assert {"QUANTIZE", "CONV_2D", "DEQUANTIZE"} <= set(types_of(translated(integers, {})))
    assert max(differences(integers).values()) < LAST_BITS  # a softmax of floats follows the integers


def test_random_nets_compute_the_same_plain_and_optimised() -> None:
    compared: Counter[bool] = Counter()

    @settings(max_examples=60)
    @given(random_nets())
    def check(drawn: RandomNet) -> None:
        compared.update(compare(drawn))

    check()
    assert compared[True] > compared[False], "most of these nets consist of operators that TFLite has"


def compare(drawn: RandomNet) -> Iterator[bool]:
    """Whether the net was written, plain and optimised; AssertionError if LiteRT computes something else."""
    plain = drawn.pair()
    for pair in (plain, optimize(plain)):
        with Predictor(pair, threads=1) as predictor:
            ours = predictor.run(drawn.feed())
        try:
            _, found = run_written(pair, drawn.feed())
        except ArmnetError:
            yield False
            continue
        for name, y in ours.items():
            assert_close(found[name].reshape(np.shape(y)), y, terms=4096, what=name)
        yield True
