"""POINTWISE: a 1x1 convolution is a product of matrices, straight from X into Y."""

from __future__ import annotations

import math
from typing import Optional, Sequence

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.epilogue import finish
from runtime_arm.engines.conv.operands import convolution_in, wrong_dtype
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, conv, conv_relu, onnx_conv
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn, multiply

FEW_PIXELS = 64  # of a worker: with so few, reading many filters takes as long as multiplying with them
SLIM = 16  # if pixels outnumber filters by this factor, workers split the pixels: few filters multiply slowly

# Costs an element in multiplies of a large matrix product, fitted to layers from 8@64 to 512@28: a contiguous pass or
# copy by NumPy takes the time of 10, a copy with a stride that of 60.
PASS, STRIDED = 10, 60


def weight_cost() -> int:
    """The cost of reading a weight from memory, in multiplies: higher where wide vectors multiply faster.

    Measured with AVX-512, from SqueezeNet to ResNet-50: 14 to 26 are equally good, 6 is up to 5 % slower. 2 is the
    cost of packing, in instructions, if BLAS multiplies number by number.
    """
    if gemm.multiplies_scalars():
        return 2
    return 20 if gemm.multiplies_small() else 6


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    window, wrong = convolution_in(op, inputs).window, wrong_dtype(inputs[0])
    if wrong is not None:
        return wrong
    if set(window.kernel) != {1}:
        return f"the kernel must be 1, got {list(window.kernel)}"
    if set(window.stride) != {1}:
        return f"the stride must be 1, got {list(window.stride)}"
    if any(window.head) or any(window.tail):
        return f"there must be no padding, got {list(window.head + window.tail)}"
    return None


def products(convolution: Convolution) -> int:
    """The multiplies of a convolution without short cuts, and what it takes to read its weights from memory."""
    pixels = convolution.batch * math.prod(convolution.window.output)
    return convolution.filters * convolution.terms * (pixels + weight_cost())


def splits_filters(workers: int, pixels: int, weights: int, outputs: int) -> bool:
    """Whether workers should split the filters instead of the pixels. Each then reads only its own filters, but all of
    them prepare the same pixels and write results that lie apart: there must be clearly more weights than results."""
    return workers > 1 and pixels < FEW_PIXELS * workers and weights >= 2 * outputs


def work(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(products(convolution_in(op, inputs)))


@conv.kernel("POINTWISE", supports=supports, work=work, splits_work=True)
@conv_relu.kernel("POINTWISE", supports=supports, work=work, splits_work=True)
@onnx_conv.kernel("POINTWISE", supports=supports, work=work, splits_work=True)
def pointwise(call: Call) -> Run:
    convolution = convolution_in(call.op, call.in_specs)
    batch, group, pixels = convolution.batch, convolution.group, math.prod(convolution.window.output)
    depth, width = convolution.channels // group, convolution.filters // group
    x, w, y = call.inputs[0], call.inputs[1].reshape(group, width, depth), call.outputs[0]
    if convolution.channels_last:
        mine = call.slice_of(batch * pixels)
        x, y = x.reshape(batch * pixels, group, depth)[mine], y.reshape(batch * pixels, group, width)[mine]
        product = multiply(x.swapaxes(0, 1), w.swapaxes(1, 2), y.swapaxes(0, 1))
        return in_turn([product, *finish(call, y.reshape(-1, group * width), True)])
    filters, columns = slice(0, group * width), slice(0, pixels)
    if group > 1 or pixels > SLIM * width:
        columns = call.slice_of(pixels)
    else:
        filters = call.slice_of(width)
        w = w[:, filters]
    x, y = x.reshape(batch, group, depth, pixels)[..., columns], y.reshape(batch, group * width, pixels)
    y = y[:, filters, columns]
    product = multiply(w, x, y.reshape(batch, group, y.shape[1] // group, y.shape[2]))
    return in_turn([product, *finish(call, y, False, filters)])
