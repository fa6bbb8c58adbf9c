"""INT8: TensorFlow Lite's dynamic-range layers by float32 GEMM, exact as ``onnx.py`` explains.

The quantised values minus the zero point are within -255 to 255. They are kept as float32, and so are the weights:
their convolution is an ordinary one, by an engine that only multiplies and adds. If a sum might reach 2**24, the
channels are cut into slices whose sums cannot, and the slices are added in float64.
"""

from __future__ import annotations

from functools import partial
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.operands import bias_of
from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.tflite.hybrid import (
    as_conv,
    asymmetric_range,
    extremes,
    factors,
    hybrid_conv,
    hybrid_convolution,
    hybrid_depthwise_conv,
    hybrid_fully_connected,
    is_symmetric,
    rounded,
    symmetric_range,
    weight_scales,
)
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

_LARGEST = 255  # of a quantised value less the integer of zero
_ADDING = ("DEPTHWISE", "POINTWISE", "IM2COL")  # engines of Conv that only multiply and add: integers stay exact


def _slices(weights: Array) -> List[slice]:
    """Parts of the second dimension over which no sum can reach 2**24; weights (M, C, ...)."""
    reach = np.abs(weights.astype(np.int64)).reshape(*weights.shape[:2], -1).sum(2) * _LARGEST
    parts, start = [], 0
    total = np.zeros(len(weights), np.int64)
    for channel in range(weights.shape[1]):
        if start < channel and bool(np.any(total + reach[:, channel] >= EXACT)):
            parts.append(slice(start, channel))
            start, total = channel, np.zeros(len(weights), np.int64)
        total = total + reach[:, channel]
    return [*parts, slice(start, weights.shape[1])]


class _Part(NamedTuple):
    """The convolution of a slice of the channels of one sample."""

    channels: slice
    op: OperatorDef
    specs: List[Optional[TensorSpec]]
    result: TensorSpec
    kernel: Kernel


def _parts(op: OperatorDef, inputs: Specs) -> List[_Part]:
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    assert w.value is not None
    convolution, conv = hybrid_convolution(op, x, w), as_conv(op)
    result = TensorSpec((1, *convolution.output_shape[1:]), np.float32)
    whole = slice(0, x.shape[1])
    slices = _slices(w.value) if convolution.group == 1 else [whole]
    made = []
    for channels in slices:
        weights = w.value if channels == whole or convolution.group > 1 else w.value[:, channels]
        specs: List[Optional[TensorSpec]] = [
            TensorSpec((1, channels.stop - channels.start, *x.shape[2:]), np.float32),
            TensorSpec.known(np.ascontiguousarray(weights, np.float32)),
        ]
        kernels = lookup(conv).kernels
        fitting = [kernels[name] for name in _ADDING if kernels[name].supports(conv, specs, [result]) is None]
        made.append(_Part(channels, conv, specs, result, fitting[0]))
    return made


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if not all_known(inputs[1:2]):
        return "the weights must be constant"
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    assert w.value is not None
    convolution = hybrid_convolution(op, x, w)
    if convolution.window.in_three() is None:
        return f"there may be up to 3 spatial dimensions, got {convolution.window.ndim}"
    if convolution.group > 1 and len(_slices(w.value)) > 1:
        return "the sums of a group may reach 2**24"
    return None


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Quantised values, a second buffer as large, sums in float64 where there are slices, then the engine's own."""
    x = inputs[0]
    assert x is not None
    parts = _parts(op, inputs)
    own = [list(part.kernel.scratch(part.op, part.specs, [part.result])) for part in parts]
    sample = TensorSpec(x.shape[1:], np.float32)
    wide = TensorSpec((parts[0].result.size if len(parts) > 1 else 0,), np.float64)
    largest = [max(specs, key=lambda spec: spec.nbytes) for specs in zip(*own)]
    return [sample, sample, wide, *largest]


@hybrid_conv.kernel("INT8", supports=_supports, scratch=_scratch)
@hybrid_depthwise_conv.kernel("INT8", supports=_supports, scratch=_scratch)
def hybrid_convolution_by_gemm(call: Call) -> Run:
    x, b, y = call.inputs[0], bias_of(call), call.outputs[0]
    parts = call.packed(f"parts of {x.shape[1:]}", lambda: _parts(call.op, call.in_specs))
    scales = weight_scales(call.op, y.shape[1])
    column = (-1, *[1] * (y.ndim - 2))
    steps: List[Step] = []
    for sample, result in zip(x, y):
        q = call.scratch[0].reshape(sample.shape)
        products = [_products(call, part, q, result, place) for place, part in enumerate(parts)]
        steps.append(
            partial(
                _sample,
                call.op,
                scales,
                (sample, q, call.scratch[1].reshape(sample.shape)),
                products,
                (result, None if b is None else b.reshape(column), column),
            )
        )
    return in_turn(steps)


def _products(call: Call, part: _Part, q: Array, result: Array, place: int) -> Step:
    """The sums over one slice; those of several slices are added in float64 and rounded once."""
    weights = part.specs[1]
    assert weights is not None
    packed = call.packed(f"packed {place} for {part.kernel.engine}", dict)
    inner = Call(
        part.op,
        [q[part.channels][np.newaxis], weights.value],
        [result[np.newaxis]],
        call.scratch[3:],
        part.specs,
        [part.result],
        packed,
    )
    run, wide = part.kernel.bind(inner), call.scratch[2]
    if not wide.size:
        return run
    total = wide.reshape(result.shape)
    gather: Step = partial(np.copyto, total, result) if place == 0 else partial(np.add, total, result, total)
    return in_turn([run, gather, partial(np.copyto, result, total, casting="same_kind")])


def _sample(
    op: OperatorDef,
    scales: Array,
    quantised: Tuple[Array, Array, Array],
    products: Sequence[Step],
    finished: Tuple[Array, Optional[Array], Tuple[int, ...]],
) -> None:
    (sample, q, work), (result, b, column) = quantised, finished
    symmetric = is_symmetric(op, scales)
    scale, inverse, zero = (symmetric_range if symmetric else asymmetric_range)(*extremes(sample))
    rounded(sample, inverse, np.float32(zero), -127 if symmetric else -128, q, work)
    for step in products:
        step()
    for factor in factors(op, scales, scale):
        np.multiply(result, np.reshape(factor, column) if np.ndim(factor) else factor, out=result)
    if b is not None:
        np.add(result, b, out=result)


# HybridFullyConnected


def _supports_rows(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:2]) else "the weights must be constant"


def _rows_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Quantised rows, a second buffer as large, and sums in float64 where there are slices."""
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    assert w.value is not None
    wide = outputs[0].size if len(_slices(w.value)) > 1 else 0
    return [TensorSpec((x.size,), np.float32)] * 2 + [TensorSpec((wide,), np.float64)]


@hybrid_fully_connected.kernel("INT8", supports=_supports_rows, scratch=_rows_scratch)
def hybrid_rows(call: Call) -> Run:
    w, b = call.inputs[1], bias_of(call)
    rows = call.inputs[0].reshape(-1, w.shape[1])
    y = call.outputs[0].reshape(len(rows), w.shape[0])
    scales, asymmetric = weight_scales(call.op, w.shape[0]), call.op.get_bool("asymmetric")
    parts = call.packed(
        "parts", lambda: [(part, np.ascontiguousarray(w[:, part].T, np.float32)) for part in _slices(w)]
    )
    q, work = (buffer.reshape(rows.shape) for buffer in call.scratch[:2])
    total = call.scratch[2].reshape(y.shape) if call.scratch[2].size else None
    limits = asymmetric_range if asymmetric else symmetric_range

    def run() -> None:
        ranges = [limits(*extremes(row)) for row in rows]
        scale, inverse, zero = (np.array(column, np.float32).reshape(-1, 1) for column in zip(*ranges))
        rounded(rows, inverse, zero, -128 if asymmetric else -127, q, work)
        for place, (part, weights) in enumerate(parts):
            np.matmul(q[:, part], weights, out=y)
            if total is not None:
                np.add(total if place else 0, y, out=total)
        if total is not None:
            np.copyto(y, total, casting="same_kind")
        np.multiply(y, scales * scale, out=y)
        if b is not None:
            np.add(y, b, out=y)

    return run if len(rows) else lambda: None
