"""The passes after the products of a convolution, while a block of them is in the cache: bias, addend, activation.

Running each pass over the whole blob takes twice as long as running all passes over one block after the other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.operands import bias_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.formulas import CLIPS_FAST, level
from runtime_arm.operators.fused.fused import MAX, OPERANDS, PRELU, activation_of, formula_of, is_broadcast
from runtime_arm.registry.blocks import BLOCK, blocks
from runtime_arm.registry.facts import FastFormula, Formula, arguments_of
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import Step, clip, into

if TYPE_CHECKING:
    from runtime_arm.engines.conv.gates import Gate

FORMULA_PASSES = 4  # of Swish, HardSwish, PRelu


def finish(call: Call, y: Array, channels_last: bool, filters: slice = slice(None)) -> List[Step]:
    """The steps that follow a block of a convolution's products, which are in ``y``, a view of its output.

    y: (..., M, pixels), with ``channels_last`` (..., pixels, M). filters: those that M stands for, among all.
    """
    tail = Tail(call, y, -1 if channels_last else -2, filters)
    bias = bias_of(call)
    if bias is None and not tail:
        return []
    biases = None if bias is None else _along(bias[filters], y, -1 if channels_last else -2)
    steps: List[Step] = []
    for index in blocks(y.shape):
        part = y[index]
        if biases is not None:
            steps.append(into(np.add, part, biases[index], part))
        steps += tail.steps(part, index)
    return steps


class Activation:
    """The activation of an operator, in place on parts of ``y``.

    limits: a ufunc and a number each, if the activation is only that; else empty. floor: its operand, one number a
    channel, if the activation is the maximum with that; else None. PRelu's operand is its slope.
    """

    def __init__(self, call: Call, y: Array, channel_axis: int, channels: slice = slice(None)):
        self.limits = limits_of(call.op)
        self._gate = gate_of(call.op) if y.dtype == np.float32 else None
        self._factor = None if call.prescaled or self._gate is None else np.array(self._gate.factor, y.dtype)
        self._formula = None if self.limits or self._gate is not None else activation_formula(call.op)
        self._scratch = call.scratch[len(call.scratch) - scratch_count(call.op) :]
        operand = operand_of(call)
        if operand is not None and operand.size > 1:
            operand = operand[channels]
        self.floor: Optional[Array] = None
        if operand is not None and self._formula is _max_into:
            self.floor = operand.reshape(-1)
        self._operands = None if operand is None else _along(operand, y, channel_axis)

    def __bool__(self) -> bool:
        return self._formula is not None or self._gate is not None or bool(self.limits)

    def steps(self, part: Array, index: Tuple[Any, ...]) -> Iterator[Step]:
        """The steps for one part of ``y``, the one at ``index``: of at most a block of elements."""
        temporaries = [buffer[: part.size].reshape(part.shape) for buffer in self._scratch]
        if self._gate is not None:
            if self._factor is not None:
                yield partial(np.multiply, part, self._factor, part)
            yield from self._gate.steps(part, temporaries[0])
            yield partial(np.multiply, part, temporaries[0], out=part)
        if self.floor is not None and self._operands is not None:
            yield partial(np.maximum, part, self._operands[index], out=part)
        elif self._formula is not None:
            operands = [] if self._operands is None else [self._operands[index]]
            yield partial(self._formula, part, part, *temporaries, *operands)
        if len(self.limits) == 2 and CLIPS_FAST:
            (_, low), (_, high) = self.limits
            yield clip(part, low, high, part)
            return
        for bound, value in self.limits:
            yield partial(bound, part, level(value, part), out=part)


class Tail:
    """The end of a fused operator: what is added to its results, in place, and the activation.

    ``y`` is a view of the call's output.
    """

    def __init__(self, call: Call, y: Array, channel_axis: int, channels: slice = slice(None)):
        addend = addend_of(call)
        self._addend = None if addend is None else _same_part(y, call.outputs[0], addend)
        self._activation = Activation(call, y, channel_axis, channels)

    def __bool__(self) -> bool:
        return self._addend is not None or bool(self._activation)

    def steps(self, part: Array, index: Tuple[Any, ...]) -> Iterator[Step]:
        """The steps for one part of ``y``, the one at ``index``: of at most a block of elements."""
        if self._addend is not None:
            yield into(np.add, part, self._addend[index], part)
        yield from self._activation.steps(part, index)


def addend_of(call: Call) -> Optional[Array]:
    """What a fused operator adds to its layer's results; None for other operators."""
    return _input_behind(call, 0)


def operand_of(call: Call) -> Optional[Array]:
    """The second operand of a fused operator's activation; None for other operators."""
    return _input_behind(call, 1)


def _input_behind(call: Call, offset: int) -> Optional[Array]:
    """The input this many places after the addend."""
    fusion = lookup(call.op).fusion
    if fusion is None or fusion.addend is None:
        return None
    found: Optional[Array] = _given(call.inputs, fusion.addend + offset)
    return found


def tail_refusal(op: OperatorDef, shape: Shape, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    """Why what follows the layer of a fused operator cannot run block by block over the layer's results, of this shape.
    None if it can."""
    fusion, activation = lookup(op).fusion, activation_of(op)
    addend = None if fusion is None or fusion.addend is None else _given(inputs, fusion.addend)
    if is_broadcast(addend, outputs[0], shape):
        return "the terms of the sum must have one shape"
    formula = None if activation is None else formula_of(activation)
    if formula is not None and outputs[0].dtype.name not in formula.dtypes:
        return f"the activation has no formula for {outputs[0].dtype.name}"
    return None


def tail_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """The scratch buffers of the tail; they come last among those of a kernel."""
    return [TensorSpec((min(BLOCK, outputs[0].size),), outputs[0].dtype)] * scratch_count(op)


def scratch_count(op: OperatorDef) -> int:
    """How many temporaries the activation takes."""
    activation = activation_of(op)
    if activation is None or limits_of(op):
        return 0
    if activation.full_type in OPERANDS:
        return 1 if activation.type == PRELU else 0
    return _fast_formula(activation).scratch


def activation_passes(op: OperatorDef) -> int:
    """How many passes over the results the activation takes, about."""
    activation = activation_of(op)
    if activation is None:
        return 0
    return 1 if limits_of(op) or activation.full_type == MAX else FORMULA_PASSES


def gate_of(op: OperatorDef) -> Optional[Gate]:
    """The activation as a gate, None if it is none (see ``gates.py``)."""
    activation = activation_of(op)
    if activation is None or activation.type not in ("Swish", "HardSwish"):
        return None
    from runtime_arm.engines.conv import gates

    return gates.gate(activation)


def limits_of(op: OperatorDef) -> List[Tuple[Any, float]]:
    """The activation as limits, each a ufunc and a number; empty if it is anything else."""
    activation = activation_of(op)
    if activation is None or activation.type not in ("Clip", "Relu"):
        return []
    if activation.type == "Relu":
        return [(np.maximum, 0.0)]
    clip = arguments_of(activation, _fast_formula(activation).defaults)
    return [(np.maximum, clip["min"]), (np.minimum, clip["max"])]


def activation_formula(op: OperatorDef) -> Optional[Formula]:
    """The formula of a fused operator's activation, with its arguments; None without one."""
    activation = activation_of(op)
    if activation is None:
        return None
    if activation.full_type in OPERANDS:
        return _prelu_into if activation.type == PRELU else _max_into
    return _fast_formula(activation).bind(activation)


def _fast_formula(activation: OperatorDef) -> FastFormula:
    found = formula_of(activation)
    assert found is not None, f"{activation.full_type} has no fast formula"
    return found


def _prelu_into(x: Array, y: Array, t: Array, slope: Array) -> None:
    """y = x where x > 0, else slope x."""
    np.minimum(x, level(0, x), out=t)
    np.multiply(t, slope, out=t)
    np.maximum(x, level(0, x), out=y)
    np.add(y, t, out=y)


def _max_into(x: Array, y: Array, floor: Array) -> None:
    np.maximum(x, floor, out=y)


def _given(inputs: Sequence[Any], at: int) -> Any:
    return inputs[at] if len(inputs) > at else None


def _along(vector: Array, y: Array, axis: int) -> Array:
    """One number a channel (or one for all), broadcast to ``y``."""
    shape = [1] * y.ndim
    shape[axis] = vector.size
    broadcast: Array = np.broadcast_to(vector.reshape(shape), y.shape)
    return broadcast


def _same_part(part: Array, whole: Array, other: Array) -> Array:
    """The view of ``other`` at the place that ``part`` has in ``whole``; both are contiguous and of one shape."""
    if not part.size:
        return part
    offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    view: Array = np.ndarray(part.shape, part.dtype, other, offset, part.strides)
    return view
