"""Nets as immutable values: Caffe2's NetDef with its operators and their arguments."""

from __future__ import annotations

from runtime_arm.netdef import Argument, DeviceOption, NetDef, OperatorDef

__all__ = ["Argument", "DeviceOption", "NetDef", "OperatorDef"]
