"""Writes a net as text, one line for each operator; ``text_parser`` reads it.

    net "digits": data, conv1_w, conv1_b -> prob
    Conv(data, conv1_w, conv1_b) -> conv1  engine=WINOGRAD  kernel=3  pads=[1, 1, 1, 1]  order="NCHW"
    onnx.Resize(conv1, "", scales) -> up  mode="nearest"
    If(cond) -> prob  then_net={
      net "then": up -> prob
      Softmax(up) -> prob
    }

``engine``, ``name`` and the other words in FIELDS are fields of the operator; the name of an argument with such a name
is in quotes, as are all names that are not plain words. Integers and floats differ as in Python. A small tensor is
written as ``<float32 2x2: 1.0 2.0 3.0 4.0>``; a big array is summarised as ``<float32 64x3x3x3>`` and cannot be read
back. An empty device option is left out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from runtime_arm.netdef.values import Argument, Array, DeviceOption, NetDef, OperatorDef

FIELDS = ("engine", "name", "domain", "control_input", "device", "is_gradient_op", "debug_info", "op_version")
NET_FIELDS = ("type", "num_workers", "device")
# A colon is part of a word unless it ends it; so is a hash unless it starts it.
WORD = r'(?!#)(?:[^\s()\[\]{},="<>:]|:(?![\s>]|$))+'
PLAIN_TYPE, PLAIN_DOMAIN = r"[A-Za-z_]\w*", r"[A-Za-z_]\w*(?:\.\w+)*"

_LONGEST_LIST = 64
_LARGEST_TENSOR = 16
_WIDTH = 120


def format_net(net: NetDef) -> str:
    """The text of a net; it ends with a newline unless it is empty."""
    return "".join(f"{line}\n" for line in _net_lines(net))


def format_operator(op: OperatorDef) -> str:
    """The line of an operator, or lines if it has sub-nets, without a newline at the end."""
    outputs = f" -> {_names(op.output)}" if op.output else ""
    in_front = bool(re.fullmatch(PLAIN_TYPE, op.type) and (not op.domain or re.fullmatch(PLAIN_DOMAIN, op.domain)))
    head = f"{op.full_type if in_front else _quoted(op.type)}({_names(op.input)}){outputs}"
    fields = dict(_operator_fields(op, with_domain=not in_front))
    return "  ".join([head, *(f"{key}={text}" for key, text in fields.items()), *map(_argument, op.arg)])


def _operator_fields(op: OperatorDef, with_domain: bool) -> Iterator[tuple[str, str]]:
    if with_domain and op.domain:
        yield "domain", _quoted(op.domain)
    if op.engine:
        yield "engine", op.engine if re.fullmatch(f"{WORD}(?:,{WORD})*", op.engine) else _quoted(op.engine)
    if op.name:
        yield "name", _quoted(op.name)
    if op.control_input:
        yield "control_input", f"[{_names(op.control_input)}]"
    if op.device_option not in (None, DeviceOption()):
        yield "device", _device(op.device_option)
    if op.is_gradient_op:
        yield "is_gradient_op", "1"
    if op.debug_info:
        yield "debug_info", _quoted(op.debug_info)
    if op.op_version is not None:
        yield "op_version", str(op.op_version)


def _net_lines(net: NetDef) -> Iterator[str]:
    header = net.replace(op=())
    if header != NetDef():
        yield from _wrapped(_header(header))
    for op in net.op:
        yield from format_operator(op).split("\n")


def _header(net: NetDef) -> list[str]:
    """The words of the header; the line may be broken after a word that ends with a comma."""
    words = [f"net {_quoted(net.name)}"]
    if net.type:
        words.append(f"type={_quoted(net.type)}")
    if net.num_workers is not None:
        words.append(f"num_workers={net.num_workers}")
    if net.device_option not in (None, DeviceOption()):
        words.append(f"device={_device(net.device_option)}")
    words += [_argument(arg, NET_FIELDS) for arg in net.arg]
    words[-1] += ":"
    words += _comma_separated(net.external_input)
    return words + (["->", *_comma_separated(net.external_output)] if net.external_output else [])


def _comma_separated(names: tuple[str, ...]) -> list[str]:
    words = [f"{_name(name)}," for name in names]
    return [*words[:-1], words[-1][:-1]] if words else []


def _wrapped(words: list[str]) -> Iterator[str]:
    line = words[0]
    for word in words[1:]:
        if line.endswith(",") and len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = "   "
        line += f" {word}"
    yield line


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    return name if re.fullmatch(WORD, name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _device(option: Any) -> str:
    present = ((key, value) for key, value in vars(option).items() if value != getattr(DeviceOption(), key))
    return "(" + ", ".join(f"{key}={_device_value(value)}" for key, value in present) + ")"


def _device_value(value: Any) -> str:
    return str(value) if isinstance(value, int) else _quoted(value) if isinstance(value, str) else f"[{_names(value)}]"


def _argument(arg: Argument, fields: tuple[str, ...] = FIELDS) -> str:
    plain = re.fullmatch(WORD, arg.name) and arg.name not in fields
    return f"{arg.name if plain else _quoted(arg.name)}={_argument_value(arg)}"


def _argument_value(arg: Argument) -> str:
    kind = arg.kind
    value = getattr(arg, kind) if kind else ()
    if kind in ("floats", "ints"):
        if len(value) > _LONGEST_LIST:
            return f"<{kind} {len(value)}>"
        return "[" + ", ".join(map(_number, value)) + "]"
    writers: dict[str, Callable[[Any], str]] = {
        "s": _bytes,
        "strings": _bytes,
        "n": _block,
        "nets": _block,
        "t": _tensor,
        "tensors": _tensor,
    }
    write = writers.get(kind, _number)
    return "[" + ", ".join(map(write, value)) + "]" if isinstance(value, tuple) else write(value)


def _number(value: Any) -> str:
    """The shortest decimal that reads back as the same float32, float64 or integer."""
    if isinstance(value, float) and not isinstance(value, np.floating):
        with np.errstate(over="ignore"):
            single = np.float32(value)
        return str(single) if single == value or value != value else repr(value)
    return str(value)


def _bytes(value: bytes) -> str:
    try:
        return _quoted(value.decode())
    except UnicodeDecodeError:
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'


def _block(net: NetDef) -> str:
    return "\n".join(["{", *(f"  {line}" for line in _net_lines(net)), "}"])


def _tensor(array: Array) -> str:
    dtype = "string" if array.dtype == object else array.dtype.name
    shape = "x".join(map(str, array.shape))
    head = f"{dtype} {shape}" if shape else dtype
    if array.size > _LARGEST_TENSOR:
        return f"<{head}>"
    return f"<{' '.join([head + ':', *map(_element, array.ravel())])}>"


def _element(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        return _bytes(value.encode() if isinstance(value, str) else value)
    return str(int(value)) if isinstance(value, np.bool_) else _number(value)
