"""Random attention operators with their operands."""

from __future__ import annotations

import random
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import OperatorDef
from tests.support.onnx_nodes import onnxruntime_outputs

TERMS = 256


class Draws:
    """A source of sizes, attributes and floats."""

    def __init__(self, seed: int):
        self.choice = random.Random(seed).choice
        self.rng = np.random.default_rng(seed)

    def real(self, *shape: int) -> Any:
        return self.rng.standard_normal(shape).astype(np.float32)

    def some(self, **attributes: Any) -> Dict[str, Any]:
        """Each of these attributes in one of three draws."""
        return {name: value for name, value in attributes.items() if self.choice([True, False, False])}

    def maybe(self, value: Any) -> Any:
        return value if self.choice([True, False]) else None


def operator(
    type: str, inputs: Sequence[Any], outputs: Sequence[str], domain: str, attributes: Dict[str, Any]
) -> OperatorDef:
    """The operator on inputs a, b, c, ...; None is left out."""
    names = ["" if x is None else f"in_{i}" for i, x in enumerate(inputs)]
    return OperatorDef.of(type, names, outputs, domain=domain, **attributes)


def trimmed(inputs: Sequence[Optional[Any]]) -> List[Optional[Any]]:
    """Without what is left out at the end."""
    given = [i for i, x in enumerate(inputs) if x is not None]
    return list(inputs[: given[-1] + 1])


def check(op: OperatorDef, inputs: Sequence[Any], opset: int, constants: Sequence[int] = ()) -> List[Any]:
    """AssertionError unless engines, reference and onnxruntime agree; the outputs."""
    assert_engines_match_reference(op, inputs, terms=TERMS, constants=constants)
    results = run_kernel(op, inputs, constants=constants)
    for actual, expected in zip(results, onnxruntime_outputs(op, inputs, [np.float32] * len(op.output), opset)):
        assert_close(actual, expected, terms=TERMS, magnitude=np.abs(expected).max(initial=0) + 3)
    return results
