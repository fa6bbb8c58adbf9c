"""The common parts of the update operators: their shapes, and kernels that process tensors block by block.

A parameter may be larger than the caches. A block of every tensor involved, and of the scratch, fits: so each number is
fetched once, although an update is a chain of many NumPy calls. Every output may use the memory of the input that it
replaces, so a formula writes an output only after it has read that input for the last time.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

BLOCK = 16384  # elements
Views = Tuple[Array, ...]
Formula = Callable[[Views, Views, Views], None]


def require_alike(op: OperatorDef, *tensors: TensorSpec) -> None:
    """ShapeError unless the tensors are float32 and of one size."""
    alike = all(spec.dtype == np.float32 and spec.size == tensors[0].size for spec in tensors)
    require(op, alike, "parameter, gradient and state must be float32 and of one size", *tensors)


def require_number(op: OperatorDef, *numbers: TensorSpec) -> None:
    """ShapeError unless each of these is one float32, such as a learning rate."""
    require(op, all(x.size == 1 and x.dtype == np.float32 for x in numbers), "must be one float32 each", *numbers)


def number(array: Array) -> Any:
    """The only element of an array, a scalar of its dtype."""
    return array.reshape(-1)[0]


def share(op: OperatorDef, name: str, default: float) -> Tuple[float, float]:
    """A float argument and what it leaves of 1, both rounded to float32, as Caffe2 computes them."""
    kept = np.float32(op.get_float(name, default))
    return float(kept), float(np.float32(1) - kept)


def doubles(*arrays: Array) -> List[Array]:
    return [array.astype(np.float64) for array in arrays]


def singles(*arrays: Array) -> List[Any]:
    return [np.asarray(array, np.float32) for array in arrays]


def block_scratch(count: int) -> Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]]:
    """A kernel's ``scratch``: this many blocks."""

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return [TensorSpec((min(BLOCK, outputs[0].size),), np.float32)] * count

    return scratch


def by_blocks(call: Call, tensors: Sequence[int], begin: Callable[[], Formula]) -> Run:
    """A run that computes this worker's part of the outputs from the inputs with these indices, block by block.

    ``begin`` is called first; it reads the learning rate and returns the formula, which takes the blocks of the inputs,
    of the outputs and of the scratch.
    """
    flat = [call.inputs[index].reshape(-1) for index in tensors]
    results = [y.reshape(-1) for y in call.outputs]
    part = call.slice_of(flat[0].size)
    blocks = []
    for start in range(part.start, part.stop, BLOCK):
        at = slice(start, min(start + BLOCK, part.stop))
        spare = tuple(buffer[: at.stop - at.start] for buffer in call.scratch)
        blocks.append((tuple(x[at] for x in flat), tuple(y[at] for y in results), spare))

    def run() -> None:
        formula = begin()
        for block in blocks:
            formula(*block)

    return run
