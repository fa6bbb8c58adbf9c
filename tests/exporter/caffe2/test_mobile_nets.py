"""Recorded nets of Caffe2's mobile exporter compute the same after an export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter import export
from tests.support.caffe2_nets import check_net, golden_nets, write_files


@pytest.mark.parametrize("caffe2_compatible", [False, True])
@pytest.mark.parametrize("case", golden_nets())
def test_computes_the_same_when_exported(case: Any, caffe2_compatible: bool, tmp_path: Path) -> None:
    check_net(case, export(*write_files(case, tmp_path), caffe2_compatible=caffe2_compatible))
