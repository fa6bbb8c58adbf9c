"""What operators can do with blobs in tiles: for each kind its options, of which the plan takes what fits together.

A new one is a function here under ``@tiling(Kind.X)``, see ``registry/facts.py``. It yields what its kernels can read
and write; a layout of None is (N, C, H, W). Every option says what it takes, as ``Work``, so that the cheapest
combination can be found.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv.epilogue import tail_scratch
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.conv.winograd import VARIANTS, Variant, open_tiles
from runtime_arm.engines.conv.winograd_transforms import TAPS
from runtime_arm.engines.tiled import (
    columns as tiled_convolution,
)
from runtime_arm.engines.tiled import (
    conversion as convert,
)
from runtime_arm.engines.tiled import (
    depthwise as tiled_depthwise,
)
from runtime_arm.engines.tiled import (
    elementwise as tiled_elementwise,
)
from runtime_arm.engines.tiled import (
    pool as tiled_pool,
)
from runtime_arm.engines.tiled import (
    stem as tiled_stem,
)
from runtime_arm.engines.tiled.dense_convolution import (
    FLOAT32,
    RUN,
    by_columns,
    by_pairs,
    by_winograd,
    has_pairs,
    is_stem,
    stem_work,
)
from runtime_arm.engines.tiled.matching_layouts import in_step, reach_of, skipping
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.engine_wishes import is_refused, open_variants, wanted_engines
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Work, no_hints
from runtime_arm.registry.layouts import Layout, Planes, Tiles
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import Shape, TensorSpec

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling

TILES = (1, 2, 4)
MULTIPLY_ADD = 11  # of einsum, and what follows it
PAIRS = Variant(1, 2, TAPS)
SCATTERED = 100  # an element that is copied alone


class Option(NamedTuple):
    """One way to run an operator: the layouts of its inputs (None also for what has none) and of its outputs."""

    inputs: Tuple[Layout, ...]
    outputs: Tuple[Layout, ...]
    kernel: Kernel
    work: Work


Options = Callable[[OperatorDef, Specs, Sequence[TensorSpec], Optional[Kernel]], Iterator[Option]]
_TILINGS: Dict[Kind, Options] = {}


def tiling(*kinds: Kind) -> Callable[[Options], Options]:
    """Decorator: the options of operators of these kinds. They are given the operator, its specs, and the plain
    kernel."""

    def register(options: Options) -> Options:
        _TILINGS.update(dict.fromkeys(kinds, options))
        return options

    return register


def options_of(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> List[Option]:
    """Every option but the plain one. None for what is not float32 of four dimensions."""
    kind = lookup(op).kind
    options = None if kind is None else _TILINGS.get(kind)
    if options is None or not all(_is_image(spec) for spec in [inputs[0], outputs[0]]):
        return []
    return list(options(op, inputs, outputs, plain))


def conversion(spec: TensorSpec, source: Layout, target: Layout) -> Tuple[Kernel, Work]:
    """What brings a blob from one layout into another."""
    kernel = Kernel(
        "COPY",
        partial(convert.bind, source=source, target=target),
        splits_work=True,
        reads_slices=True,
        writes_slices=True,
    )
    if source is None or target is None or isinstance(source, Planes) != isinstance(target, Planes):
        return kernel, Work(0, SCATTERED / 3 * spec.size)
    runs = spec.size // max(spec.shape[1], 1)
    return kernel, Work(0, PASS / 2 * spec.size + RUN * runs)


def _is_image(spec: Optional[TensorSpec]) -> bool:
    return spec is not None and len(spec.shape) == 4 and spec.dtype == FLOAT32 and min(spec.shape) > 0


def may_run(op: OperatorDef, engine: str) -> bool:
    """Whether the operator neither rules the engine out nor asks for others alone."""
    wanted = wanted_engines(op)
    return not is_refused(op, engine) and (engine in wanted or set(wanted) <= {"DEFAULT"})


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
    """The operator's convolution, if its weights, its bias and what its activation takes are constant, its results
    (N, C, H, W) have this shape and so has what is added to them."""
    x, w, addend = inputs[0], inputs[1], _at(inputs, 3)
    assert x is not None
    if w is None or (addend is not None and addend.shape != shape):
        return None
    if any(spec is not None and spec.value is None for spec in (w, _at(inputs, 2), _at(inputs, 4))):
        return None
    convolution = convolution_of(op, x, w)
    return None if convolution.channels_last or convolution.output_shape != shape else convolution


def dense_convolutions(
    op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec, pooling: Optional[Pooling] = None
) -> Iterator[Option]:
    """The options of a convolution of one group. With ``pooling``, those of a step that makes of its results ``y``."""
    x = inputs[0]
    assert x is not None
    window = convolution.window
    stride, reach = window.stride, reach_of(convolution)
    if convolution.group != 1 or stride[0] != stride[1]:
        return
    if may_run(op, "WINOGRAD") and _suits_winograd(convolution):
        yield from _winograd(op, inputs, y, pooling)
    if may_run(op, "WINOGRAD") and has_pairs(convolution) and pooling is None:
        yield from _in_pairs(op, convolution, inputs, y)
    engine = "POINTWISE" if tiled_convolution.is_pointwise(convolution) else "IM2COL"
    if not may_run(op, engine):
        return
    if is_stem(convolution):
        for tile in TILES:
            between = _before(pooling, Tiles.of(y, tile, 1))
            yield _convolution(
                "IM2COL",
                op,
                None,
                between,
                inputs,
                stem_work(convolution),
                partial(tiled_stem.bind, convolution=convolution, y=between, pooling=pooling),
                partial(tiled_stem.scratch, convolution=convolution, y=between, dtype=FLOAT32, pooling=pooling),
                partial(tiled_stem.hints, convolution=convolution, y=between, dtype=FLOAT32, pooling=pooling),
                pooling,
                writes_slices=True,
            )
        return
    for of, between in _in_columns(x, y, window, reach, pooling):
        way = by_columns(convolution, of, between, pooling)
        yield _convolution(
            engine,
            op,
            of,
            between,
            inputs,
            way.work,
            partial(way.bind, convolution=convolution, x=of, y=between, pooling=pooling),
            partial(way.scratch, convolution=convolution, y=between, dtype=FLOAT32, pooling=pooling),
            way.hints,
            pooling,
            reads_slices=True,
            writes_slices=True,
        )


def _winograd(op: OperatorDef, inputs: Specs, y: TensorSpec, pooling: Optional[Pooling]) -> Iterator[Option]:
    """By tiles as large as those of the blobs, and by wider ones where these are for: for others square ones serve."""
    x = inputs[0]
    assert x is not None
    asked = VARIANTS.get(wanted_engines(op).get("WINOGRAD", ""))
    variants = [VARIANTS[name] for name in open_variants(op, "WINOGRAD", tuple(VARIANTS))]
    for variant in [
        *(one for one in variants if 1 < one.rows < one.columns),
        *(Variant(tile, tile, TAPS) for tile in open_tiles(op)),
    ]:
        of, between = Tiles.of(x, variant.rows, 1), _results(y, variant.rows, pooling)
        if between is None or (of.rows, of.pitch) != (between.rows, between.pitch):
            continue
        way = by_winograd(of, between, variant.columns)
        if way is not None:
            yield _convolution(
                "WINOGRAD",
                op,
                of,
                between,
                inputs,
                way.work,
                partial(way.bind, x=of, y=between, pooling=pooling),
                partial(way.scratch, x=of, y=between, dtype=FLOAT32),
                way.hints,
                pooling,
                variants=(variant.name,),
                writes_slices=True,
            )
            if variant == asked:
                return


def _in_pairs(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    """By tiles of two pixels side by side."""
    assert inputs[0] is not None
    if not open_variants(op, "WINOGRAD", (PAIRS.name,)):
        return
    for of, between in _in_columns(inputs[0], y, convolution.window, reach_of(convolution), None):
        way = by_pairs(convolution, of, between)
        if way is not None:
            yield _convolution(
                "WINOGRAD",
                op,
                of,
                between,
                inputs,
                way.work,
                partial(way.bind, convolution=convolution, x=of, y=between),
                partial(way.scratch, convolution=convolution, x=of, y=between, dtype=FLOAT32),
                variants=(PAIRS.name,),
                writes_slices=True,
            )


def _before(pooling: Optional[Pooling], y: Tiles) -> Tiles:
    """How a convolution's results lie in tiles, if the output of its step has the layout ``y``."""
    return y if pooling is None else pooling.before(y)


def _results(y: TensorSpec, tile: int, pooling: Optional[Pooling]) -> Optional[Tiles]:
    """Tiles of this size for a convolution's results, with a border of a pixel around the output."""
    if pooling is None:
        return Tiles.of(y, tile, 1)
    return None if tile % pooling.stride else pooling.before(Tiles.of(y, tile // pooling.stride, 1))


def _depthwise(op: OperatorDef, convolution: Convolution, inputs: Specs, y: TensorSpec) -> Iterator[Option]:
    x, window, reach = inputs[0], convolution.window, reach_of(convolution)
    assert x is not None
    stride = window.stride[0]
    strided = window.stride == (2, 2) and set(window.dilation) == {1}
    if not may_run(op, "DEPTHWISE") or not (window.stride == (1, 1) or strided):
        return
    border = 1 if stride > 1 else max(1, reach)
    to = Tiles.of(y, 1, border)
    of = in_step(x, to, window, reach, border)
    if of is not None:
        taps = window.kernel[0] * window.kernel[1] * (1.5 if of.tile > 1 else 1)
        yield _convolution(
            "DEPTHWISE",
            op,
            of,
            to,
            inputs,
            Work(0, MULTIPLY_ADD * taps * y.size),
            partial(tiled_depthwise.bind, convolution=convolution, x=of, y=to),
            lambda op: tiled_depthwise.scratch(convolution, of, to, FLOAT32),
        )


def _convolution(
    engine: str,
    op: OperatorDef,
    of: Layout,
    between: Tiles,
    inputs: Specs,
    work: Work,
    bind: Callable[[Call], Run],
    scratch: Callable[[OperatorDef], Sequence[TensorSpec]],
    hints: Callable[[OperatorDef], Sequence[str]] = no_hints,
    pooling: Optional[Pooling] = None,
    variants: Tuple[str, ...] = (),
    reads_slices: bool = False,
    writes_slices: bool = False,
) -> Option:
    """between: the layout of the results, which are also the step's output unless they are pooled."""
    to = between if pooling is None else pooling.after(between)
    layouts = tuple(of if i == 0 else to if i == 3 and spec is not None else None for i, spec in enumerate(inputs))
    is_matrix = to.channels > 1  # BLAS rounds products with a vector otherwise where rows lie apart

    def asks(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return [*scratch(op), *tail_scratch(op, inputs, [between.storage(FLOAT32)])]

    return Option(
        layouts,
        (to,),
        Kernel(
            engine,
            bind,
            scratch=asks,
            splits_work=True,
            variants=variants,
            reads_slices=reads_slices and is_matrix,
            writes_slices=writes_slices and is_matrix,
            hints=hints,
        ),
        work,
    )


def _in_columns(
    x: TensorSpec, y: TensorSpec, window: Window, reach: int, pooling: Optional[Pooling]
) -> Iterator[Tuple[Tiles, Tiles]]:
    """The layouts of the input and the results between which columns can be gathered: a strip of positions has what it
    meets in a plane of its own, or, one plane being all there is, skips what the stride passes over."""
    for tile in TILES:
        for border in sorted({0, 1, reach} if tile == 1 else {1, max(1, reach)}):
            between = _before(pooling, Tiles.of(y, tile, border))
            matching = in_step(x, between, window, reach, border)
            if matching is not None:
                yield matching, between
            if between.tile == 1:
                yield from ((of, between) for of in skipping(x, between, window, reach))


def _suits_winograd(convolution: Convolution) -> bool:
    window = convolution.window
    return window.kernel == (3, 3) and set(window.stride + window.dilation + window.head + window.tail) == {1}


@tiling(Kind.MAX_POOL, Kind.AVERAGE_POOL)
def pools(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> Iterator[Option]:
    from runtime_arm.operators.pool.caffe2 import pool_of

    x, y = inputs[0], outputs[0]
    assert x is not None
    pool = pool_of(op, x)
    window = pool.window
    if plain is None or len(outputs) > 1 or pool.channels_last or window.stride[0] != window.stride[1]:
        return
    averages = lookup(op).kind is Kind.AVERAGE_POOL
    if window.output == (1, 1) and window.kernel == window.image and averages:
        yield from _means(x, y)
        return
    if window.stride[0] > 2 or (window.counts() == 0).any():
        return
    combine = np.add if averages else np.maximum
    passes = window.stride[0] * (window.kernel[0] - 1) + window.kernel[1]
    for tile in TILES:
        for border in (0, 1):
            for before in (0, 1) if tile * window.stride[0] == 1 else (1,):
                of, to = Tiles.of(x, tile * window.stride[0], before), Tiles.of(y, tile, border)
                kernel = Kernel(
                    "NUMPY",
                    partial(tiled_pool.bind, pool=pool, combine=combine, x=of, y=to),
                    splits_work=True,
                    scratch=_fixed(tiled_pool.scratch(of, to, FLOAT32)),
                    reads_slices=True,
                    writes_slices=True,
                )
                yield Option((of,), (to,), kernel, Work(0, PASS * passes * y.size))


def _fixed(specs: Sequence[TensorSpec]) -> Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]]:
    """A kernel's scratch that depends on nothing."""
    return lambda op, inputs, outputs: specs


def _means(x: TensorSpec, y: TensorSpec) -> Iterator[Option]:
    for of in _any_layout(x):
        kernel = Kernel("GEMM", partial(tiled_elementwise.bind_mean, layout=of))
        yield Option((of,), (None,), kernel, Work(x.size))


def _any_layout(spec: TensorSpec) -> Iterator[Tiles]:
    yield Tiles.of(spec, 1, 0)
    for tile in TILES:
        yield Tiles.of(spec, tile, 1)


@tiling(Kind.CONCATENATION)
def concats(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> Iterator[Option]:
    y = outputs[0]
    specs = [spec for spec in inputs if spec is not None and _is_image(spec)]
    same = all(spec.shape[:1] + spec.shape[2:] == y.shape[:1] + y.shape[2:] for spec in specs)
    if not same or len(specs) < len(inputs) or sum(spec.shape[1] for spec in specs) != y.shape[1]:
        return
    for to in _any_layout(y):
        layouts = tuple(to._replace(channels=spec.shape[1]) for spec in specs)
        kernel = Kernel(
            "COPY",
            partial(tiled_elementwise.bind_concat, inputs=layouts, output=to),
            splits_work=True,
            reads_slices=True,
            writes_slices=True,
        )
        yield Option(layouts, (to, *[None] * (len(outputs) - 1)), kernel, Work(0, PASS * y.size))


@tiling(Kind.ELEMENTWISE)
def elementwise(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    y = outputs[0]
    if plain is None or len(outputs) > 1:
        return
    given = [spec for spec in inputs if spec is not None and not (spec.value is not None and spec.size == 1)]
    if any(spec.shape != y.shape or spec.value is not None or spec.dtype != y.dtype for spec in given):
        return
    for layout in _any_layout(y):
        layouts = tuple(layout if spec in given else None for spec in inputs)
        yield Option(layouts, (layout,), _physical(plain, layout), Work(0, PASS * len(given) * y.size))


def _physical(plain: Kernel, layout: Tiles) -> Kernel:
    """The plain kernel as one that takes blobs of the layout for blobs of its shape in memory."""
    storage = layout.storage(FLOAT32)

    def physical(specs: Specs) -> List[Optional[TensorSpec]]:
        return [spec if spec is None or spec.value is not None else storage for spec in specs]

    def bind(call: Call) -> Run:
        inner = copy(call)
        inner.in_specs, inner.out_specs = physical(call.in_specs), [storage]
        return tiled_elementwise.bind_elementwise(call, plain.bind(inner), layout)

    return Kernel(
        plain.engine, bind, scratch=lambda op, inputs, outputs: plain.scratch(op, physical(inputs), [storage])
    )


@tiling(Kind.BATCH_NORM)
def batch_norms(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    x, y, addend = inputs[0], outputs[0], _at(inputs, 5)
    assert x is not None
    parameters = [_at(inputs, i) for i in range(1, 5)]
    if plain is None or len(outputs) > 1 or any(spec is None or spec.value is None for spec in parameters):
        return
    if op.get_str("order", "NCHW") != "NCHW" or (addend is not None and addend.shape != y.shape):
        return
    for layout in _any_layout(y):
        layouts = tuple(layout if i in (0, 5) and spec is not None else None for i, spec in enumerate(inputs))
        kernel = Kernel(
            "NUMPY",
            partial(_bind_batch_norm, layout=layout),
            splits_work=True,
            scratch=_fixed(tail_scratch(op, inputs, [layout.storage(FLOAT32)])),
            reads_slices=True,
            writes_slices=True,
        )
        yield Option(layouts, (layout,), kernel, Work(0, 3 * PASS * y.size))


def _bind_batch_norm(call: Call, layout: Tiles) -> Run:
    scale, bias, mean, variance = (array.astype(np.float64) for array in call.inputs[1:5])
    factor = scale / np.sqrt(variance + call.op.get_float("epsilon", 1e-5))
    return tiled_elementwise.bind_affine(
        call, factor.astype(np.float32), (bias - mean * factor).astype(np.float32), layout
    )


def _at(specs: Specs, index: int) -> Optional[TensorSpec]:
    return specs[index] if len(specs) > index else None
