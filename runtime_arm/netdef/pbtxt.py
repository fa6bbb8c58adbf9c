"""Reads nets in protobuf's text format, as in Caffe2's model zoo (``predict_net.pbtxt``)."""

from __future__ import annotations

import re

from runtime_arm.errors import FormatError
from runtime_arm.netdef.messages import message_class
from runtime_arm.netdef.values import NetDef

_RENAMED = re.compile(r"\bcuda_gpu_id(?=\s*:)")  # what DeviceOption.device_id was called until 2018
_LONGEST = 300  # characters of a message


def parse_pbtxt(text: str, source: str = "") -> NetDef:
    """The net in a text. FormatError names ``source`` and the line."""
    message = message_class("NetDef")()
    from google.protobuf import text_format

    try:
        text_format.Parse(_RENAMED.sub("device_id", text), message)
        return NetDef.from_bytes(message.SerializePartialToString(), source)
    except (text_format.ParseError, UnicodeError, RecursionError) as error:
        prefix = f"{source}: " if source else ""
        raise FormatError(f"{prefix}not a net in text format: {problem_of(error)}") from None


def problem_of(error: Exception) -> str:
    """The message of protobuf's parser as one short line; quoted text is left out if it is long."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return re.sub(r"'.{100,}?('$|': )", "", line)[:_LONGEST]
