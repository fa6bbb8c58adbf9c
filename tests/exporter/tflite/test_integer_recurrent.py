"""Recurrent layers of integers equal LiteRT's reference kernels bit for bit, states included, over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.support.tflite_models import Model, Quantization, interpreter

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
BATCH, TIME, DEPTH, CELLS = 2, 4, 6, 8


def assert_runs_alike(folder: Path, data: bytes, shape: Any, seed: int) -> None:
    """Four runs of the plain and of the optimised pair, so that the states that one run leaves influence the next."""
    (folder / "model.tflite").write_bytes(data)
    runner, rng = interpreter(data), np.random.default_rng(seed)
    plain = export(folder / "model.tflite")
    with Predictor(plain, threads=1) as first, Predictor(optimize(plain), threads=1) as second:
        for _ in range(4):
            x = rng.integers(-128, 128, shape).astype(np.int8)
            runner.set_tensor(runner.get_input_details()[0]["index"], x)
            runner.invoke()
            expected = runner.get_tensor(runner.get_output_details()[0]["index"])
            assert len(np.unique(expected)) > 2
            for predictor in (first, second):
                (result,) = predictor.run([x]).values()
                assert result.dtype == expected.dtype
                np.testing.assert_array_equal(result, expected)


class Parts:
    """Random constants and states of a model."""

    def __init__(self, model: Model, seed: int):
        self._model, self._rng = model, np.random.default_rng(seed)

    def scale(self, low: float = -9, high: float = -6) -> float:
        return float(np.float32(2.0 ** self._rng.uniform(low, high)))

    def constant(self, dtype: str, *shape: int, reach: int = 127, scale: float = 0.0) -> int:
        values = self._rng.integers(-reach, reach + 1, shape).astype(dtype)
        given = Quantization([scale or self.scale()], [0])
        return self._model.constant(f"c{len(self._model.tensors)}", values, dtype=dtype, quantization=given)

    def state(self, dtype: str, scale: float, zero_point: int, *shape: int) -> int:
        given = Quantization([scale], [zero_point])
        return self._model.tensor(f"s{len(self._model.tensors)}", shape, dtype, quantization=given, is_variable=True)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_svdf_layer(tmp_path: Path, seed: int, rank: int, bias: bool) -> None:
    model = Model()
    parts, memory, filters = Parts(model, seed), 5, 2 * CELLS
    x = model.input("x", (BATCH, DEPTH), "int8", quantization=Quantization([0.02], [seed]))
    y = model.tensor("y", (), "int8", quantization=Quantization([0.05], [-128 + 9 * seed]))
    inputs = [
        x,
        parts.constant("int8", filters, DEPTH, scale=0.01),
        parts.constant("int16", filters, memory, reach=30000, scale=2.0**-14),
        parts.constant("int32", filters // rank, reach=30000) if bias else -1,
        parts.state("int16", 2.0**-9, 0, BATCH, filters * memory),
    ]
    model.operator("SVDF", inputs, [y], "SVDFOptions", Rank=rank, FusedActivationFunction=1, version=3)
    assert_runs_alike(tmp_path, model.to_bytes([y]), (BATCH, DEPTH), seed)


KINDS: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "without input gate": {"cifg": True},
    "peephole": {"peephole": True},
    "projected": {"projected": 3},
    "normalised": {"normalised": True},
    "normalised and projected": {"normalised": True, "projected": 3},
    "peephole and projected": {"peephole": True, "projected": 3},
    "peephole and normalised": {"peephole": True, "normalised": True},
    "everything": {"peephole": True, "projected": 3, "normalised": True},
    "all but an input gate": {"peephole": True, "projected": 3, "normalised": True, "cifg": True},
}


def lstm(
    seed: int,
    *,
    cifg: bool = False,
    peephole: bool = False,
    projected: int = 0,
    normalised: bool = False,
    power: int = -11,
    time_major: bool = False,
    **fields: Any,
) -> Any:
    """A file with one layer, and the shape of its input."""
    model, size = Model(), projected or CELLS
    parts = Parts(model, seed)
    shape = (TIME, BATCH, DEPTH) if time_major else (BATCH, TIME, DEPTH)
    x = model.input("x", shape, "int8", quantization=Quantization([0.02], [seed]))
    of_h = Quantization([0.006], [3 * seed])

    def gates(dtype: str, *dims: int, **more: Any) -> List[int]:
        return [-1 if cifg and gate == 0 else parts.constant(dtype, *dims, **more) for gate in range(4)]

    inputs = [x, *gates("int8", CELLS, DEPTH), *gates("int8", CELLS, size)]
    peepholes = [parts.constant("int16", CELLS, reach=9999, scale=2.0**-14) for _ in range(3)]
    inputs += [-1 if not peephole or (cifg and place == 0) else one for place, one in enumerate(peepholes)]
    inputs += gates("int32", CELLS, reach=9000)
    inputs += [parts.constant("int8", projected, CELLS), parts.constant("int32", projected)] if projected else [-1, -1]
    inputs += [parts.state("int8", of_h.scale[0], of_h.zero_point[0], BATCH, size)]
    inputs += [parts.state("int16", 2.0**power, 0, BATCH, CELLS)]
    inputs += gates("int16", CELLS, reach=9999, scale=2.0**-13) if normalised else [-1] * 4
    y = model.tensor("y", (), "int8", quantization=of_h)
    between = [
        model.tensor(f"g{n}", (), "int16" if n < 4 else "int8", quantization=Quantization([scale], [zero]))
        for n, (scale, zero) in enumerate([(2.0**-12, 0)] * 4 + [(0.007, -4) if projected else (0.006, 3 * seed)])
    ]
    options = {"FusedActivationFunction": 4, "TimeMajor": time_major, **fields}
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [y],
        "UnidirectionalSequenceLSTMOptions",
        intermediates=between,
        version=3,
        **options,
    )
    return model.to_bytes([y]), shape


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_lstm(tmp_path: Path, kind: str, time_major: bool, seed: int) -> None:
    data, shape = lstm(seed, time_major=time_major, **KINDS[kind])
    assert_runs_alike(tmp_path, data, shape, seed)


@pytest.mark.parametrize("power", [-15, -13, -9])
@pytest.mark.parametrize("seed", [3, 4])
def test_limits_and_scales_of_cells(tmp_path: Path, seed: int, power: int) -> None:
    """A projection that saturates, and clipped cells and outputs."""
    data, shape = lstm(seed, power=power, projected=3, CellClip=0.3, ProjClip=0.4)
    assert_runs_alike(tmp_path, data, shape, seed)


def test_what_an_lstm_of_integers_needs(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(lstm(1, power=-8)[0])
    with pytest.raises(ExportError, match="C_scale must be a power of two"):
        export(path)
    path.write_bytes(lstm(1, FusedActivationFunction=1)[0])
    with pytest.raises(ExportError, match="must have the activation TANH"):
        export(path)
