"""The options of SeparableBlock: what it can read and write, and what it takes."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Iterator, List, Optional, Sequence, Union

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.epilogue import limits_of
from runtime_arm.engines.conv.pointwise import weight_cost
from runtime_arm.engines.tiled.columns import is_pointwise
from runtime_arm.engines.tiled.option import Option, tiling
from runtime_arm.engines.tiled.separable_block_kernel import SeparableBlock, bind, rounded, scratch
from runtime_arm.engines.tiled.stem import FEW_CHANNELS
from runtime_arm.engines.tiled.toeplitz import PLANES, Toeplitz
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.operators.fused.separable_block import layers
from runtime_arm.registry.engine_wishes import is_refused, wanted_engines
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.layouts import Layout, Planes, Tiles
from runtime_arm.registry.specs import TensorSpec

ENGINE = "TOEPLITZ"

# Fitted to the blocks of MobileNetV2, from 32@112 to 960@7, with AVX-512, as in pointwise.py in multiplies.
MOVED = 11  # an element of the matrices R and O: limits, copy, addition
THIN = 3.7  # a multiply between them
CALL = 8500  # a product for one channel
GATHERED, RUN = 40, 8  # an element of the columns, and one of those that come from planes
DEEP = 128  # channels from which on the products of project are slower into planes than into tiles
COUNTED = 0.69  # the part of the time of three layers apart that their estimates count; no activations and conversions


@tiling(Kind.SEPARABLE_BLOCK)
def separable_blocks(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    x, y, addend = inputs[0], outputs[0], inputs[7]
    assert x is not None
    if not gemm.multiplies_small() or not all(map(_may_run, layers(op).op)) or not _are_constant(inputs[1:7]):
        return
    expand, depthwise, project = _convolutions(op, inputs)
    if project.output_shape != y.shape or (addend is not None and addend.shape != y.shape):
        return
    kind = _toeplitz(depthwise)
    if kind is None or not (_is_dense(expand) and _is_dense(project) and is_pointwise(project) and _are_limits(op)):
        return
    tiles = Tiles.of(y, 2 // kind.stride, 1)
    writable: List[Union[Tiles, Planes]] = [tiles]
    if kind.stride == 1 and addend is None and project.terms < DEEP:
        writable.append(Planes(tiles))
    for of, to in itertools.product(_readable(expand, x), writable):
        block = SeparableBlock(expand, kind, 1 - depthwise.window.head[0], of, to)
        if (not isinstance(of, Planes) or block.x_follows) and block.rows >= min(2, block.y.image_tiles((0, 0))[0]):
            reads = (of, *[None] * 6, None if addend is None else to, None)
            kernel = Kernel(
                ENGINE,
                partial(bind, block=block),
                splits_work=True,
                reads_slices=not isinstance(of, Planes),
                scratch=partial(_scratch, block),
            )
            yield Option(reads, (to,), kernel, _work(block))


def _readable(expand: Convolution, x: TensorSpec) -> Sequence[Layout]:
    """Layouts of X."""
    if is_pointwise(expand):
        return [*(Tiles.of(x, tile, border) for tile, border in ((1, 0), (1, 1), (2, 1))), Planes(Tiles.of(x, 2, 1))]
    return [None] if expand.channels <= FEW_CHANNELS and expand.window.ndim == 2 else []


def _scratch(
    block: SeparableBlock, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]
) -> Sequence[TensorSpec]:
    return scratch(block, op, inputs)


def _may_run(layer: OperatorDef) -> bool:
    return not is_refused(layer, ENGINE) and set(wanted_engines(layer)) <= {"DEFAULT", ENGINE}


def _are_constant(specs: Specs) -> bool:
    """Whether these are the constant weights and biases of three convolutions, whose biases may be missing."""
    return all(spec.value is not None if spec is not None else at % 2 for at, spec in enumerate(specs))


def _convolutions(op: OperatorDef, inputs: Specs) -> List[Convolution]:
    found = []
    x = inputs[0]
    for layer, w in zip(layers(op).op, inputs[1:7:2]):
        assert x is not None
        assert w is not None
        found.append(convolution_of(layer, x, w))
        x = x.with_shape(found[-1].output_shape)
    return found


def _is_dense(convolution: Convolution) -> bool:
    return convolution.group == 1 and not convolution.channels_last


def _toeplitz(convolution: Convolution) -> Optional[Toeplitz]:
    """The shape of the products of a depthwise convolution; None if it cannot run as such products."""
    window, channels = convolution.window, convolution.channels
    if convolution.channels_last or not convolution.group == channels == convolution.filters:
        return None
    if window.kernel != (3, 3) or window.dilation != (1, 1):
        return None
    if window.stride == (1, 1) and window.head == (1, 1) and window.output == window.image:
        return Toeplitz(1, left=True)
    if window.stride == (2, 2) and max(window.head) <= 1:
        return Toeplitz(2, left=window.head[1] == 1)
    return None


def _are_limits(op: OperatorDef) -> bool:
    """Whether the first two layers end with limits or nothing, and those of the first one keep zero."""
    expand, depthwise, _ = layers(op).op
    keeps_zero = all(bound(0.0, value) == 0 for bound, value in limits_of(expand))
    return keeps_zero and all(limits_of(layer) or activation_of(layer) is None for layer in (expand, depthwise))


def _work(block: SeparableBlock) -> Work:
    kind, strips, hidden = block.toeplitz, block.strips(), block.expand.filters
    sizes = [rows.strip(block.y).size for rows in strips]
    inside, filtered, seen = sum(rounded(n + block.pitch) for n in sizes), sum(map(rounded, sizes)), sum(sizes)
    expand, project = (block.expand.terms + 1) * hidden, (hidden + 1) * block.y.channels
    products = expand * PLANES * inside + project * kind.planes * seen + weight_cost() * (expand + project)
    a_position = MOVED * (kind.terms + kind.products) + THIN * kind.terms * kind.products
    gathered = RUN if isinstance(block.of, Planes) else GATHERED
    moves = hidden * (a_position * filtered + CALL * len(strips)) + gathered * block.expand.terms * PLANES * inside
    return Work(COUNTED * products, COUNTED * moves)
