"""SyncedMemory against a model of Caffe's four states, which counts the copies that are needed."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.errors import DeviceError, UsageError
from runtime_arm.gpu.device import Argument, Buffer, Device, Launch, Limits, Size
from runtime_arm.gpu.synced_memory import State, SyncedMemory

NBYTES = 8
ACTIONS = ("cpu_data", "mutable_cpu_data", "set_cpu_data", "gpu_data", "mutable_gpu_data", "set_gpu_data")


class DeviceOfArrays(Device):
    """A device whose buffers are arrays. New memory holds 0xA5, as a driver may leave anything there."""

    spec, name, driver = "fake:0", "arrays", "none"
    unified, is_cpu, units = False, True, 1
    limits = Limits(1, 0, 1 << 30, 1 << 30)

    def allocate(self, nbytes: int) -> Buffer:
        return Buffer(self, nbytes, [np.full(nbytes, 0xA5, np.uint8)], lambda handle: None)

    def upload(self, buffer: Buffer, data: Any) -> None:
        buffer.handle[0][:] = data

    def download(self, buffer: Buffer, data: Any) -> None:
        data[:] = buffer.handle[0]

    def compile(self, source: str, cached: bytes = b"") -> Tuple[Any, bytes]:
        raise AssertionError

    def prepare(self, program: Any, kernel: str, size: Size, group: Size, arguments: Sequence[Argument]) -> Launch:
        raise AssertionError

    def flush(self) -> None: ...

    def finish(self) -> None: ...

    def seconds(self, launches: Sequence[Launch]) -> List[float]:
        raise AssertionError


class Model:
    """What each side holds (None: it has gone stale), and how many copies that took."""

    def __init__(self) -> None:
        self.cpu: Optional[int] = None
        self.gpu: Optional[int] = None
        self.copies = 0

    def state(self) -> State:
        table: Mapping[Tuple[bool, bool], State] = {
            (False, False): State.UNINITIALIZED,
            (True, False): State.HEAD_AT_CPU,
            (False, True): State.HEAD_AT_GPU,
            (True, True): State.SYNCED,
        }
        return table[self.cpu is not None, self.gpu is not None]

    def touch(self, side: str) -> int:
        """The content of a side after it has been brought up to date."""
        other = "gpu" if side == "cpu" else "cpu"
        if getattr(self, side) is None:
            self.copies += getattr(self, other) is not None
            setattr(self, side, getattr(self, other) or 0)
        content: int = getattr(self, side)
        return content

    def write(self, side: str, content: int) -> None:
        self.cpu = self.gpu = None
        setattr(self, side, content)


def _fill(side: str, data: Any, content: int) -> None:
    (data if side == "cpu" else data.handle[0])[:] = content


def _content(side: str, data: Any) -> List[int]:
    return list(data if side == "cpu" else data.handle[0])


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 255)), max_size=12))
def test_every_sequence_of_accesses_sees_the_newest_content_with_the_fewest_copies(
    actions: List[Tuple[str, int]],
) -> None:
    device = DeviceOfArrays()
    memory, model = SyncedMemory(NBYTES, device), Model()
    for action, content in actions:
        side = "cpu" if "cpu" in action else "gpu"
        if action.startswith("set"):
            data: Any = np.empty(NBYTES, np.uint8) if side == "cpu" else device.allocate(NBYTES)
            _fill(side, data, content)
            getattr(memory, action)(data)
            model.write(side, content)
        else:
            data = getattr(memory, action)()
            assert _content(side, data) == [model.touch(side)] * NBYTES
            if action.startswith("mutable"):
                _fill(side, data, content)
                model.write(side, content)
        assert memory.state is model.state()
        assert memory.copies == model.copies


def test_the_read_only_side_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        SyncedMemory(NBYTES).cpu_data()[0] = 1


def test_without_a_device_it_is_memory_of_the_processor() -> None:
    memory = SyncedMemory(NBYTES)
    memory.mutable_cpu_data()[:] = 7
    assert list(memory.cpu_data()) == [7] * NBYTES
    assert (memory.state, memory.copies) == (State.HEAD_AT_CPU, 0)
    for access in (memory.gpu_data, memory.mutable_gpu_data):
        with pytest.raises(DeviceError, match="has no device"):
            access()
    with pytest.raises(DeviceError, match="has no device"):
        memory.set_gpu_data(None)  # type: ignore[arg-type]
    assert memory.state is State.HEAD_AT_CPU


@pytest.mark.parametrize("nbytes", [-1, 1.5, "8", True, None])
def test_a_size_must_be_a_number_of_bytes(nbytes: Any) -> None:
    with pytest.raises(UsageError, match="number of bytes"):
        SyncedMemory(nbytes)


def test_foreign_memory_must_fit() -> None:
    memory = SyncedMemory(NBYTES, DeviceOfArrays())
    with pytest.raises(UsageError, match="C-contiguous array of 8 bytes"):
        memory.set_cpu_data(np.zeros(9, np.uint8))
    with pytest.raises(UsageError, match="C-contiguous"):
        memory.set_cpu_data(np.zeros((4, 4), np.uint8)[:, ::2])
    with pytest.raises(UsageError, match="buffer of 8 bytes on arrays"):
        memory.set_gpu_data(DeviceOfArrays().allocate(NBYTES))


def test_memory_of_no_bytes() -> None:
    memory = SyncedMemory(0, DeviceOfArrays())
    assert memory.gpu_data().nbytes == 0
    assert memory.cpu_data().size == 0


def test_the_callers_array_is_not_copied() -> None:
    array = np.arange(2, dtype=np.float32)
    memory = SyncedMemory(NBYTES)
    memory.set_cpu_data(array)
    memory.mutable_cpu_data().view(np.float32)[1] = 5
    assert list(array) == [0, 5]


def test_content_survives_a_round_trip_on_a_real_driver(device: Device) -> None:
    memory = SyncedMemory(NBYTES, device)
    assert list(memory.cpu_data()) == [0] * NBYTES
    memory.mutable_cpu_data()[:] = range(NBYTES)
    memory.mutable_gpu_data()
    assert memory.state is State.HEAD_AT_GPU
    seen: Dict[str, Any] = {"cpu": memory.cpu_data()}
    assert list(seen["cpu"]) == list(range(NBYTES))
    assert (memory.state, memory.copies) == (State.SYNCED, 2)


def test_a_driver_starts_with_zeros(device: Device) -> None:
    memory = SyncedMemory(4096, device)
    memory.gpu_data()
    assert (memory.state, memory.copies) == (State.HEAD_AT_GPU, 0)
    assert not memory.cpu_data().any()
    assert memory.copies == 1
