"""HDF5 files that lie: sizes that they do not hold, links and content in other files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from runtime_arm.errors import FormatError
from training.caffe.hdf5 import parameters_of

h5py = pytest.importorskip("h5py", reason="HDF5 needs the package h5py")


def content_of(fill: Callable[[Any], Any]) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        fill(file)
    return stream.getvalue()


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another file, whose numbers are nobody's business."""
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["data/ip/0"] = np.ones(3, np.float32)
    return path


@pytest.mark.parametrize("options", [{}, {"chunks": (100,), "compression": "gzip"}])
def test_numbers_are_read(options: Any) -> None:
    values = np.zeros(100000, np.float32)
    content = content_of(lambda file: file.create_dataset("data/ip/0", data=values, **options))
    assert np.array_equal(parameters_of(content)["ip"][0].data, values)


def test_a_size_that_the_file_does_not_hold_is_refused() -> None:
    content = content_of(lambda file: file.create_dataset("data/ip/0", (10**12,), "f4", chunks=(1024,)))
    assert len(content) < 10000
    with pytest.raises(FormatError, match="'0' states 4000000000000 bytes, and the file has fewer"):
        parameters_of(content)


def test_other_files_are_not_read(other: Path) -> None:
    linked = content_of(lambda file: file.__setitem__("data", h5py.ExternalLink(str(other), "/data")))
    with pytest.raises(FormatError, match="'data' is a link"):
        parameters_of(linked)
    outside = content_of(lambda file: file.create_dataset("data/ip/0", (3,), "f4", external=[(str(other), 0, 12)]))
    with pytest.raises(FormatError, match="the content of '0' lies in another file"):
        parameters_of(outside)
