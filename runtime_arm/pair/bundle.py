"""A bundle: one file that holds the runtime, a pair and a sample, and runs with ``python3 app.pyz``.

It is a zip archive that Python executes (PEP 441). By default nothing in it is compressed, and the pair's files start
at multiples of 64 bytes, so that the weights are used in place in the mapped file:

    __main__.py        checks for Python 3.9 and NumPy, then calls runtime_arm.app.main; compiled code is kept
                       by ``machine.bytecode_cache``
    MANIFEST.json      SHA-256 of every other part; the tolerance of the sample
    runtime_arm/       the runtime
    pair/              init_net.pb, predict_net.pb, model.json, sample.npz (in_NAME, out_NAME)

``exporter.bundle.pack`` writes bundles.
"""

from __future__ import annotations

import io
import struct
from typing import Dict, Mapping

import numpy as np

from runtime_arm.errors import PairError
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array
from runtime_arm.pair.archive import SAMPLE, Archive, open_archive
from runtime_arm.pair.pair import Pair
from runtime_arm.records import NamedTuple


class Bundle(NamedTuple):
    """The content of a bundle: the pair, a sample of inputs with their expected outputs, and the tolerance of these
    outputs."""

    pair: Pair
    sample_inputs: Dict[str, Array]
    sample_outputs: Dict[str, Array]
    tolerance: float


def open_bundle(path: AnyPath) -> Bundle:
    """The content of a bundle. PairError, naming the part, if one is missing or its hash differs."""
    archive = open_archive(path)
    pair, sample = Pair.from_buffers(archive.pair_files(), archive.source), _sample(archive)
    return Bundle(pair, _with_prefix(sample, "in_"), _with_prefix(sample, "out_"), archive.tolerance)


def _sample(archive: Archive) -> Dict[str, Array]:
    from zipfile import BadZipFile  # whose import is left to NumPy

    try:
        with np.load(io.BytesIO(archive.part(SAMPLE)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, NotImplementedError, MemoryError, struct.error, BadZipFile) as error:
        raise PairError(f"{archive.source}: part {SAMPLE!r} cannot be read: {error}") from error


def _with_prefix(sample: Mapping[str, Array], prefix: str) -> Dict[str, Array]:
    return {key[len(prefix) :]: value for key, value in sample.items() if key.startswith(prefix)}
