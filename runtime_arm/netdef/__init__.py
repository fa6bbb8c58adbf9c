"""The exchange format: Caffe2's NetDef as immutable values, their bytes, their text and their structural check."""

from runtime_arm.netdef.values import Argument, Array, DeviceOption, Feeds, NetDef, NetLike, OperatorDef, frozen

__all__ = ["Argument", "Array", "DeviceOption", "Feeds", "NetDef", "NetLike", "OperatorDef", "frozen"]
