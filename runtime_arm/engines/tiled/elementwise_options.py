"""The options of elementwise and channelwise operators."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.epilogue import tail_scratch
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled.elementwise import bind_affine, bind_concat, bind_elementwise
from runtime_arm.engines.tiled.option import Option, any_layout, at, fixed, is_image, tiling
from runtime_arm.engines.tiled.strips import FLOAT32
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Work
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec


@tiling(Kind.CONCATENATION)
def concats(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> Iterator[Option]:
    """Only along the channels."""
    y = outputs[0]
    specs = [spec for spec in inputs if spec is not None and is_image(spec)]
    same = all(spec.shape[:1] + spec.shape[2:] == y.shape[:1] + y.shape[2:] for spec in specs)
    if not same or len(specs) < len(inputs) or sum(spec.shape[1] for spec in specs) != y.shape[1]:
        return
    for to in any_layout(y):
        layouts = tuple(to._replace(channels=spec.shape[1]) for spec in specs)
        kernel = Kernel(
            "COPY",
            partial(bind_concat, inputs=layouts, output=to),
            splits_work=True,
            reads_slices=True,
            writes_slices=True,
        )
        yield Option(layouts, (to, *[None] * (len(outputs) - 1)), kernel, Work(0, PASS * y.size))


@tiling(Kind.ELEMENTWISE)
def elementwise(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    """Only of inputs that are not constant and have the output's shape, and of constants of one number."""
    y = outputs[0]
    if plain is None or len(outputs) > 1:
        return
    given = [spec for spec in inputs if spec is not None and not (spec.value is not None and spec.size == 1)]
    if any(spec.shape != y.shape or spec.value is not None or spec.dtype != y.dtype for spec in given):
        return
    for layout in any_layout(y):
        layouts = tuple(layout if spec in given else None for spec in inputs)
        yield Option(layouts, (layout,), _physical(plain, layout), Work(0, PASS * len(given) * y.size))


def _physical(plain: Kernel, layout: Tiles) -> Kernel:
    """The plain kernel as one that runs over all of the memory of blobs of this layout."""
    return Kernel(
        plain.engine,
        partial(_bind_physical, plain=plain, layout=layout),
        scratch=lambda op, inputs, outputs: plain.scratch(op, _stored(inputs, layout), [layout.storage(FLOAT32)]),
    )


def _bind_physical(call: Call, plain: Kernel, layout: Tiles) -> Run:
    inner = copy(call)
    inner.in_specs, inner.out_specs = _stored(call.in_specs, layout), [layout.storage(FLOAT32)]
    return bind_elementwise(call, plain.bind(inner), layout)


def _stored(specs: Specs, layout: Tiles) -> List[Optional[TensorSpec]]:
    """The memory of blobs of this layout; constants are as they were."""
    storage = layout.storage(FLOAT32)
    return [spec if spec is None or spec.value is not None else storage for spec in specs]


@tiling(Kind.BATCH_NORM)
def batch_norms(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    """Only with constant statistics, channels first."""
    x, y, addend = inputs[0], outputs[0], at(inputs, 5)
    assert x is not None
    parameters = [at(inputs, i) for i in range(1, 5)]
    if plain is None or len(outputs) > 1 or any(spec is None or spec.value is None for spec in parameters):
        return
    if op.get_str("order", "NCHW") != "NCHW" or (addend is not None and addend.shape != y.shape):
        return
    for layout in any_layout(y):
        layouts = tuple(layout if i in (0, 5) and spec is not None else None for i, spec in enumerate(inputs))
        kernel = Kernel(
            "NUMPY",
            partial(_bind_batch_norm, layout=layout),
            splits_work=True,
            scratch=fixed(tail_scratch(op, inputs, [layout.storage(FLOAT32)])),
            reads_slices=True,
            writes_slices=True,
        )
        yield Option(layouts, (layout,), kernel, Work(0, 3 * PASS * y.size))


def _bind_batch_norm(call: Call, layout: Tiles) -> Run:
    scale, bias, mean, variance = (array.astype(np.float64) for array in call.inputs[1:5])
    factor = scale / np.sqrt(variance + call.op.get_float("epsilon", 1e-5))
    return bind_affine(call, factor.astype(np.float32), (bias - mean * factor).astype(np.float32), layout)
