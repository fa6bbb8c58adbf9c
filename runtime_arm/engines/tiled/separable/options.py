"""The options of SeparableBlock, and of a depthwise convolution alone that runs as one: their layouts and their
cost."""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Optional, Sequence, Tuple, Union

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.epilogue import activation_passes
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.tiled.columns import is_pointwise
from runtime_arm.engines.tiled.option import Option, tiling
from runtime_arm.engines.tiled.separable import inner_activation
from runtime_arm.engines.tiled.separable.block import SeparableBlock, rounded
from runtime_arm.engines.tiled.separable.kernel import bind, bind_alone, scratch
from runtime_arm.engines.tiled.separable.toeplitz import PLANES, Toeplitz
from runtime_arm.engines.tiled.stem import FEW_CHANNELS
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.fused.separable_block import FLOOR, Parts, parts_of
from runtime_arm.registry.engine_preferences import is_refused, wanted_engines
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.layouts import Layout, Planes, Tiles
from runtime_arm.registry.specs import TensorSpec

ENGINE = "TOEPLITZ"

# Fitted to 50 blocks of MobileNetV2, MobileNetV3, EfficientNet, yunet and UltraFace on a Zen 4, in multiplies as in
# pointwise.py; their deviation from the time is 8 %, 26 % at most.
THIN = 3.1  # a multiply of T and R, with the copy, the addition and the limits around it
CALLS = 400_000  # the calls for one group of channels in one strip
GATHERED = 37  # an element of the columns
RUN, HELD = 12, 33  # one that comes from planes, and what it counts more where the block takes more memory than others
WRITTEN = 4  # an element of what is filtered, if it is written to memory
DEEP = 128  # channels from which on the products of project are slower into planes than into tiles


@tiling(Kind.SEPARABLE_BLOCK)
def separable_blocks(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    x, y, addend, parts = inputs[0], outputs[0], inputs[7], parts_of(op)
    assert x is not None
    if not gemm.multiplies_small() or not all(map(_may_run, parts.present)) or not _are_constant(parts, inputs):
        return
    expand, depthwise, project = _convolutions(parts, inputs)
    kind = Toeplitz.of(depthwise)
    if kind is None or (addend is not None and (addend.shape != y.shape or project is None)):
        return
    if not _are_dense(expand, project) or not _suit(parts):
        return
    last = depthwise if project is None else project
    if last.output_shape != y.shape:
        return
    for to in _writable(kind, depthwise, project, y):
        for of in _readable(expand, x):
            block = SeparableBlock(expand, depthwise, kind, project is not None, of, to)
            if block.fits():
                reads = (of, *[None] * 6, None if addend is None else to, None, None)
                kernel = Kernel(
                    ENGINE,
                    partial(bind, block=block, parts=parts),
                    splits_work=True,
                    reads_slices=not isinstance(of, Planes),
                    scratch=partial(_scratch, block, parts),
                )
                yield Option(reads, (to,), kernel, work(block, parts))


def depthwise_alone(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    """The options of a depthwise convolution between blobs in planes."""
    x, kind, parts = inputs[0], Toeplitz.of(convolution), Parts(None, op, None)
    assert x is not None
    if kind is None or not _may_run(op) or not _suit(parts) or any(inputs[3:4]):
        return
    for to in _writable(kind, convolution, None, y):
        for of in _readable(None, x):
            block = SeparableBlock(None, convolution, kind, False, of, to)
            if block.fits():
                kernel = Kernel(
                    ENGINE, partial(bind_alone, block=block), splits_work=True, scratch=partial(_scratch, block, parts)
                )
                yield Option((of, *[None] * (len(inputs) - 1)), (to,), kernel, work(block, parts))


def _writable(
    kind: Toeplitz, depthwise: Convolution, project: Optional[Convolution], y: TensorSpec
) -> Iterator[Union[Tiles, Planes]]:
    """Layouts of Y."""
    for border in (1, 2) if project is None or kind.kernel > 3 else (1,):
        tiles = Tiles.of(y, kind.side, border)
        if project is None:
            yield Planes(tiles)
            continue
        yield tiles
        if project.terms < DEEP:
            yield Planes(tiles)


def _readable(expand: Optional[Convolution], x: TensorSpec) -> Sequence[Layout]:
    """Layouts of X."""
    planes = [Planes(Tiles.of(x, 2, border)) for border in (1, 2)]
    if expand is None:
        return [*dict.fromkeys(planes)]
    if is_pointwise(expand):
        tiles = [Tiles.of(x, tile, border) for tile, border in ((1, 0), (1, 1), (2, 1))]
        return [*tiles, Planes(tiles[1]), *dict.fromkeys(planes)]
    return [None] if expand.channels <= FEW_CHANNELS and expand.window.ndim == 2 else []


def _scratch(
    block: SeparableBlock, parts: Parts, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]
) -> Sequence[TensorSpec]:
    return scratch(block, parts, inputs)


def _may_run(layer: OperatorDef) -> bool:
    return not is_refused(layer, ENGINE) and set(wanted_engines(layer)) <= {"DEFAULT", ENGINE}


def _are_constant(parts: Parts, inputs: Specs) -> bool:
    """Whether the weights and biases of those convolutions that are there are constant, and the floor; biases and floor
    may be missing."""
    for at, layer in zip((1, 3, 5), parts):
        w, b = inputs[at], inputs[at + 1]
        if layer is not None and (w is None or w.value is None or (b is not None and b.value is None)):
            return False
    floor = inputs[FLOOR]
    return floor is None or floor.value is not None


def _convolutions(parts: Parts, inputs: Specs) -> Tuple[Optional[Convolution], Convolution, Optional[Convolution]]:
    found: List[Optional[Convolution]] = []
    x = inputs[0]
    for layer, w in zip(parts, inputs[1:7:2]):
        if layer is None:
            found.append(None)
            continue
        assert x is not None
        assert w is not None
        convolution = convolution_of(layer, x, w)
        x = x.with_shape(convolution.output_shape)
        found.append(convolution)
    expand, depthwise, project = found
    assert depthwise is not None
    return expand, depthwise, project


def _are_dense(expand: Optional[Convolution], project: Optional[Convolution]) -> bool:
    there = [convolution for convolution in (expand, project) if convolution is not None]
    dense = all(convolution.group == 1 and not convolution.channels_last for convolution in there)
    return dense and (project is None or is_pointwise(project))


def _suit(parts: Parts) -> bool:
    """Whether the activations can run inside; that of expand must keep zero."""
    return not any(inner_activation.refusal(layer, layer is parts.expand) for layer in parts.inside)


def work(block: SeparableBlock, parts: Parts) -> Work:
    """What it takes."""
    kind, strips, hidden = block.toeplitz, block.strips(), block.hidden
    sizes = [rows.strip(block.y).size for rows in strips]
    inside, filtered, seen = sum(rounded(n + block.margin) for n in sizes), sum(map(rounded, sizes)), sum(sizes)
    met = hidden if block.expand is None else block.expand.terms  # elements of a position
    expand = 0 if block.expand is None else (met + 1) * hidden
    project = (hidden + 1) * block.y.channels if block.projects else 0
    products = expand * PLANES * inside + project * kind.planes * seen + weight_cost() * (expand + project)
    moves = THIN * kind.terms * kind.products * hidden * filtered + CALLS * len(strips) * len(block.groups)
    gathered = GATHERED
    if isinstance(block.of, Planes):
        gathered = RUN if block.is_narrow else RUN + HELD
    moves += gathered * met * PLANES * inside
    if not block.projects:
        moves += WRITTEN * hidden * kind.planes * seen
    if parts.expand is not None:
        moves += PASS * activation_passes(parts.expand) * hidden * PLANES * inside
    moves += PASS * max(0, activation_passes(parts.depthwise) - 1) * hidden * kind.planes * filtered
    return Work(products, moves)
