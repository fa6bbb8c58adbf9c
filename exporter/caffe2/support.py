"""Which operators of Caffe2 nets can run."""

from __future__ import annotations

from typing import List, Sequence

from exporter.caffe2.export import from_caffe2
from exporter.common.options import ExportOptions
from exporter.common.support_rows import Findings, Support
from optimize.rewriting.subnets import all_operators
from runtime_arm.files import AnyPath
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.schema import find

NO_SUCH_OPERATOR = "armnet has no such operator"


def caffe2_support(paths: Sequence[AnyPath], options: ExportOptions) -> List[Support]:
    """One row per operator type of one net or both, sub-nets included.

    Operators are looked up by type: whether their arguments and inputs fit shows when the nets run.
    """
    findings = Findings()
    operators = [op for path in paths for op in all_operators(read_net(path))]
    findings.count(op.full_type for op in operators)
    for op in operators:
        if find(op) is None:
            findings.note(op.full_type, NO_SUCH_OPERATOR)
    if len(paths) == 2:
        with findings.trial():
            from_caffe2(paths[0], paths[1], options)
    return findings.rows()
