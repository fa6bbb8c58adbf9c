"""The exchange format: Caffe2's NetDef as immutable values, with their bytes, their text and a structural check."""

from runtime_arm.netdef.values import Argument, Array, DeviceOption, Feeds, NetDef, NetLike, OperatorDef, frozen

__all__ = ["Argument", "Array", "DeviceOption", "Feeds", "NetDef", "NetLike", "OperatorDef", "frozen"]
