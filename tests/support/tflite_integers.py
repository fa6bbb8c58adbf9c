"""Single quantised TFLite operators with random parameters, run by armnet and by LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
from hypothesis import strategies as st

from tests.support.tflite_models import Model, Quantization, ours, reference

DTYPES = st.sampled_from(["int8", "uint8"])
ACTIVATIONS = st.sampled_from([0, 1, 2, 3])  # none, RELU, RELU_N1_TO_1, RELU6


def scales(low: float = -8, high: float = -1) -> st.SearchStrategy[float]:
    """Positive float32 values between 2**low and 2**high."""
    return st.floats(low, high).map(lambda power: float(np.float32(2.0**power)))


@st.composite
def affine(draw: Any, dtype: str, scale: Optional[st.SearchStrategy[float]] = None) -> Quantization:
    """One scale and one zero point, often at an end of the dtype's range; 0 for int16."""
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    zero_point = 0 if dtype == "int16" else draw(st.sampled_from([low, high]) | st.integers(low, high))
    return Quantization([draw(scales() if scale is None else scale)], [zero_point])


def whole_range(shape: Sequence[int], dtype: str, seed: int) -> Any:
    """Integers from the dtype's whole range, including both ends."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    values = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    flat = values.reshape(-1)
    flat[:2] = [limits.min, limits.max][: flat.size]
    return values


class Single:
    """A network of one operator: its operands in order, then one output."""

    def __init__(self) -> None:
        self._model = Model()
        self._operands: List[int] = []
        self._feeds: Dict[str, Any] = {}

    def feed(self, values: Any, quantization: Optional[Quantization] = None) -> None:
        """An operand that is an input of the network."""
        name = f"x{len(self._operands)}"
        self._operands.append(self._model.input(name, values.shape, values.dtype.name, quantization=quantization))
        self._feeds[name] = values

    def constant(self, values: Any, quantization: Optional[Quantization] = None, dtype: Optional[str] = None) -> None:
        """An operand that is stored in the file; with ``dtype`` int64 stays what it is."""
        more = {} if dtype is None else {"dtype": dtype}
        self._operands.append(
            self._model.constant(f"c{len(self._operands)}", values, quantization=quantization, **more)
        )

    def order(self, places: Sequence[int]) -> None:
        """Puts the operands into another order."""
        self._operands = [self._operands[place] for place in places]

    def assert_equal(
        self,
        type: str,
        dtype: str,
        quantization: Optional[Quantization],
        options: str = "",
        version: int = 1,
        **fields: Any,
    ) -> None:
        """Raises AssertionError unless armnet's output equals LiteRT's bit for bit."""
        y = self._model.tensor("y", dtype=dtype, quantization=quantization)
        self._model.operator(type, self._operands, [y], options, version=version, **fields)
        data = self._model.to_bytes([y])
        (expected,) = reference(data, self._feeds)
        with TemporaryDirectory() as folder:
            (result,) = ours(Path(folder), data, self._feeds)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
