"""Nets and operators as programs hand them over, for armnet: messages, their bytes, or a ``core.Net``."""

from __future__ import annotations

from typing import Any

from runtime_arm.netdef import NetDef, OperatorDef


def net_of(net: Any) -> NetDef:
    """The net. FormatError if the bytes are none."""
    if isinstance(net, NetDef):
        return net
    message = net.Proto() if hasattr(net, "Proto") else net
    return NetDef.from_bytes(message if isinstance(message, bytes) else message.SerializeToString())


def operator_message(operator: OperatorDef) -> Any:
    """The message of an operator."""
    from armnet.standins.caffe2.proto import caffe2_pb2

    return caffe2_pb2.NetDef.FromString(NetDef(op=(operator,)).to_bytes()).op[0]
