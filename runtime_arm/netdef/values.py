"""NetDef, OperatorDef and Argument as immutable values with structural equality.

They mirror netdef.proto field by field. Repeated strings are tuples. ``Argument.floats``, ``.ints`` and ``.t`` are
read-only NumPy arrays, which may be views of the file they were read from, so that a net of any size takes little
memory and is cheap to copy.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.records import field, record, replace

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    Array = np.ndarray  # not subscriptable before NumPy 1.22
ArgumentValue = Union[float, int, str, bytes, Array, "NetDef", Sequence[Any]]

NARROW_TENSORS = "narrow_tensors"  # an argument of a net: small tensors may take fewer bytes in a file
_LONGEST_SHOWN = 120
_NO_FLOATS = np.zeros(0, np.float32)
_NO_INTS = np.zeros(0, np.int64)
_NO_FLOATS.flags.writeable = _NO_INTS.flags.writeable = False


def frozen(array: Array) -> Array:
    """A read-only view of ``array``."""
    view: Array = array.view()
    view.flags.writeable = False
    return view


def shown(name: str) -> str:
    """A name from a file, in a form that fits into a message of one line."""
    return name if name.isprintable() and len(name) <= _LONGEST_SHOWN else repr(name[:_LONGEST_SHOWN])


def _same(a: Any, b: Any) -> bool:
    """Whether two fields are equal bit for bit, so that NaN equals NaN."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(_bits(a) == _bits(b))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b)


def _bits(array: Array) -> Any:
    """The content of an array as an object that compares exactly; without a copy if possible."""
    if array.dtype == object:
        return array.tolist()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _digest(value: Any) -> Any:
    """A hashable digest, the same for equal fields; of an array only dtype and shape count, to be fast."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    return tuple(map(_digest, value)) if isinstance(value, tuple) else str(value) if value != value else value


Self = TypeVar("Self", bound="_Structural")


class _Structural:
    """Equality, hash and copies by the dataclass's fields, arrays included."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and all(map(_same, vars(self).values(), vars(other).values()))

    def __hash__(self) -> int:
        return hash(tuple(map(_digest, vars(self).values())))

    def replace(self: Self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[type-var]


@record(frozen=True, eq=False)
class Argument(_Structural):
    """A named argument. The field that is present determines its kind, as in Caffe2; see ``Argument.of``."""

    name: str = ""
    f: Optional[float] = None
    i: Optional[int] = None
    s: Optional[bytes] = None
    floats: Array = field(default_factory=lambda: _NO_FLOATS)
    ints: Array = field(default_factory=lambda: _NO_INTS)
    strings: tuple[bytes, ...] = ()
    n: Optional[NetDef] = None
    nets: tuple[NetDef, ...] = ()
    t: Optional[Array] = None
    tensors: tuple[Array, ...] = ()

    @staticmethod
    def of(name: str, value: ArgumentValue) -> Argument:
        """An argument whose kind follows from the type of ``value``; an array is ``t``, a list of numbers floats or
        ints."""
        if isinstance(value, (bool, int, np.integer, np.bool_)):
            return Argument(name, i=int(value))
        if isinstance(value, (float, np.floating)):
            return Argument(name, f=float(np.float32(value)))
        if isinstance(value, (str, bytes)):
            return Argument(name, s=_bytes(value))
        if isinstance(value, NetDef):
            return Argument(name, n=value)
        if isinstance(value, np.ndarray):
            return Argument(name, t=frozen(value))
        return _sequence_argument(name, list(value))

    @property
    def kind(self) -> str:
        """The name of the field that is present; "" if there is none, as for an empty list, which has no field on the
        wire."""
        for name in ("t", "f", "i", "s", "n"):
            if getattr(self, name) is not None:
                return name
        for name in ("floats", "ints", "strings", "nets", "tensors"):
            if len(getattr(self, name)):
                return name
        return ""


def _sequence_argument(name: str, items: list[Any]) -> Argument:
    if all(isinstance(item, (bool, int, np.integer, np.bool_)) for item in items):
        return Argument(name, ints=frozen(np.array(items, np.int64)))
    if all(isinstance(item, (int, float, np.integer, np.floating)) for item in items):
        return Argument(name, floats=frozen(np.array(items, np.float32)))
    if all(isinstance(item, (str, bytes)) for item in items):
        return Argument(name, strings=tuple(_bytes(item) for item in items))
    if all(isinstance(item, NetDef) for item in items):
        return Argument(name, nets=tuple(items))
    if all(isinstance(item, np.ndarray) for item in items):
        return Argument(name, tensors=tuple(frozen(item) for item in items))
    raise TypeError(f"argument {name!r}: a list must hold numbers, strings, nets or arrays of one kind")


def _bytes(value: Union[str, bytes]) -> bytes:
    return value.encode() if isinstance(value, str) else value


@record(frozen=True, eq=False)
class DeviceOption(_Structural):
    """The device on which Caffe2 would run an operator. It is kept but not used: armnet has one device."""

    device_type: int = 0
    device_id: Optional[int] = None
    random_seed: Optional[int] = None
    node_name: str = ""
    numa_node_id: Optional[int] = None
    extra_info: tuple[str, ...] = ()


@record(frozen=True, eq=False)
class OperatorDef(_Structural):
    """One operator: ``type(input...) -> output...`` with arguments.

    ``domain`` is "" for Caffe2's operators; otherwise it names the system whose semantics hold ("onnx",
    "com.microsoft", ...). The name of an input that is left out is empty. ``engine`` is a comma-separated list of
    preferences.

    Examples:
        >>> import armnet
        >>> op = armnet.OperatorDef.of("Conv", ["X", "W"], ["Y"], kernels=[3, 3])
        >>> op.signature(), list(op.get_ints("kernels"))
        ('Conv(X, W) -> Y', [3, 3])
    """

    type: str = ""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    arg: tuple[Argument, ...] = ()
    name: str = ""
    engine: str = ""
    domain: str = ""
    control_input: tuple[str, ...] = ()
    device_option: Optional[DeviceOption] = None
    is_gradient_op: bool = False
    debug_info: str = ""
    op_version: Optional[int] = None

    @staticmethod
    def of(
        type: str,
        input: Iterable[str],
        output: Iterable[str],
        *,
        engine: str = "",
        domain: str = "",
        name: str = "",
        **arguments: ArgumentValue,
    ) -> OperatorDef:
        """``OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, pads=[1, 1, 1, 1])``."""
        args = tuple(Argument.of(key, value) for key, value in arguments.items())
        return OperatorDef(type, tuple(input), tuple(output), args, name=name, engine=engine, domain=domain)

    @property
    def full_type(self) -> str:
        """The type after its domain, "onnx.Resize"; the type alone for Caffe2's operators."""
        return f"{self.domain}.{self.type}" if self.domain else self.type

    def signature(self) -> str:
        """``Conv(X, W) -> Y``; error messages start with it."""
        return f"{shown(self.full_type)}({', '.join(map(shown, self.input))}) -> {', '.join(map(shown, self.output))}"

    def argument(self, name: str) -> Optional[Argument]:
        """The first argument of that name, or None. Caffe2 and ``check`` refuse equal names with different values."""
        for arg in self.arg:
            if arg.name == name:
                return arg
        return None

    def has(self, name: str) -> bool:
        """Whether the argument is present."""
        return self.argument(name) is not None

    def _single(self, name: str, kind: str, default: Any) -> Any:
        arg = self.argument(name)
        if arg is None:
            if default is None:
                raise ArgumentError(self, f"argument {name!r} is required")
            return default
        value = getattr(arg, kind)
        if value is None:
            raise self._wrong_kind(arg, kind)
        return value

    def _wrong_kind(self, arg: Argument, kind: str) -> ArgumentError:
        return ArgumentError(self, f"argument {arg.name!r} must be given as {_KINDS[kind]}, got {_KINDS[arg.kind]}")

    def get_int(self, name: str, default: Optional[int] = None) -> int:
        """The integer argument, which is required if there is no default. A float is refused, as in Caffe2."""
        return int(self._single(name, "i", default))

    def get_bool(self, name: str, default: bool = False) -> bool:
        """The flag, stored as an integer."""
        return bool(self._single(name, "i", default))

    def get_float(self, name: str, default: Optional[float] = None) -> float:
        """The float argument; an integer is refused, as in Caffe2."""
        return float(self._single(name, "f", default))

    def get_str(self, name: str, default: Optional[str] = None) -> str:
        """The string argument, decoded as UTF-8."""
        value = self._single(name, "s", default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def get_net(self, name: str) -> NetDef:
        """The sub-net argument."""
        value: NetDef = self._single(name, "n", None)
        return value

    def get_tensor(self, name: str) -> Array:
        """The tensor argument (``Argument.t``)."""
        value: Array = self._single(name, "t", None)
        return value

    def _repeated(self, name: str, kind: str) -> Any:
        arg = self.argument(name)
        if arg is None:
            return ()
        if arg.kind not in (kind, ""):
            raise self._wrong_kind(arg, kind)
        return getattr(arg, kind)

    def get_ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """The list of integers; ``default`` where the argument is absent."""
        return tuple(int(v) for v in self._repeated(name, "ints")) if self.has(name) else tuple(default)

    def get_floats(self, name: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        """The list of floats, which may be a tensor of one dimension, for it takes fewer bytes; ``default`` where the
        argument is absent."""
        arg = self.argument(name)
        if arg is not None and arg.t is not None and arg.t.ndim == 1 and arg.t.dtype == np.float32:
            return tuple(arg.t.tolist())
        return tuple(float(v) for v in self._repeated(name, "floats")) if arg is not None else tuple(default)

    def get_strs(self, name: str) -> tuple[str, ...]:
        """The list of strings, decoded as UTF-8."""
        return tuple(v.decode("utf-8", "replace") for v in self._repeated(name, "strings"))

    def with_args(self, **arguments: Optional[ArgumentValue]) -> OperatorDef:
        """A copy with these arguments set; None removes one."""
        kept = tuple(arg for arg in self.arg if arg.name not in arguments)
        new = tuple(Argument.of(key, value) for key, value in arguments.items() if value is not None)
        return self.replace(arg=kept + new)

    def subnets(self) -> Iterator[NetDef]:
        """The nets among the arguments, in order, except the one that a RecurrentNetwork keeps for its gradient."""
        for arg in self.arg:
            if arg.name == "backward_step_net" and self.type != "RecurrentNetworkGradient":
                continue
            if arg.n is not None:
                yield arg.n
            yield from arg.nets

    def reads(self) -> tuple[str, ...]:
        """Every blob that the operator reads, each once: its inputs, and the blobs that its sub-nets take from
        outside."""
        names = dict.fromkeys(filter(None, self.input))
        for net in self.subnets():
            names.update(dict.fromkeys(net.captures()))
        return tuple(names)


_KINDS = {
    "f": "a float",
    "i": "an integer",
    "s": "a string",
    "n": "a net",
    "t": "a tensor",
    "floats": "a list of floats",
    "ints": "a list of integers",
    "strings": "a list of strings",
    "nets": "a list of nets",
    "tensors": "a list of tensors",
    "": "nothing",
}


@record(frozen=True, eq=False)
class NetDef(_Structural):
    """A net: operators in the order in which they run, and the blobs that enter and leave it.

    Examples:
        >>> import armnet
        >>> net = armnet.NetDef(op=(armnet.OperatorDef.of("Relu", ["X"], ["Y"]),), external_input=("X",))
        >>> armnet.NetDef.from_bytes(net.to_bytes()) == net
        True
    """

    name: str = ""
    op: tuple[OperatorDef, ...] = ()
    external_input: tuple[str, ...] = ()
    external_output: tuple[str, ...] = ()
    type: str = ""
    arg: tuple[Argument, ...] = ()
    num_workers: Optional[int] = None
    device_option: Optional[DeviceOption] = None

    @staticmethod
    def from_bytes(data: Union[bytes, bytearray, memoryview], source: str = "") -> NetDef:
        """The net in ``data``, in protobuf's wire format. FormatError, naming ``source``, if there is none.

        Arrays inside are views of ``data``, which must not change afterwards.
        """
        from runtime_arm.netdef import schema
        from runtime_arm.netdef.decoder import decode

        net: NetDef = decode(schema.NET, data, source)
        return net

    @staticmethod
    def from_text(text: str) -> NetDef:
        """The net in a text with one line for each operator; the inverse of ``to_text`` for nets without big arrays."""
        from runtime_arm.netdef.text_parser import parse_net

        return parse_net(text)

    @property
    def is_narrow(self) -> bool:
        """Whether the numbers of its small tensors may take fewer bytes in a file (``runtime_arm.netdef.narrow``)."""
        return any(arg.name == NARROW_TENSORS and arg.i for arg in self.arg)

    def to_bytes(self) -> bytes:
        """The net in protobuf's wire format, with repeated scalars as the schema declares them."""
        from runtime_arm.netdef.encoder import encode_net

        return b"".join(encode_net(self))

    def to_text(self) -> str:
        """The net as text, with a line for each operator: ``Conv(X, W, b) -> Y  engine=WINOGRAD  kernel=3``."""
        from runtime_arm.netdef.text import format_net

        return format_net(self)

    def check(self) -> NetDef:
        """The net itself. NetError if it cannot run; see ``runtime_arm.netdef.check``."""
        from runtime_arm.netdef.check import check_net

        check_net(self)
        return self

    def captures(self) -> tuple[str, ...]:
        """The blobs that come from outside: those that are read before the net writes them, in order of first use."""
        written: set[str] = set()
        wanted: dict[str, None] = {}
        for op in self.op:
            wanted.update(dict.fromkeys(name for name in op.reads() if name not in written))
            written.update(op.output)
        wanted.update(dict.fromkeys(name for name in self.external_output if name and name not in written))
        return tuple(wanted)


NetLike = Union[NetDef, bytes, str, "os.PathLike[str]"]
Feeds = Mapping[str, Array]
