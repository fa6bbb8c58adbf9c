"""The options of convolutions: the layouts between which they run, and the algorithm."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Callable, Iterator, Optional, Sequence, Set, Tuple

from runtime_arm.engines.conv import axpy, gemm
from runtime_arm.engines.conv.epilogue import addend_of, gate_of, limits_of, tail_scratch
from runtime_arm.engines.conv.winograd import VARIANTS, Variant, open_tiles
from runtime_arm.engines.conv.winograd_transforms import TAPS
from runtime_arm.engines.tiled.algorithm import Algorithm, output_layout
from runtime_arm.engines.tiled.columns import Columns, engine_of, is_pointwise
from runtime_arm.engines.tiled.matching_layouts import in_step, reach_of, skipping
from runtime_arm.engines.tiled.option import TILES, Option, at, may_run, tiling
from runtime_arm.engines.tiled.stem import Stem, is_stem
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import FLOAT32
from runtime_arm.engines.tiled.winograd import Winograd
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.registry.engine_preferences import open_variants, wanted_engines
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs
from runtime_arm.registry.layouts import Planes, Tiles
from runtime_arm.registry.specs import Shape, TensorSpec

SMALL_IMAGE = 28  # rows and columns


@tiling(Kind.CONVOLUTION)
def convolutions(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    convolution = constant_convolution(op, inputs, outputs[0].shape)
    if convolution is None:
        return
    if convolution.group == convolution.channels == convolution.filters and convolution.group > 1:
        yield from _depthwise(op, convolution, inputs, outputs[0])
    else:
        yield from dense_convolutions(op, convolution, inputs, outputs[0])


def constant_convolution(op: OperatorDef, inputs: Specs, shape: Shape) -> Optional[Convolution]:
    """The operator's convolution, if its results are (N, C, H, W) of this shape, which is also that of the addend, and
    its weights, its bias and the activation's operand are constant; else None."""
    x, w, addend = inputs[0], inputs[1], at(inputs, 3)
    assert x is not None
    if w is None or (addend is not None and addend.shape != shape):
        return None
    if any(spec is not None and spec.value is None for spec in (w, at(inputs, 2), at(inputs, 4))):
        return None
    convolution = convolution_of(op, x, w)
    return None if convolution.channels_last or convolution.output_shape != shape else convolution


def dense_convolutions(
    op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec, pooling: Optional[Pooling] = None
) -> Iterator[Option]:
    """The options of a convolution of one group.

    With ``pooling``, those of a step whose output ``y`` is pooled from the convolution's results.
    """
    x, stride = inputs[0], convolution.window.stride
    assert x is not None
    if convolution.group == 1 and stride[0] == stride[1]:
        for algorithm in _algorithms(op, convolution, x, y, pooling):
            yield _option(op, inputs, algorithm)
        if pooling is None and gemm.multiplies_small():
            yield from _from_planes(op, convolution, inputs, y)
            yield from _into_planes(op, convolution, inputs, y)


def _algorithms(
    op: OperatorDef, convolution: Convolution, x: TensorSpec, y: TensorSpec, pooling: Optional[Pooling]
) -> Iterator[Algorithm]:
    if may_run(op, "WINOGRAD") and _suits_winograd(convolution):
        yield from _by_winograd(op, x, y, pooling)
    if may_run(op, "WINOGRAD") and _has_pairs(convolution) and pooling is None:
        yield from _by_pairs(op, convolution, x, y)
    if may_run(op, "WINOGRAD") and is_stem(convolution) and pooling is None:
        yield from _by_rows(op, convolution, y)
    if not may_run(op, engine_of(convolution)):
        return
    if is_stem(convolution):
        for tile in TILES:
            yield Stem(convolution, _before(pooling, Tiles.of(y, tile, 1)), pooling)
        return
    for of, results in _in_columns(convolution, x, y, pooling):
        yield by_columns(convolution, of, results, pooling)


def _from_planes(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    """The options of a convolution of 1x1 whose input lies in planes: BLAS reads it transposed."""
    x = inputs[0]
    assert x is not None
    if not (is_pointwise(convolution) and may_run(op, engine_of(convolution))):
        return
    for of, results in pointwise_layouts(convolution, x, y):
        if of.border and of.tile <= 2:
            option = _option(op, inputs, Columns(convolution, of, results))
            kernel = option.kernel._replace(bind=partial(_bind_from_planes, option.kernel.bind), reads_slices=False)
            yield option._replace(inputs=(Planes(of), *option.inputs[1:]), kernel=kernel)


def _into_planes(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    """The option of a stem that ends with limits or nothing: BLAS writes its products transposed."""
    if not (is_stem(convolution) and may_run(op, engine_of(convolution))) or at(inputs, 3) is not None:
        return
    if activation_of(op) is None or limits_of(op):
        algorithm = Stem(convolution, Tiles.of(y, 2, 1))
        option = _option(op, inputs, algorithm)
        kernel = option.kernel._replace(bind=partial(_bind_into_planes, algorithm), writes_slices=False)
        yield option._replace(outputs=(Planes(algorithm.y),), kernel=kernel)


def _bind_into_planes(algorithm: Stem, call: Call) -> Run:
    turned = copy(call)
    turned.outputs = [call.outputs[0].swapaxes(2, 3)]
    return algorithm.bind(turned)


def _bind_from_planes(bind: Callable[[Call], Run], call: Call) -> Run:
    turned = copy(call)
    turned.inputs = [call.inputs[0].swapaxes(2, 3), *call.inputs[1:]]
    return bind(turned)


def by_columns(convolution: Convolution, x: Tiles, y: Tiles, pooling: Optional[Pooling] = None) -> Algorithm:
    """IM2COL or POINTWISE, with the channels first where that is faster."""
    if gemm.multiplies_small() and y.tile == 1:
        from runtime_arm.engines.tiled.planar.columns import PlanarColumns

        algorithm = PlanarColumns(convolution, x, y, pooling)
        if algorithm.suits():
            return algorithm
    return Columns(convolution, x, y, pooling)


def _suits_winograd(convolution: Convolution) -> bool:
    window = convolution.window
    return window.kernel == (3, 3) and set(window.stride + window.dilation + window.head + window.tail) == {1}


def _by_winograd(op: OperatorDef, x: TensorSpec, y: TensorSpec, pooling: Optional[Pooling]) -> Iterator[Algorithm]:
    """By tiles as large as those of the blobs, and by wider ones where these are faster; if a variant is asked for that
    is none of these, the square ones serve."""
    asked = VARIANTS.get(wanted_engines(op).get("WINOGRAD", ""))
    variants = [VARIANTS[name] for name in open_variants(op, "WINOGRAD", tuple(VARIANTS))]
    for variant in [
        *(one for one in variants if 1 < one.rows < one.columns),
        *(Variant(tile, tile, TAPS) for tile in open_tiles(op)),
    ]:
        of, results = Tiles.of(x, variant.rows, 1), _results(y, variant.rows, pooling)
        if results is None or (of.rows, of.pitch) != (results.rows, results.pitch):
            continue
        algorithm = winograd_by(of, results, variant.columns, pooling)
        if algorithm is not None:
            yield algorithm
            if variant == asked:
                return


def winograd_by(x: Tiles, y: Tiles, columns: int, pooling: Optional[Pooling] = None) -> Optional[Algorithm]:
    """WINOGRAD by tiles of this many columns, with the channels first if that is faster; None if such tiles are no
    use."""
    if gemm.multiplies_small():
        from runtime_arm.engines.tiled.planar.winograd import PlanarWinograd

        algorithm = PlanarWinograd(x, y, columns, pooling)
        if algorithm.suits():
            return algorithm
    if columns != x.tile:
        return None
    if axpy.pays():
        from runtime_arm.engines.tiled.summed.winograd import SummedWinograd

        return SummedWinograd(x, y, pooling)
    return Winograd(x, y, pooling)


def _has_pairs(convolution: Convolution) -> bool:
    """Whether it might run by pairs of outputs."""
    window = convolution.window
    return gemm.multiplies_small() and window.stride == (2, 2) and window.kernel == (3, 3)


def _by_pairs(op: OperatorDef, convolution: Convolution, x: TensorSpec, y: TensorSpec) -> Iterator[Algorithm]:
    """By tiles of two pixels side by side."""
    from runtime_arm.engines.tiled.planar.pairs import Pairs

    if open_variants(op, "WINOGRAD", Pairs.variants):
        pairs = (Pairs(convolution, of, results) for of, results in _in_columns(convolution, x, y, None))
        yield from (algorithm for algorithm in pairs if algorithm.suits())


def _by_rows(op: OperatorDef, convolution: Convolution, y: TensorSpec) -> Iterator[Algorithm]:
    """By tiles of some rows, for the stems of many networks, where BLAS packs."""
    if gemm.multiplies_small() or convolution.window.kernel != (7, 7):
        return
    from runtime_arm.engines.tiled.stem_winograd import WinogradStem

    algorithm = WinogradStem(convolution, Tiles.of(y, 4, 1))
    if open_variants(op, "WINOGRAD", algorithm.variants) and algorithm.suits():
        yield algorithm


def _before(pooling: Optional[Pooling], y: Tiles) -> Tiles:
    """The layout of a convolution's results, if the output of its step has the layout ``y``."""
    return y if pooling is None else pooling.before(y)


def _results(y: TensorSpec, tile: int, pooling: Optional[Pooling]) -> Optional[Tiles]:
    """Tiles of this size for a convolution's results, with a border of a pixel around the output."""
    if pooling is None:
        return Tiles.of(y, tile, 1)
    return None if tile % pooling.stride else pooling.before(Tiles.of(y, tile // pooling.stride, 1))


def pointwise_layouts(convolution: Convolution, x: TensorSpec, y: TensorSpec) -> Iterator[Tuple[Tiles, Tiles]]:
    """The layouts of the input and the results of a convolution of 1x1."""
    return _in_columns(convolution, x, y, None)


def _in_columns(
    convolution: Convolution, x: TensorSpec, y: TensorSpec, pooling: Optional[Pooling]
) -> Iterator[Tuple[Tiles, Tiles]]:
    """The layouts of the input and the results between which columns can be gathered: what a strip meets lies in one
    plane at the same positions, or the input has one plane and the stride passes over some of its positions."""
    window, reach = convolution.window, reach_of(convolution)
    for tile in TILES:
        borders = {0, 1, reach} if tile == 1 else {1, max(1, reach)}
        for border in sorted(borders | _wide_borders(convolution, tile)):
            results = _before(pooling, Tiles.of(y, tile, border))
            matching = in_step(x, results, window, reach, border)
            if matching is not None:
                yield matching, results
            if results.tile == 1:
                yield from ((of, results) for of in skipping(x, results, window, reach))


def _wide_borders(convolution: Convolution, tile: int) -> Set[int]:
    """A border of two pixels, which a depthwise convolution of 5x5 may meet behind one of 1x1, where images are small:
    to multiply it, too, takes less than to copy the blob."""
    small = max(convolution.window.output) <= SMALL_IMAGE
    return {2} if tile == 1 and small and is_pointwise(convolution) else set()


def _depthwise(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    from runtime_arm.engines.tiled.depthwise import Depthwise

    x, window, reach = inputs[0], convolution.window, reach_of(convolution)
    assert x is not None
    strided = window.stride == (2, 2) and set(window.dilation) == {1}
    if not may_run(op, Depthwise.engine) or not (window.stride == (1, 1) or strided):
        return
    border = 1 if strided else max(1, reach)
    to = Tiles.of(y, 1, border)
    of = in_step(x, to, window, reach, border)
    if of is not None:
        yield _option(op, inputs, Depthwise(convolution, of, to))
    if gemm.multiplies_small():
        from runtime_arm.engines.tiled.separable.options import depthwise_alone

        yield from depthwise_alone(op, convolution, inputs, y)


def _option(op: OperatorDef, inputs: Specs, algorithm: Algorithm) -> Option:
    to = output_layout(algorithm)
    layouts = tuple(
        algorithm.x if i == 0 else to if i == 3 and spec is not None else None for i, spec in enumerate(inputs)
    )
    is_matrix = to.channels > 1  # where rows lie apart, BLAS rounds products with a vector otherwise

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return [*algorithm.scratch(op), *tail_scratch(op, inputs, [algorithm.y.storage(FLOAT32)])]

    kernel = Kernel(
        algorithm.engine,
        partial(_bind, algorithm),
        scratch=scratch,
        splits_work=True,
        variants=algorithm.variants,
        reads_slices=algorithm.reads_slices and is_matrix,
        writes_slices=algorithm.writes_slices and is_matrix,
        skips_outside=algorithm.engine == "POINTWISE" and algorithm.pooling is None,  # every position for itself
        hints=algorithm.hints,
    )
    return Option(layouts, (to,), kernel, algorithm.work)


def _bind(algorithm: Algorithm, call: Call) -> Run:
    gate = None if addend_of(call) is not None else gate_of(call.op)
    if gate is not None:
        from runtime_arm.engines.conv.gates import prescaled

        call = prescaled(call, gate.factor)
    return algorithm.bind(call)
