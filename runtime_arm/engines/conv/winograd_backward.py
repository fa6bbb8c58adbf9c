"""WINOGRAD for gradients: dX of a 3x3 convolution of stride 1 is one of dY, with the filters flipped and transposed.

U of the flipped filters is made in each run; BLAS reads it transposed for dX. dW is computed as by IM2COL.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

from runtime_arm.engines.conv import winograd
from runtime_arm.engines.conv.gradient_columns import (
    Cut,
    Shape,
    WeightSum,
    bias_steps,
    gradient_work,
    shape_of,
    wanted,
    weight_steps,
)
from runtime_arm.engines.conv.operands import wrong_dtype
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.operators.conv.convolution_gradients import conv_gradient
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, shaped

BACK = OperatorDef.of("Conv", ["dY", "W"], ["dX"])


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    shape = shape_of(op, inputs)
    window, wrong = shape.window, wrong_dtype(inputs[0])
    if wrong is not None:
        return wrong
    if shape.channels_last:
        return "the order must be NCHW"
    if not (window.kernel == (3, 3) and window.stride == window.dilation == (1, 1) and shape.group == 1):
        return "it must be a 3x3 convolution of one group, with stride and dilation 1"
    if max(window.head) > 2:
        return f"the padding must be 2 at most, got {list(window.head)}"
    if any(spec is not None and not spec.size for spec in inputs):
        return "there is nothing to add up"
    if len(outputs) < (2 if op.get_bool("no_bias") else 3):
        return "dX is not asked for"
    return winograd.changing_refusal(_back(shape))


def _back(shape: Shape) -> Convolution:
    """The convolution that makes dX of dY."""
    window, ones = shape.window, (1, 1)
    head = tuple(2 - pad for pad in window.head)
    turned = Window(window.output, window.kernel, ones, ones, head, (0, 0), window.image)
    return Convolution(turned, 1, False, shape.batch, shape.outer, shape.inner)


def _tiling(shape: Shape, itemsize: int) -> winograd.Tiling:
    convolution = _back(shape)
    return winograd.Tiling(convolution, winograd.choose_tile(BACK, convolution, True), itemsize)


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    shape, dtype = shape_of(op, inputs), outputs[0].dtype
    tiling = _tiling(shape, dtype.itemsize)
    back = winograd.tile_work(tiling.convolution, tiling.tile, True)
    columns = PASS * shape.batch * shape.window.output[0] * shape.window.output[1] * shape.terms
    return Work(gradient_work(shape) + back.multiplies, (columns + back.moves) / winograd.WORTHWHILE, back.error)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Columns and outputs of a block, or tiles; the two of ``WeightSum``; U."""
    shape, dtype = shape_of(op, inputs), outputs[0].dtype
    cut, tiling = Cut(shape, dtype.itemsize), _tiling(shape, dtype.itemsize)
    sizes = [max(sizes) for sizes in zip(cut.room, tiling.buffers())]
    return [TensorSpec((n,), dtype) for n in (*sizes, *WeightSum.sizes(cut), tiling.filter_size)]


@conv_gradient.kernel("WINOGRAD", supports=supports, scratch=scratch, work=work)
def conv_winograd(call: Call) -> Run:
    (_, w, dy), (db, dx) = call.inputs, wanted(call)
    assert dx is not None
    shape = shape_of(call.op, call.in_specs)
    cut, tiling = Cut(shape, w.itemsize), _tiling(shape, w.itemsize)
    steps: List[Step] = list(bias_steps(dy, (shape.batch, shape.outer, cut.pixels), db))
    steps += weight_steps(call, cut, None)
    filters = shaped(call.scratch[4], tiling.reach**2, shape.outer, shape.inner)
    back = Call(BACK, [dy, w], [dx], call.scratch[:2], [call.in_specs[2], None], [call.out_specs[-1]], {})
    steps.append(winograd.transform_step(tiling, w, filters, turned=True))
    return in_turn([*steps, *winograd.tile_steps(back, tiling, filters.swapaxes(1, 2))])
