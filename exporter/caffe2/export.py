"""Turns Caffe2's init_net and predict_net into a pair: finds the real inputs, evaluates and keeps the weights."""

from __future__ import annotations

import os
from typing import List

from exporter.common.builder import refuse_foreign, refuse_unknown
from exporter.common.options import DEFAULTS, ExportOptions
from exporter.common.source import origin
from runtime_arm.errors import ArmnetError, ExportError, FormatError
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair, read_net
from runtime_arm.registry.specs import QuantizedTensor


def from_caffe2(first: AnyPath, second: AnyPath, options: ExportOptions = DEFAULTS) -> Pair:
    """The normalised pair of two .pb or .pbtxt files, init_net and predict_net in any order.

    Its init_net holds only the weights that predict_net reads, as values, whatever operators made them. Errors name the
    file.
    """
    paths, nets = [first, second], [read_net(first), read_net(second)]
    if _fills_only(nets[1]) and not _fills_only(nets[0]):
        paths.reverse()
        nets.reverse()
    try:
        pair = Pair.from_nets(*nets)
        refuse_unknown(pair.predict_net)
        init_net = NetDef(nets[0].name, tuple(_weights(pair, unpacked=options.caffe2_compatible)))
        if options.caffe2_compatible:
            refuse_foreign(pair.predict_net)
    except FormatError as error:
        raise FormatError(f"{os.fspath(paths[1])}: {error}") from error
    except ArmnetError as error:
        raise ExportError(f"{os.fspath(paths[1])}: {error}") from error
    names = [op.output[0] for op in init_net.op]
    inputs = [info.name for info in pair.inputs]
    predict_net = pair.predict_net.replace(external_input=(*inputs, *names))
    return Pair(
        init_net,
        predict_net,
        pair.inputs,
        pair.outputs,
        {"source": origin(paths[1], map_file(paths[1])), **options.meta},
    ).check()


def _fills_only(net: NetDef) -> bool:
    return not any(name for op in net.op for name in op.input)


def _weights(pair: Pair, unpacked: bool) -> List[OperatorDef]:
    values = run_init_net(pair.init_net)
    makers = {name: op for op in pair.init_net.op for name in op.output}
    inputs = {info.name for info in pair.inputs}
    read = [name for name in pair.predict_net.captures() if name in values and name not in inputs]
    return [
        makers[name] if isinstance(values[name], QuantizedTensor) else fill(name, values[name], unpacked)
        for name in read
    ]
