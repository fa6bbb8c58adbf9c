"""``caffe_pb2``: the messages of Caffe's files, NetParameter, BlobProto, Datum and the others, from armnet's schema.

Messages of Caffe that no file of a net or a solver holds are not there. Needs protobuf.
"""

from __future__ import annotations

from armnet.standins.messages import lazy_messages
from exporter.caffe.prototxt import message_class

TRAIN, TEST = 0, 1
__getattr__ = lazy_messages(__name__, "caffe", message_class)
