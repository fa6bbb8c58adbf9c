"""RotaryEmbedding of both domains against onnxruntime on random shapes and attributes."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import OperatorError
from tests.runtime_arm.operators.attention.draws import Draws, check, operator


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("domain", ["onnx", "com.microsoft"])
def test_rotary_embedding(domain: str, seed: int) -> None:
    draw = Draws(seed)
    batches, heads, length, numbers = draw.choice([1, 2]), draw.choice([1, 3]), draw.choice([1, 4]), draw.choice([4, 8])
    turned = draw.choice([0, 0, numbers // 2])
    half = (turned or numbers) // 2
    attributes: Dict[str, Any] = draw.some(interleaved=1)
    attributes.update({"rotary_embedding_dim": turned} if turned else {})
    flat = draw.choice([True, False])
    x = draw.real(batches, length, heads * numbers) if flat else draw.real(batches, heads, length, numbers)
    if flat or (turned and domain != "onnx"):
        attributes["num_heads"] = heads
    places = np.asarray(draw.rng.integers(0, 9, (batches, length)), np.int64)
    if domain == "onnx" and draw.choice([True, False]):
        operands = [x, draw.real(batches, length, half), draw.real(batches, length, half)]
    elif domain == "onnx":
        operands = [x, draw.real(9, half), draw.real(9, half), places]
    else:
        operands = [x, draw.choice([places, np.array([3])]), draw.real(9, half), draw.real(9, half)]
    check(operator("RotaryEmbedding", operands, ["y"], domain, attributes), operands, opset=23)


def test_positions_beyond_the_table_are_refused() -> None:
    draw = Draws(0)
    operands = [draw.real(1, 1, 2, 4), draw.real(9, 2), draw.real(9, 2), np.array([[3, 9]])]
    op = operator("RotaryEmbedding", operands, ["y"], "onnx", {})
    for engine in ("REFERENCE", "NUMPY"):
        with pytest.raises(OperatorError, match="positions 3 to 9 are not all among the 9"):
            run_kernel(op, operands, engine)
