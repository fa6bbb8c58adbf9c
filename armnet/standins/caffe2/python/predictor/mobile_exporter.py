"""``mobile_exporter.Export``: the two nets of a trained model that ``workspace.Predictor`` takes."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from armnet.standins.caffe2.python import core, utils

_FILLS = {
    np.dtype(np.float32): "GivenTensorFill",
    np.dtype(np.int32): "GivenTensorIntFill",
    np.dtype(np.int64): "GivenTensorInt64Fill",
    np.dtype(np.uint8): "GivenTensorByteStringToUInt8Fill",
    np.dtype(object): "GivenTensorStringFill",
}


def add_tensor(net: Any, name: str, blob: Any) -> None:
    """Append the operator that makes an array to a NetDef. TypeError for a type without such an operator."""
    if blob.dtype not in _FILLS:
        raise TypeError(f"blob {name!r}: Caffe2 has no operator that makes an array of {blob.dtype}")
    values = [blob.tobytes()] if blob.dtype == np.uint8 else blob
    arguments = [utils.MakeArgument("shape", list(blob.shape)), utils.MakeArgument("values", values)]
    net.op.extend([core.CreateOperator(_FILLS[blob.dtype], [], [name], arg=arguments)])


def Export(workspace: Any, net: Any, params: Sequence[Any]) -> Tuple[Any, Any]:
    """(init_net, predict_net): the first makes the parameters as the workspace has them, and a placeholder for each
    input. The outputs are the blobs that no operator reads."""
    from armnet.standins.caffe2.proto import caffe2_pb2

    proto = net if isinstance(net, caffe2_pb2.NetDef) else net.Proto()
    ssa, versions = core.get_ssa(net)
    read = {name for versioned, _ in ssa for name, _ in versioned}
    weights = [str(name) for name in params]
    inputs = [name for name, version in versions.items() if version == 0 and name not in weights]
    init_net, predict_net = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
    for name in weights:
        add_tensor(init_net, name, workspace.FetchBlob(name))
    for name in inputs:
        add_tensor(init_net, name, np.zeros((1, 1), np.float32))
    predict_net.CopyFrom(proto)
    del predict_net.external_input[:], predict_net.external_output[:]
    predict_net.external_input.extend([*inputs, *(name for name in proto.external_input if name not in inputs)])
    predict_net.external_output.extend(name for name, version in versions.items() if version and name not in read)
    return init_net, predict_net
