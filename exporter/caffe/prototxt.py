"""Reads Caffe's prototxt, protobuf's text format, whatever dialect it is in."""

from __future__ import annotations

import os
from typing import Any

from runtime_arm.errors import FormatError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef.messages import class_from
from runtime_arm.netdef.pbtxt import problem_of

DESCRIPTOR = "caffe.desc"  # a FileDescriptorProto: what protoc makes of caffe.proto


def message_class(name: str) -> Any:
    """The class of one of Caffe's messages, ``message_class("NetParameter")``."""
    return class_from("exporter.caffe", DESCRIPTOR, f"armnet.caffe.{name}")


def read_prototxt(path: AnyPath) -> Any:
    """The NetParameter of a text file. FormatError, naming file and line, for what is none.

    Comments may be in any encoding, names are in UTF-8.
    """
    net = message_class("NetParameter")()
    from google.protobuf import text_format

    try:
        text_format.Parse(str(map_file(path), "utf-8-sig", "replace"), net)
    except (text_format.ParseError, RecursionError) as error:
        raise FormatError(f"{os.fspath(path)}: is no prototxt: {problem_of(error)}") from error
    return net
