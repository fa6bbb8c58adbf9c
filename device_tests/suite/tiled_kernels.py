"""Runs one operator by one of its options between blobs in tiles, in buffers that reveal mistakes.

Outputs start as NaN and scratch memory as 0xA5; inputs get their content after the kernel has been bound. Elements
outside the image must be zero at the end; in inputs they are NaN if the kernel skips them. Each element must be written
by exactly one worker. Blobs may be channel slices, whose neighbours must stay unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, List, Sequence

import numpy as np

from device_tests.suite.kernels import check_parts, run_parts, specs_of
from runtime_arm.engines.tiled.options import Option, options_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.kernel import Call
from runtime_arm.registry.layouts import Layout, Planes, Tiles, in_tiles
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


def tiled_options(op: OperatorDef, inputs: Sequence[Any], constants: Sequence[int] = ()) -> List[Option]:
    """The options of the operator for these operands."""
    schema, specs = lookup(op), specs_of(inputs, constants)
    outputs = schema.infer(op, specs)
    kernel, _ = schema.choose(op, specs, outputs)
    return options_of(op, specs, outputs, kernel)


def run_option(
    op: OperatorDef,
    inputs: Sequence[Any],
    option: Option,
    constants: Sequence[int] = (),
    workers: int = 1,
    slices: bool = False,
    ragged: bool = False,
) -> Array:
    """Output 0 of the operator, as (N, C, H, W). slices: blobs in tiles are channel slices, if the kernel allows it.
    ragged: the kernel need not write the elements outside the image.
    """
    specs = specs_of(inputs, constants)
    outputs = lookup(op).infer(op, specs)
    kernel, layout = option.kernel, option.outputs[0]
    arrays = [
        value if spec is None or spec.value is not None else _memory(spec, of, slices and kernel.reads_slices)
        for value, spec, of in zip(inputs, specs, option.inputs)
    ]
    result = _memory(outputs[0], layout, slices and kernel.writes_slices)
    wanted = kernel.scratch(op, specs, outputs)
    workers = workers if kernel.splits_work else 1
    scratch = [
        np.full(spec.nbytes, 0xA5, np.uint8).view(spec.dtype).reshape(spec.shape) for spec in [*wanted] * workers
    ]
    call = Call(op, arrays, [result], scratch, specs, outputs, {})
    call.ragged = ragged
    parts = [kernel.bind(part) for part in call.for_each_worker(workers)]
    for array, value, of in zip(arrays, inputs, option.inputs):
        if array is not value:
            if of is None:
                array[...] = value
            else:
                memory, tiles = in_tiles(array, of)
                memory[...] = into_tiles(value, tiles, np.nan if kernel.skips_outside else 0)
    if workers > 1:
        check_parts(parts, [result], f"{op.signature()} by {option}")
    run_parts(parts)
    for array, of in [*zip(arrays, option.inputs), (result, layout)]:
        assert of is None or _neighbours_are_untouched(array), f"{op.signature()} by {option} writes outside its slice"
    return result if layout is None else out_of_tiles(*in_tiles(result, layout), ragged)


def _memory(spec: TensorSpec, layout: Layout, is_slice: bool) -> Array:
    """Memory full of NaN; as a slice, it is cut from tiles with three more channels before it and two after it."""
    shape = storage(spec, layout).shape
    if not isinstance(layout, Tiles) or not is_slice:
        return np.full(shape, np.nan, np.float32)
    return np.full((*shape[:-1], shape[-1] + 5), np.nan, np.float32)[..., 3:-2]


def _neighbours_are_untouched(array: Array) -> bool:
    if array.flags.c_contiguous:
        return True
    wide: Any = array.base
    return bool(np.isnan(wide[..., :3]).all() and np.isnan(wide[..., -2:]).all())


def storage(spec: TensorSpec, layout: Layout) -> TensorSpec:
    return spec if layout is None else layout.storage(spec.dtype)


def into_tiles(image: Array, layout: Tiles, outside: float = 0) -> Array:
    """An image (N, C, H, W) in tiles, copied pixel by pixel as the layout is defined."""
    memory = np.full(layout.storage(image.dtype).shape, outside, image.dtype)
    memory[_places(layout)] = image.transpose(0, 2, 3, 1)
    return memory


def out_of_tiles(memory: Array, layout: Tiles, ragged: bool = False) -> Array:
    """The image (N, C, H, W) in tiles. AssertionError unless everything else in them is zero, or ``ragged``."""
    places, rest = _places(layout), memory.copy()
    image = np.ascontiguousarray(memory[places].transpose(0, 3, 1, 2))
    rest[places] = 0
    assert ragged or not rest.any(), f"{layout}: elements outside the image are not zero"
    return image


@lru_cache(maxsize=64)
def _places(layout: Tiles) -> Any:
    """Indices, as (N, H, W), of where each pixel lies."""
    size = layout.batch, layout.height, layout.width
    places = [_place(layout, n, y, x) for n, y, x in np.ndindex(*size)]
    return tuple(np.array(index).reshape(size) for index in zip(*places))


def _place(layout: Tiles, n: int, y: int, x: int) -> Any:
    (row, py), (column, px) = divmod(y, layout.tile), divmod(x, layout.tile)
    return py, px, layout.guard + (n * layout.rows + row) * layout.pitch + column


def described(option: Option) -> str:
    """``WINOGRAD Tiles 4+1 -> 4+1`` for messages."""
    return f"{option.kernel.engine} {', '.join(map(_short, option.inputs))} -> {_short(option.outputs[0])}"


def _short(layout: Layout) -> str:
    if isinstance(layout, Planes):
        return f"planes {_short(layout.tiles)}"
    return "plain" if layout is None else f"{layout.tile}+{layout.border}"
