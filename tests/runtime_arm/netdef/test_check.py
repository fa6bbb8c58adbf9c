"""The structural check."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_arm.errors import NetError
from runtime_arm.netdef import NetDef
from runtime_arm.netdef.check import check_net

LEGAL = {
    "a chain": 'net "n": x -> z\nRelu(x) -> y\nRelu(y) -> z',
    "in place": 'net "n": x -> x\nRelu(x) -> x',
    "two producers of one name": 'net "n": x -> y\nRelu(x) -> y\nNeg(y) -> y\nAbs(x) -> y',
    "an output that is an input": 'net "n": x -> x',
    "an input that is left out": 'net "n": x -> y\nResize(x, "", x) -> y',
    "an output that is left out": 'net "n": x -> y\nTopK(x) -> "", y',
    "two outputs that are left out": 'net "n": x -> y\nTopK(x) -> "", "", y',
    "nothing written": 'net "n": x\nPrint(x)',
    "no external inputs": "Fill() -> w\nCopy(w) -> v",
    "a sub-net that reads outer names": 'net "n": x, c -> y\nIf(c) -> y  then_net={\nRelu(x) -> y\n}',
    "a sub-net with its own parameters": 'net "n": x -> y\nLoop(x) -> y  body={\nnet "b": i -> s\nAdd(i, x) -> s\n}',
    "a sub-net of Caffe2 that names an input twice": 'net "n": x\nF(x) -> y  net={\nnet "b": i, i\nAdd(i, x) -> s\n}',
    "the same argument twice": 'net "n": x -> y\nRelu(x) -> y  k=1  k=1',
    "an empty net": "",
}

ILLEGAL = [
    (
        'net "n": x -> y\nRelu(x) -> y\nConv(y, w) -> z',
        "net 'n': operator 1 Conv(y, w) -> z: reads 'w', which no operator writes, nor is it an external input",
    ),
    (
        'net "n": x -> y\nAdd(x, b) -> a\nRelu(a) -> b',
        "net 'n': operator 0 Add(x, b) -> a: reads 'b' before it exists; operator 1 Relu(a) -> b comes later",
    ),
    ("Relu(x) -> x", "net: operator 0 Relu(x) -> x: reads 'x' before it exists; it writes that blob itself"),
    ("Relu(x) -> y", "reads 'x', which no operator writes, and the net has no external inputs"),
    ('net "n": x -> z\nRelu(x) -> y', "net 'n': no operator writes the external output 'z'"),
    ('net "n": x, x -> x', "net 'n': external_input holds 'x' twice"),
    ('net "n": "" -> x', "net 'n': external_input holds an empty name"),
    ('net "n": x -> ""', "net 'n': external_output holds an empty name"),
    ('net "n": x\nSplit(x) -> y, y', "operator 0 Split(x) -> y, y: writes 'y' twice"),
    ('net "n": x\nConv(x) -> y  kernel=3  kernel=5', "argument 'kernel' is given twice with different values"),
    ('net "n": x\nNothing()', "the operator reads nothing and writes nothing"),
    ('net "n": x\n""(x) -> y', "the operator has no type"),
    (
        'net "n": x\nIf(x) -> y  then_net={\nRelu(w) -> y\n}',
        "operator 0 If(x) -> y: sub-net: operator 0 Relu(w) -> y: reads 'w'",
    ),
    (
        'net "n": x\nIf(x) -> y  then_net={\nnet "t": -> z\nRelu(x) -> y\n}',
        "sub-net 't': no operator writes the external output 'z'",
    ),
]


@pytest.mark.parametrize("case", LEGAL)
def test_nets_that_can_run_pass(case: str) -> None:
    net = NetDef.from_text(LEGAL[case])
    assert net.check() is net


@pytest.mark.parametrize(("text", "problem"), ILLEGAL)
def test_a_net_that_cannot_run_is_refused_with_operator_and_blob(text: str, problem: str) -> None:
    with pytest.raises(NetError) as caught:
        NetDef.from_text(text).check()
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_blobs_may_exist_before_the_net_runs() -> None:
    net = NetDef.from_text("Relu(x) -> y")
    check_net(net, known=["x"])
    with pytest.raises(NetError):
        check_net(net, known=["y"])


def test_names_that_break_lines_do_not_break_messages() -> None:
    with pytest.raises(NetError) as caught:
        NetDef.from_text('net "a\\nb": x\nRelu("y\\nz") -> "\\u0007"').check()
    assert len(str(caught.value).splitlines()) == 1


def test_real_nets_pass(shared: Path) -> None:
    files = [*(shared / "models" / "caffe2").glob("*/*.pb"), *(shared / "goldens" / "memonger").glob("*.pb")]
    assert files
    for file in files:
        NetDef.from_bytes(file.read_bytes(), str(file)).check()
