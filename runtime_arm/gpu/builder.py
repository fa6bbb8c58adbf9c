"""Builds the launches of an island: where its blobs lie on the device, and which kernels run in which order."""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, Mapping, Sequence, Set, Tuple

import numpy as np

from runtime_arm.gpu.device import Argument, Buffer, Device, Launch, Size
from runtime_arm.gpu.kernels import Define
from runtime_arm.gpu.programs import Programs
from runtime_arm.netdef import Array
from runtime_arm.planning.steps import Value
from runtime_arm.registry.specs import Shape, TensorSpec

LANES = 4
BLOCKS, PLAIN = "blocks", "plain"


def blocks_of(channels: int) -> int:
    """How many blocks hold this many channels."""
    return -(-channels // LANES)


def as_image(shape: Shape) -> Tuple[int, int, int, int]:
    """(N, C, H, W) of a shape of one to four dimensions; those that are missing are 1."""
    n, c, h, w = (*shape, 1, 1, 1, 1)[:4]
    return n, c, h, w


class Weights:
    """Data on the device that were made from constants; kept when a net is planned again."""

    def __init__(self) -> None:
        self._kept: Dict[Tuple[int, Hashable], Tuple[Array, Buffer]] = {}

    def get(self, device: Device, constant: Array, form: Hashable, make: Callable[[Array], Array]) -> Buffer:
        """The device's copy of ``make(constant)``; ``form`` names what make does."""
        key = id(constant), form
        if key not in self._kept:
            made = np.ascontiguousarray(make(constant))
            buffer = device.allocate(made.nbytes)
            device.upload(buffer, made)
            self._kept[key] = constant, buffer  # the constant stays alive, so that its id stays its own
        return self._kept[key][1]


class Builder:
    """Collects launches. ``half``: blobs are stored as float16."""

    def __init__(self, device: Device, programs: Programs, weights: Weights, half: bool = False):
        self.device = device
        self.half = half
        self.launches: List[Launch] = []
        self.labels: List[Any] = []  # for each launch, the step that it belongs to
        self.label: Any = None
        self._programs = programs
        self._weights = weights
        self._held: Dict[Value, Dict[str, Buffer]] = {}
        self._free: List[Buffer] = []
        self._kept: Set[int] = set()

    @property
    def itemsize(self) -> int:
        return 2 if self.half else 4

    def launch(
        self,
        program: str,
        kernel: str,
        defines: Mapping[str, Define],
        size: Sequence[int],
        group: Sequence[int],
        *arguments: Argument,
        half: bool = True,
    ) -> None:
        """Add a launch of this many work items. half: whether the kernel may read and write stored halves."""
        macros = {**defines, "HALF": int(self.half and half)}
        compiled = self._programs.get(program, macros)
        total, local = _in_three(size), _in_three(group)
        self.add(self.device.prepare(compiled, kernel, total, local, arguments))

    def add(self, launch: Launch) -> None:
        """Add a launch that is prepared."""
        self.launches.append(launch)
        self.labels.append(self.label)

    def constant(self, array: Array, form: Hashable, make: Callable[[Array], Array]) -> Buffer:
        """The device's copy of something made of a constant."""
        return self._weights.get(self.device, array, (form, self.half), make)

    def numbers(self, array: Array) -> Buffer:
        """A buffer with these numbers, for this island alone."""
        held = np.ascontiguousarray(array)
        buffer = self.device.allocate(held.nbytes)
        self.device.upload(buffer, held)
        return buffer

    def nothing(self) -> Buffer:
        """A buffer for a parameter that the kernel does not read."""
        return self.constant(_NOTHING, "nothing", lambda array: array)

    def scratch(self, nbytes: int) -> Buffer:
        """A buffer that later launches may overwrite once ``release`` has been called."""
        fitting = [buffer for buffer in self._free if buffer.nbytes >= nbytes]
        if fitting:
            best = min(fitting, key=lambda buffer: buffer.nbytes)
            self._free.remove(best)
            return best
        return self.device.allocate(nbytes)

    def keep(self, buffer: Buffer) -> None:
        """Never use this buffer for another blob."""
        self._kept.add(id(buffer))

    def held(self) -> List[Value]:
        """The blobs that lie on the device now."""
        return list(self._held)

    def release(self, buffer: Buffer) -> None:
        """Let later launches use the buffer for something else."""
        self._free.append(buffer)

    def nbytes(self, spec: TensorSpec, layout: str) -> int:
        """The bytes of a blob on the device."""
        if layout == PLAIN:
            return spec.size * self.itemsize
        n, c, h, w = as_image(spec.shape)
        return n * blocks_of(c) * LANES * h * w * self.itemsize

    def output(self, value: Value, layout: str) -> Buffer:
        """The buffer into which launches write a blob in this layout."""
        buffer = self.scratch(self.nbytes(value.spec, layout))
        self._held.setdefault(value, {})[layout] = buffer
        return buffer

    def hold(self, value: Value, layout: str, buffer: Buffer) -> None:
        """The blob is in this buffer, which also stays another blob's."""
        self._held.setdefault(value, {})[layout] = buffer

    def read(self, value: Value, layout: str) -> Buffer:
        """The buffer with a blob in this layout; converted, or made of a constant, if need be."""
        if value.spec.value is not None:
            return self._constant_blob(value.spec, layout)
        held = self._held[value]
        if layout not in held:
            other = PLAIN if layout == BLOCKS else BLOCKS
            source = held[other]
            target = self.output(value, layout)
            self.convert(source, target, value.spec, "to_blocks" if layout == BLOCKS else "to_plain")
        return held[layout]

    def has(self, value: Value, layout: str) -> bool:
        """Whether the blob is there in this layout, or costs nothing."""
        return value.spec.value is not None or layout in self._held[value]

    def convert(self, source: Buffer, target: Buffer, spec: TensorSpec, kernel: str) -> None:
        """Launch one of the kernels between plain and blocks."""
        n, c, h, w = as_image(spec.shape)
        count = n * blocks_of(c) * h * w
        if count:
            self.launch("move", kernel, {}, [count], [64], source, target, c, blocks_of(c), h * w, count)

    def forget(self, value: Value, others: Sequence[Value]) -> None:
        """No later launch reads the blob; its memory is free unless another blob is there, too."""
        shared = self._kept | {id(buffer) for other in others for buffer in self._held.get(other, {}).values()}
        for buffer in self._held.pop(value, {}).values():
            if id(buffer) not in shared and all(buffer is not free for free in self._free):
                self.release(buffer)

    def _constant_blob(self, spec: TensorSpec, layout: str) -> Buffer:
        assert spec.value is not None
        dtype = np.float16 if self.half else np.float32
        if layout == PLAIN:
            return self.constant(spec.value, layout, lambda array: array.astype(dtype))
        return self.constant(spec.value, layout, lambda array: in_blocks(array).astype(dtype))


_NOTHING = np.zeros(4, np.float32)


def in_blocks(array: Array) -> Array:
    """A plain blob of one to four dimensions in blocks."""
    n, c, h, w = as_image(array.shape)
    padded = np.zeros((n, blocks_of(c) * LANES, h, w), np.float32)
    padded[:, :c] = array.reshape(n, c, h, w)
    turned: Array = padded.reshape(n, -1, LANES, h, w).transpose(0, 1, 3, 4, 2)
    return turned


def channel_numbers(array: Array, channels: int) -> Array:
    """One number a channel, or one for all, filled up with zeros to whole blocks, float32."""
    numbers = np.zeros(blocks_of(channels) * LANES, np.float32)
    numbers[:channels] = array.reshape(-1)
    return numbers


def _in_three(size: Sequence[int]) -> Size:
    x, y, z = (*size, 1, 1, 1)[:3]
    return x, y, z


def image_group(width: int, height: int, planes: int) -> Tuple[int, int, int]:
    """The group for items (column, row, plane): one of few, since drivers compile for each."""
    if height == 1:
        return (64, 1, 1) if width >= 48 else (8, 1, 8)
    if width >= 8 and height >= 8:
        return 8, 8, 1
    return 4, 4, 4
