"""Checks that a net can run: every blob is written before it is read, every output is written."""

from __future__ import annotations

from typing import Iterable, NoReturn

from runtime_arm.errors import NetError
from runtime_arm.netdef.values import NetDef, OperatorDef


def check_net(net: NetDef, known: Iterable[str] = ()) -> None:
    """Raise NetError unless every blob is written or external before it is read, and every external output is written.

    ``known``: blobs that exist besides the net's external inputs. A net without external inputs may read only those.
    Writing a blob twice is legal (in place, or because a name is reused). Sub-nets see the names around them; names
    that occur only in the external_input of a sub-net are its formal parameters, which the operator binds: ONNX's by
    place, Caffe2's by name, so that its recurrent networks may hold a name twice.
    """
    _check(net, set(known), _title(net))


class _Where:
    """Which operator a message is about: its text, which takes longer than the checks, is made for messages alone."""

    def __init__(self, title: str, index: int, op: OperatorDef):
        self._title, self._index, self._op = title, index, op

    def __str__(self) -> str:
        return f"{self._title}: operator {self._index} {self._op.signature()}"


def _title(net: NetDef) -> str:
    return f"net {net.name!r}" if net.name else "net"


def _check(net: NetDef, known: set[str], title: str, by_place: bool = True) -> None:
    for kind, names in (("external_input", net.external_input), ("external_output", net.external_output)):
        if "" in names:
            raise NetError(f"{title}: {kind} holds an empty name")
    if by_place and len(set(net.external_input)) < len(net.external_input):
        twice = next(name for name in net.external_input if net.external_input.count(name) > 1)
        raise NetError(f"{title}: external_input holds {twice!r} twice")
    written = known | set(net.external_input)
    for index, op in enumerate(net.op):
        where = _Where(title, index, op)
        _check_operator(op, where)
        for name in op.input:
            if name and name not in written:
                _refuse_read(net, index, name, where)
        for sub in op.subnets():
            _check(sub, written, f"{where}: sub-{_title(sub)}", by_place=op.domain != "")
        written.update(op.output)
    for name in net.external_output:
        if name not in written:
            raise NetError(f"{title}: no operator writes the external output {name!r}")


def _check_operator(op: OperatorDef, where: _Where) -> None:
    if not op.type:
        raise NetError(f"{where}: the operator has no type")
    if not any(op.output) and not any(op.input) and next(op.subnets(), None) is None:
        raise NetError(f"{where}: the operator reads nothing and writes nothing")
    if len(op.output) > 1:
        names = [name for name in op.output if name]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise NetError(f"{where}: writes {twice!r} twice")
    if len(op.arg) > 1:
        first = {arg.name: arg for arg in reversed(op.arg)}
        for arg in op.arg:
            if arg is not first[arg.name] and arg != first[arg.name]:
                raise NetError(f"{where}: argument {arg.name!r} is given twice with different values")


def _refuse_read(net: NetDef, index: int, name: str, where: _Where) -> NoReturn:
    for later, op in enumerate(net.op[index:], index):
        if name in op.output:
            writer = (
                "it writes that blob itself" if later == index else f"operator {later} {op.signature()} comes later"
            )
            raise NetError(f"{where}: reads {name!r} before it exists; {writer}")
    hint = "nor is it an external input" if net.external_input else "and the net has no external inputs"
    raise NetError(f"{where}: reads {name!r}, which no operator writes, {hint}")
