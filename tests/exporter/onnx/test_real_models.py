"""Real ONNX networks compute the outputs that were recorded with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from exporter import export
from runtime_arm import Predictor
from runtime_arm.pair.pair import Pair

FLOAT_NETWORKS = {
    "fastestdet__FastestDet": "fastestdet/FastestDet.onnx",
    "mnist_8__mnist": "mnist_8/mnist.onnx",
    "ppocr_mobile_v1.1_det__ch_mobile_v1.1_det": "ppocr_mobile_v1.1_det/ch_mobile_v1.1_det.onnx",
    "silero_vad__silero_vad_16k_op15": "silero_vad/silero_vad_16k_op15.onnx",
    "squeezenet_v1.1": "squeezenet_v1.1/squeezenet_v1.1.onnx",
    "super_resolution_10__model": "super_resolution_10/model.onnx",
    "ultraface__version-RFB-320_simplified": "ultraface/version-RFB-320_simplified.onnx",
    "yunet__yunet_n_320_320": "yunet/yunet_n_320_320.onnx",
}
QUANTISED = ("shufflenet_v2_12_int8__shufflenet-v2-12-int8", "shufflenet_v2_12_int8/shufflenet-v2-12-int8.onnx")
RELATIVE_ERROR = 1e-4  # of the output's largest magnitude


def samples(pair: Pair, reference: Dict[str, Any]) -> Iterator[Tuple[Dict[str, Any], List[Any]]]:
    """Inputs and recorded outputs of each run; a reference holds several runs if the network takes a batch of one."""
    inputs = {info.name: reference.get(f"in_{info.name}", reference.get(info.name)) for info in pair.inputs}
    outputs = [reference.get(f"out_{index}", reference.get(info.name)) for index, info in enumerate(pair.outputs)]
    first = pair.inputs[0]
    batch = first.shape[0] if first.shape else None
    count = inputs[first.name].shape[0] if batch == 1 else 1
    for index in range(count):
        part = slice(index, index + 1) if count > 1 else slice(None)
        yield (
            {name: value[part] if value.ndim else value for name, value in inputs.items()},
            [output[part] for output in outputs],
        )


@pytest.mark.parametrize("name", FLOAT_NETWORKS)
def test_a_float_network_reproduces_its_reference(shared: Path, name: str) -> None:
    pair = export(shared / "models/onnx" / FLOAT_NETWORKS[name])
    reference = dict(np.load(shared / f"models/references/onnx_{name}.npz"))
    with Predictor(pair) as predictor:
        for inputs, expected in samples(pair, reference):
            for info, result, wanted in zip(pair.outputs, predictor.run(inputs).values(), expected):
                assert result.shape == wanted.shape, info.name
                assert np.abs(result - wanted).max() <= RELATIVE_ERROR * np.abs(wanted).max(), info.name


def test_the_quantised_network_agrees_with_its_reference(shared: Path) -> None:
    """The same five best classes, and 99 % of the outputs within one step of the output's quantisation."""
    pair = export(shared / "models/onnx" / QUANTISED[1])
    reference = dict(np.load(shared / f"models/references/onnx_{QUANTISED[0]}.npz"))
    (dequantize,) = [op for op in pair.predict_net.op if op.output[0] == pair.outputs[0].name]
    weights = {op.output[0]: op.get_tensor("values") for op in pair.init_net.op}
    step = float(weights[dequantize.input[1]].reshape(-1)[0])
    with Predictor(pair) as predictor:
        for inputs, (wanted,) in samples(pair, reference):
            (result,) = predictor.run(inputs).values()
            assert set(np.argsort(result[0])[-5:]) == set(np.argsort(wanted[0])[-5:])
            assert np.mean(np.abs(result - wanted) <= 1.01 * step) >= 0.99


@pytest.mark.parametrize("path", [*FLOAT_NETWORKS.values(), QUANTISED[1]])
def test_a_saved_pair_is_the_same_network(shared: Path, tmp_path: Path, path: str) -> None:
    pair = export(shared / "models/onnx" / path)
    pair.save(tmp_path / "pair")
    loaded = Pair.load(tmp_path / "pair")
    assert loaded.predict_net == pair.predict_net
    assert loaded.init_net == pair.init_net
    assert loaded.inputs == pair.inputs
    assert loaded.outputs == pair.outputs
    assert loaded.meta["source"]["name"] == Path(path).name


def test_symbolic_dimensions_keep_their_names(shared: Path) -> None:
    pair = export(shared / "models/onnx/silero_vad/silero_vad_16k_op15.onnx")
    assert [info.shape for info in pair.inputs] == [("batch", "sequence"), (2, "batch", 128), ()]


def test_a_free_batch_runs_at_any_size(shared: Path) -> None:
    pair = export(shared / "models/onnx/super_resolution_10/model.onnx")
    x = np.random.default_rng(0).random((3, 1, 224, 224), np.float32)
    with Predictor(pair) as predictor:
        together = predictor.run([x])["output"]
        one_by_one = [predictor.run([x[i : i + 1]])["output"][0] for i in range(3)]
    assert together.shape == (3, 1, 672, 672)
    assert_network_close(together, np.stack(one_by_one))
