"""``caffe2_pb2``: NetDef, OperatorDef, Argument, TensorProto and DeviceOption, from armnet's schema.

Messages of Caffe2 that no net holds are not there. Needs protobuf.
"""

from __future__ import annotations

from armnet.standins.messages import lazy_messages
from runtime_arm.netdef.messages import message_class

CPU, CUDA = 0, 1
__getattr__ = lazy_messages(__name__, "caffe2", message_class)
