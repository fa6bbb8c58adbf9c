"""DEPTHWISE with the 1x1 convolution after it, strip by strip, for a BLAS that packs its operands.

The results between the two stay in the cache, channels last (``separable/`` has the channels first, for a BLAS that is
fast at small products). Its bias b takes no pass of its own: the limits are shifted by it,

    clip(v + b, low, high) = clip(v, low - b, high - b) + b          low may be one number for each channel already

and the b behind them, one number for each channel, goes through the product into the bias c of the next convolution:

    sum       V[position, channel]                         see ``depthwise.py``
    limit     V = max(V, low - b);  V = min(V, high - b)   the last one leaves out what is beside the image, if Y has no
                                                           border there
    multiply  Y = V @ W + (b @ W + c)                      and what follows it
"""

from __future__ import annotations

from copy import copy as twin_of
from functools import partial
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.bias_shifts import bias_behind, has_outlier, outweighs
from runtime_arm.engines.conv.epilogue import limits_of, operand_of, tail_scratch
from runtime_arm.engines.conv.gemm import Panels
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled import epilogue
from runtime_arm.engines.tiled.columns import Columns, Matrix, by_channel, is_pointwise, multiply_strip, on_the_way
from runtime_arm.engines.tiled.depthwise import Depthwise, sums, taps_of
from runtime_arm.engines.tiled.matching_layouts import in_step, reach_of
from runtime_arm.engines.tiled.option import Option, is_image, may_run, tiling
from runtime_arm.engines.tiled.strips import FLOAT32, ImageRows, Target, clear, clear_borders, image_rows, in_turn
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.fused.fused import MAX, activation_of
from runtime_arm.operators.fused.separable_block import FLOOR, Parts, parts_of
from runtime_arm.records import record
from runtime_arm.registry.blocks import ranges
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Work
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, shaped


@tiling(Kind.SEPARABLE_BLOCK)
def filtered_products(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    """Of a block without expand whose bias may be shifted, which was found out when it was merged (``suits``)."""
    y, addend, parts = outputs[0], inputs[7], parts_of(op)
    if gemm.multiplies_small() or not _fits(op, inputs, y):
        return
    depthwise, project = _convolutions(parts, inputs)
    between, of = _layouts(depthwise, inputs[0], y)
    assert of is not None
    for to in (Tiles.of(y, 1, 0), between._replace(channels=y.shape[1])):
        algorithm = FilteredProducts(
            Depthwise(depthwise, of, between), Columns(project, to._replace(channels=between.channels), to)
        )
        layouts = (of, *[None] * 6, None if addend is None else to, None, None)
        kernel = Kernel(
            algorithm.filtering.engine,
            partial(_bind, algorithm=algorithm, parts=parts),
            scratch=partial(_scratch, algorithm, parts),
            splits_work=True,
            writes_slices=to.channels > 1,
        )
        yield Option(layouts, (to,), kernel, algorithm.work)


def suits(op: OperatorDef, inputs: Specs, y: TensorSpec) -> bool:
    """Whether this runs a block where BLAS packs, and its bias may be shifted."""
    return is_image(inputs[0]) and is_image(y) and _fits(op, inputs, y) and _may_shift(*inputs[3:6])


def _fits(op: OperatorDef, inputs: Specs, y: TensorSpec) -> bool:
    operands, addend, parts = (*inputs[3:7], inputs[FLOOR]), inputs[7], parts_of(op)
    if parts.expand is not None or parts.project is None or not (limits_of(parts.depthwise) or _is_floor(parts)):
        return False
    if not (may_run(parts.depthwise, "DEPTHWISE") and may_run(parts.project, "POINTWISE")):
        return False
    if addend is not None and addend.shape != y.shape:
        return False
    if inputs[4] is inputs[FLOOR] is None or any(spec is not None and spec.value is None for spec in operands):
        return False
    depthwise, project = _convolutions(parts, inputs)
    if not is_pointwise(project) or project.group > 1 or project.channels_last or project.output_shape != y.shape:
        return False
    return _filters_alone(depthwise) and _layouts(depthwise, inputs[0], y)[1] is not None


def _layouts(depthwise: Convolution, x: Optional[TensorSpec], y: TensorSpec) -> Tuple[Tiles, Optional[Tiles]]:
    """The layouts of the blob between the two, and of X; None if it fits none."""
    assert x is not None
    window, reach = depthwise.window, reach_of(depthwise)
    border = 1 if window.stride[0] > 1 else max(1, reach)
    between = Tiles.of(y.with_shape(depthwise.output_shape), 1, border)
    return between, in_step(x, between, window, reach, border)


def _may_shift(w: Optional[TensorSpec], b: Optional[TensorSpec], reader: Optional[TensorSpec]) -> bool:
    """Whether the bias of the depthwise convolution, if there is one, may be left to the other one."""
    assert w is not None
    assert reader is not None
    if b is None:
        return True
    return not (outweighs(np.asarray(b.value), np.asarray(w.value)) or has_outlier(np.asarray(reader.value)))


def _is_floor(parts: Parts) -> bool:
    """Whether the results of the depthwise convolution have one limit for each channel."""
    activation = activation_of(parts.depthwise)
    return activation is not None and activation.full_type == MAX


def _convolutions(parts: Parts, inputs: Specs) -> Tuple[Convolution, Convolution]:
    x, w, reader = inputs[0], inputs[3], inputs[5]
    assert parts.project is not None
    assert x is not None
    assert w is not None
    assert reader is not None
    first = convolution_of(parts.depthwise, x, w)
    return first, convolution_of(parts.project, x.with_shape(first.output_shape), reader)


def _filters_alone(depthwise: Convolution) -> bool:
    """Whether every channel has one filter, of a stride that ``Depthwise`` knows."""
    window = depthwise.window
    each = depthwise.group == depthwise.channels == depthwise.filters and not depthwise.channels_last
    return each and (window.stride == (1, 1) or (window.stride == (2, 2) and set(window.dilation) == {1}))


@record(frozen=True, eq=False, repr=False)
class FilteredProducts:
    """The algorithm of the two convolutions. The layout between them has the columns of X; Y has those, or those of the
    image alone."""

    filtering: Depthwise
    multiplying: Columns

    @property
    def work(self) -> Work:
        """Of both, less the pass of the bias."""
        between, own, behind = self.filtering.y, self.filtering.work, self.multiplying.work
        passed = PASS * between.batch * between.channels * between.height * between.pitch
        return Work(own.multiplies + behind.multiplies, own.moves + behind.moves - passed)

    @property
    def is_dense(self) -> bool:
        """Whether Y has no positions outside the image."""
        return self.multiplying.y.pitch < self.filtering.y.pitch

    def strips(self, workers: int = 1) -> List[ImageRows]:
        """Rows of the blob between the two, of a size that suits the sums."""
        between = self.filtering.y
        most = max(1, self.filtering.elements // (between.channels * between.pitch))
        return image_rows(between, ranges(between.height, most, workers))

    def scratch(self) -> Sequence[TensorSpec]:
        """Products on the way into a slice; the sums of a strip; those that are added to them, or the sums without what
        is beside the image."""
        most = max((rows.strip(self.filtering.y).size for rows in self.strips()), default=0)
        filters, filtered = self.multiplying.y.channels, most * self.filtering.y.channels
        two = self.filtering.x.tile > 1 or self.is_dense
        sizes = [on_the_way(most * filters, filters), filtered, filtered if two else 0]
        return [TensorSpec((size,), FLOAT32) for size in sizes]

    def bind(self, depthwise: Call, project: Call) -> Run:
        """The function that runs both. Input 2 of ``project`` has all biases."""
        between, y, (_, first, second) = self.filtering.y, self.multiplying.y, project.scratch[:3]
        taps = taps_of(self.filtering, depthwise.inputs[1])
        limits = _limits(depthwise)
        inner = limits[:-1] if self.is_dense else limits
        passes = [project.packed(f"limit {at}", partial(epilogue.by_channel, *one)) for at, one in enumerate(inner)]
        panels = Panels.of(project, "by channel", y.body, project.inputs[1], by_channel)
        biases = epilogue.bias(project)
        steps: List[Step] = clear_borders(project, y)
        for rows in project.mine(self.strips(project.workers)):
            strip, target = rows.strip(between), Target(y, rows.strip(y))
            filtered = shaped(first, strip.size, between.channels)
            steps += sums(depthwise, self.filtering.x, strip, taps, filtered, second)
            for one in passes:
                steps += one(filtered[None, None])
            if self.is_dense:
                step, filtered = self._without_border(*limits[-1], filtered, second)
                steps.append(step)
            steps += multiply_strip(project, target, panels, biases, partial(_given, filtered))
            steps += clear(project, y, target.strip)
        return in_turn(steps)

    def _without_border(self, bound: Any, vector: Array, filtered: Array, buffer: Array) -> Tuple[Step, Array]:
        """The last limit, from positions with those beside the image to the image's alone."""
        pitch, width = self.filtering.y.pitch * len(vector), self.filtering.y.width * len(vector)
        rows = filtered.reshape(-1, pitch)[:, :width]
        target = shaped(buffer, *rows.shape)
        return partial(bound, rows, np.tile(vector, self.filtering.y.width), out=target), target.reshape(
            -1, len(vector)
        )


def _limits(depthwise: Call) -> Sequence[Tuple[Any, Any]]:
    """The limits of what is filtered without its bias: a ufunc and one number for each channel each."""
    b, floor = depthwise.inputs[2], operand_of(depthwise)
    given: Sequence[Tuple[Any, Any]] = limits_of(depthwise.op) if floor is None else [(np.maximum, floor.reshape(-1))]
    return given if b is None else [(bound, np.float32(value) - b) for bound, value in given]


def _given(matrix: Array, plane: Tuple[int, int]) -> Matrix:
    return matrix, []


def _scratch(
    algorithm: FilteredProducts, parts: Parts, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]
) -> Sequence[TensorSpec]:
    assert parts.project is not None
    return [*algorithm.scratch(), *tail_scratch(parts.project, inputs, [algorithm.multiplying.y.storage(FLOAT32)])]


def _bind(call: Call, algorithm: FilteredProducts, parts: Parts) -> Run:
    assert parts.project is not None
    x, _, _, w, b, reader, c, *rest, floor = call.inputs
    depthwise, project = twin_of(call.of(parts.depthwise)), twin_of(call.of(parts.project))
    depthwise.inputs = [x, w, b, None, floor]
    if b is not None:
        c = call.packed("biases", partial(bias_behind, b, reader, c))
    project.inputs = [None, reader, c, *rest]
    return algorithm.bind(depthwise, project)
