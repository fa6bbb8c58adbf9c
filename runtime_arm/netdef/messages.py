"""protobuf's own message classes for netdef.proto, for the text format and as a witness of the codec.

Built from the committed descriptor in a pool of their own, so they need no code generated for one version of protobuf
and live beside torch's or caffe2's classes.
"""

from __future__ import annotations

import functools
import pkgutil
from typing import Any

from runtime_arm.errors import MissingDependency

DESCRIPTOR = "netdef.desc"  # a FileDescriptorProto: what protoc makes of netdef.proto


def message_class(name: str) -> Any:
    """The class of a message, ``message_class("NetDef")``. MissingDependency where protobuf is not installed."""
    return class_from(__package__, DESCRIPTOR, f"armnet.netdef.{name}")


@functools.cache
def class_from(package: str, descriptor: str, name: str) -> Any:
    """The class of a message of the descriptor that a package carries. Classes of one descriptor belong together."""
    found = _pool(package, descriptor).FindMessageTypeByName(name)
    from google.protobuf import message_factory

    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(_pool(package, descriptor)).GetPrototype(found)


@functools.cache
def _pool(package: str, descriptor: str) -> Any:
    try:
        from google.protobuf import descriptor_pool
    except ImportError as error:
        raise MissingDependency("this needs the package protobuf: pip install protobuf") from error
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(pkgutil.get_data(package, descriptor))
    return pool
