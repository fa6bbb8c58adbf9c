"""The message classes that protobuf makes from netdef.proto: for the text format, and to check the codec in tests.

They are built from the committed descriptor in a pool of their own. So they need no code generated for one version of
protobuf, and do not collide with the classes of torch or caffe2.
"""

from __future__ import annotations

import functools
import pkgutil
from typing import Any

from runtime_arm.errors import MissingDependency

DESCRIPTOR = "netdef.desc"  # the FileDescriptorProto that protoc makes from netdef.proto


def message_class(name: str) -> Any:
    """The class of a message: ``message_class("NetDef")``. MissingDependency if protobuf is not installed."""
    return class_from(__package__, DESCRIPTOR, f"armnet.netdef.{name}")


@functools.cache
def class_from(package: str, descriptor: str, name: str) -> Any:
    """The class of a message in a package's descriptor. Only classes of the same descriptor can be combined."""
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
