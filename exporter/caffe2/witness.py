"""Caffe2 nets run by armnet's own reference kernels: no Caffe2 can be installed any more."""

from __future__ import annotations

from typing import Mapping

from exporter.caffe2.export import from_caffe2
from exporter.common.evidence import Evidence
from exporter.common.reference import reference_evidence
from runtime_arm.files import AnyPath
from runtime_arm.netdef import Array


def caffe2_evidence(first: AnyPath, second: AnyPath, feeds: Mapping[str, Array]) -> Evidence:
    """Every blob of an init_net and a predict_net, in any order, computed by definition."""
    return reference_evidence(from_caffe2(first, second), feeds)
