"""Tables: arrays by name whose first axis counts samples, from HDF5 files."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Sequence

import numpy as np

from runtime_arm.errors import FeedError, UsageError, first_line
from runtime_arm.files import map_file
from runtime_arm.netdef import Array
from training.caffe.hdf5 import h5py_for, numbers

Table = Dict[str, Array]


def hdf5_table(source: Path, names: Sequence[str]) -> Table:
    """These arrays of the HDF5 files that a list names, one a line, joined."""
    h5py = h5py_for(source)
    lines = [line.strip() for line in str(map_file(source), "utf-8", "replace").splitlines()]
    parts: Dict[str, List[Array]] = {name: [] for name in names}
    for line in filter(None, lines):
        path = Path(line) if Path(line).exists() else source.parent / line
        try:
            with h5py.File(path, "r") as file:
                for name in names:
                    parts[name].append(numbers(file, name))
        except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise FeedError(f"{path}: cannot be read as HDF5 with {', '.join(names)}: {first_line(error)}") from error
    if not all(parts.values()):
        raise UsageError(f"{source}: lists no HDF5 files")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}
