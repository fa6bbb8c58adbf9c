"""Inputs that real networks are quantised and judged on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_arm.pair.metadata import TensorInfo


class Network:
    inputs = (TensorInfo("image", (None, 3, None, None), "float32"),)


def test_a_network_that_looks_for_text_gets_photos_with_words(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To photos without any it answers zeros, beside which all noise is large."""
    pytest.importorskip("PIL", reason="Pillow is not installed to read photos")
    from scripts.quantising import samples

    network: Any = Network()
    written, again = (samples.samples_of("ppocr", network) for _ in range(2))
    monkeypatch.setattr(samples, "READERS", ())
    plain = samples.samples_of("ppocr", network)
    assert (plain.kind, written.kind) == ("photos", "photos with text")
    for one, same, other in zip(written.calibration, again.calibration, plain.calibration):
        np.testing.assert_array_equal(one["image"], same["image"])
        changed = np.mean(one["image"] != other["image"])
        assert 0.001 < changed < 0.5
