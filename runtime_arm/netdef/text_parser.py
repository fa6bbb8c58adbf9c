"""Reads the text form of a net, which ``text`` describes and writes. ``#`` starts a comment."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, Iterator, NoReturn, Union

import numpy as np

from runtime_arm.errors import FormatError
from runtime_arm.netdef.text import FIELDS, NET_FIELDS, PLAIN_DOMAIN, PLAIN_TYPE, WORD
from runtime_arm.netdef.values import Argument, Array, DeviceOption, NetDef, OperatorDef, frozen
from runtime_arm.records import NamedTuple

_TOKEN = re.compile(
    r"(?P<newline>\n)|(?P<space>[^\S\n]+|#[^\n]*)|(?P<comma>,\s*)|(?P<arrow>->)"
    r'|(?P<string>b?"(?:[^"\\\n]|\\.)*")|(?P<sign>[()\[\]{}<>=]|:(?=[\s>]|$))' + f"|(?P<word>{WORD})"
)
_TYPE = re.compile(rf"(?:({PLAIN_DOMAIN})\.)?({PLAIN_TYPE})")
_TENSOR_TYPES = (
    "float16",
    "float32",
    "float64",
    "bool",
    "string",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_INT64 = np.iinfo(np.int64)
_DEEPEST = 64
_KIND_NAMES = {"end": "the end", "newline": "the end of the line", "word": "a name", "comma": "a comma"}


def parse_net(text: str) -> NetDef:
    """The net in a text. FormatError names the line."""
    parser = _Parser(text)
    net = parser.net()
    if parser.token.kind != "end":
        parser.fail("an operator")
    return net


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormatError(f"net text, line {line}: cannot read {text[at : at + 20]!r}")
        kind = str(match.lastgroup)
        if kind != "space":
            yield _Token(kind, match.group().strip() if kind == "comma" else match.group(), line)
        line += match.group().count("\n")
        at = match.end()
    yield _Token("end", "", line)


class _Parser:
    """A recursive descent parser: each method reads what its name says; then ``token`` is the next token."""

    def __init__(self, text: str):
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def fail(self, expected: str) -> NoReturn:
        """Raise a FormatError: the current token is not what is expected."""
        found = repr(self.token.text) if self.token.text.strip() else _KIND_NAMES[self.token.kind]
        raise FormatError(f"net text, line {self.token.line}: expected {expected}, found {found}")

    def take(self, *kinds: str) -> str:
        """The text of the current token, which must be of one of these kinds, or one of these signs."""
        token = self.token
        if token.kind not in kinds and not (token.kind == "sign" and token.text in kinds):
            self.fail(" or ".join(_KIND_NAMES.get(kind, kind) for kind in kinds))
        self.at += 1
        return token.text

    def accept(self, kind: str) -> bool:
        """Skip the current token if it is of this kind, or this sign; whether it was."""
        found = self.token.kind == kind or (self.token.kind == "sign" and self.token.text == kind)
        self.at += found
        return found

    def net(self) -> NetDef:
        """An optional header, and operators up to the end or the closing brace of the block."""
        self.newlines()
        net = NetDef()
        if self.token.text == "net" and self.tokens[self.at + 1].kind == "string":
            net = self.header()
            self.end_of_line()
        ops = []
        while self.token.kind != "end" and self.token.text != "}":
            ops.append(self.operator())
            self.end_of_line()
        return net.replace(op=tuple(ops))

    def newlines(self) -> None:
        """Skip ends of lines."""
        while self.accept("newline"):
            pass

    def end_of_line(self) -> None:
        """The end of a line, or of the text."""
        if self.token.kind != "end":
            self.take("newline")
        self.newlines()

    def header(self) -> NetDef:
        """``net "name"  type="dag": inputs -> outputs``"""
        self.take("word")
        name = self.text()
        fields, arguments = self.options(NET_FIELDS)
        self.take(":")
        inputs = self.names()
        outputs = self.names() if self.accept("arrow") else ()
        if "device" in fields:
            fields["device_option"] = fields.pop("device")
        return NetDef(name=name, external_input=inputs, external_output=outputs, arg=arguments, **fields)

    def operator(self) -> OperatorDef:
        """``domain.Type(inputs) -> outputs  field=value  argument=value``"""
        domain = ""
        if self.token.kind == "string":
            type = self.text()
        else:
            match = _TYPE.fullmatch(self.token.text)
            if match is None:
                self.fail("an operator")
            domain, type = match.group(1) or "", match.group(2)
            self.take("word")
        self.take("(")
        inputs = self.names()
        self.take(")")
        outputs = self.names() if self.accept("arrow") else ()
        fields, arguments = self.options(FIELDS)
        if "device" in fields:
            fields["device_option"] = fields.pop("device")
        fields.setdefault("domain", domain)
        return OperatorDef(type, inputs, outputs, arguments, **fields)

    def names(self) -> tuple[str, ...]:
        """Blob names separated by commas, possibly none."""
        if self.token.kind not in ("word", "string"):
            return ()
        names = [self.name()]
        while self.accept("comma"):
            names.append(self.name())
        return tuple(names)

    def name(self) -> str:
        """A plain word or a name in quotes."""
        return self.text() if self.token.kind == "string" else self.take("word")

    def text(self) -> str:
        """A string in quotes."""
        if self.token.text.startswith("b"):
            self.fail("a string of characters")
        return str(self.quoted())

    def quoted(self) -> Union[str, bytes]:
        """A string in quotes, or bytes if it is preceded by ``b``."""
        literal = self.token.text
        try:
            value: Union[str, bytes] = ast.literal_eval(literal) if literal.startswith("b") else json.loads(literal)
        except (ValueError, SyntaxError):
            self.fail("a string in quotes with valid escapes")
        self.take("string")
        return value

    def options(self, fields: tuple[str, ...]) -> tuple[dict[str, Any], tuple[Argument, ...]]:
        """All ``key=value`` that follow: the fields, and the arguments."""
        found: dict[str, Any] = {}
        arguments = []
        while self.token.kind in ("word", "string"):
            is_field = self.token.kind == "word" and self.token.text in fields
            key = self.name()
            self.take("=")
            if is_field:
                found[key] = self.field(key)
            else:
                arguments.append(self.argument(key))
        return found, tuple(arguments)

    def field(self, key: str) -> Any:
        """The value of a field that is not an argument."""
        if key == "engine" and self.token.kind == "word":
            return ",".join(self.names())
        if key == "device":
            return self.device()
        if key == "control_input":
            return self.bracketed_names()
        if key == "is_gradient_op":
            return bool(self.integer())
        return self.integer() if key in ("op_version", "num_workers") else self.text()

    def bracketed_names(self) -> tuple[str, ...]:
        """``[a, b]``"""
        self.take("[")
        names = self.names()
        self.take("]")
        return names

    def device(self) -> DeviceOption:
        """``(device_type=1, device_id=0)``"""
        self.take("(")
        found: dict[str, Any] = {}
        while not self.accept(")"):
            if self.token.text not in vars(DeviceOption()):
                self.fail("a field of a device option")
            key = self.take("word")
            self.take("=")
            read = {"node_name": self.text, "extra_info": self.bracketed_names}.get(key, self.integer)
            found[key] = read()
            self.accept("comma")
        return DeviceOption(**found)

    def argument(self, name: str) -> Argument:
        """The argument of that name, whose value begins at the current token."""
        line = self.token.line
        try:
            return Argument.of(name, self.value())
        except TypeError as error:
            raise FormatError(f"net text, line {line}: {error}") from None

    def value(self) -> Any:
        """A number, a string, a block, a tensor or a list of these."""
        if self.token.kind == "sign" and self.token.text in "[{":
            self.depth += 1
            if self.depth > _DEEPEST:
                self.fail(f"an end of the nesting, which may be {_DEEPEST} deep,")
            value = self.items() if self.accept("[") else self.block()
            self.depth -= 1
            return value
        if self.token.text == "<":
            return self.tensor()
        return self.quoted() if self.token.kind == "string" else self.number(np.dtype(np.float32))

    def items(self) -> list[Any]:
        """The rest of ``[value, value]`` after the bracket."""
        found = []
        while not self.accept("]"):
            found.append(self.value())
            if self.token.text != "]":
                self.take("comma")
        return found

    def block(self) -> NetDef:
        """``{``, a net, ``}``"""
        self.take("{")
        net = self.net()
        self.take("}")
        return net

    def integer(self) -> int:
        """An integer of 64 bits."""
        value = self.number(np.dtype(np.int64))
        assert isinstance(value, int)
        return value

    def number(self, dtype: np.dtype[Any]) -> Union[int, float]:
        """An integer or a float that ``dtype`` can hold; for an integer dtype, an integer."""
        word = self.token.text if self.token.kind == "word" else ""
        limits = np.iinfo(dtype) if dtype.kind in "iu" else _INT64
        if re.fullmatch(r"[+-]?\d+", word):
            if not limits.min <= int(word) <= limits.max:
                self.fail(f"a number between {limits.min} and {limits.max}")
            return int(self.take("word"))
        try:
            value = float(word)
        except ValueError:
            self.fail("a number, a string in quotes, a list, a tensor or a block")
        with np.errstate(over="ignore"):
            overflows = math.isfinite(value) and not np.isfinite(dtype.type(value))
        if dtype.kind != "f" or overflows:
            self.fail(f"a value of {dtype.name}")
        self.take("word")
        return value

    def tensor(self) -> Array:
        """``<float32 2x2: 1.0 2.0 3.0 4.0>``"""
        self.take("<")
        if self.token.text not in _TENSOR_TYPES:
            self.fail(f"one of {', '.join(_TENSOR_TYPES)} (a list summarised as <floats ...> cannot be read back)")
        name = self.take("word")
        dtype = np.dtype(object if name == "string" else name)
        shape: tuple[int, ...] = ()
        if self.token.kind == "word":
            if not re.fullmatch(r"\d+(x\d+)*", self.token.text):
                self.fail("a shape such as 2x3")
            shape = tuple(map(int, self.take("word").split("x")))
        if self.token.text == ">":
            self.fail("the content of the tensor (a summary cannot be read back)")
        self.take(":")
        return self.content(dtype, shape)

    def content(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The elements of a tensor up to the closing ``>``."""
        line, items = self.token.line, []
        number_dtype = np.dtype(np.uint8) if dtype == np.bool_ else dtype
        while not self.accept(">"):
            items.append(self.quoted() if dtype.kind == "O" else self.number(number_dtype))
        array = np.empty(len(items), dtype)
        array[:] = [item.encode() if isinstance(item, str) else item for item in items]
        try:
            return frozen(array.reshape(shape))
        except (ValueError, OverflowError):
            message = f"net text, line {line}: shape {list(shape)} does not hold {len(items)} elements"
            raise FormatError(message) from None
