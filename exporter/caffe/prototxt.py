"""Reads Caffe's prototxt of any dialect; it is protobuf's text format."""

from __future__ import annotations

import os
from typing import Any

from runtime_arm.errors import FormatError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef.messages import class_from
from runtime_arm.netdef.pbtxt import problem_of

DESCRIPTOR = "caffe.desc"  # the FileDescriptorProto that protoc makes from caffe.proto


def message_class(name: str) -> Any:
    """The class of a message in caffe.proto, such as ``message_class("NetParameter")``."""
    return class_from("exporter.caffe", DESCRIPTOR, f"armnet.caffe.{name}")


def read_prototxt(path: AnyPath) -> Any:
    """The NetParameter in a text file. FormatError, naming file and line, if it is not one.

    Comments may have any encoding; names are UTF-8.
    """
    net = message_class("NetParameter")()
    from google.protobuf import text_format

    try:
        text_format.Parse(str(map_file(path), "utf-8-sig", "replace"), net)
    except (text_format.ParseError, RecursionError) as error:
        raise FormatError(f"{os.fspath(path)}: not a prototxt: {problem_of(error)}") from error
    return net
