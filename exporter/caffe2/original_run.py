"""Caffe2 nets run by armnet's own reference kernels: no Caffe2 can be installed any more."""

from __future__ import annotations

from typing import Mapping

from exporter.caffe2.export import from_caffe2
from exporter.common.original_run import OriginalRun
from exporter.common.reference_run import run_reference
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array


def run_caffe2(first: AnyPath, second: AnyPath, feeds: Mapping[str, Array]) -> OriginalRun:
    """Every blob of an init_net and a predict_net, in any order, computed by definition."""
    return run_reference(from_caffe2(first, second), feeds)
