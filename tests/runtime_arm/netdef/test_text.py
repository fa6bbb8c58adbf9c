"""The text form: how it looks, that it can be read back, and what its parser refuses."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import FormatError
from runtime_arm.netdef import Argument, DeviceOption, NetDef, OperatorDef
from tests.runtime_arm.netdef.strategies import nets, string_array

EXAMPLE = """\
net "digits" type="dag" num_workers=2 scale=0.5: data, conv1_w, conv1_b -> prob
Conv(data, conv1_w, conv1_b) -> conv1  engine=NNPACK,MOBILE  kernel=3  pads=[1, 1, 1, 1]  order="NCHW"  eps=1e-05
onnx.Resize(conv1, "", scales) -> up  name="resize"  "name"="argument"  sizes=[0.5, 2.0]
com.microsoft.QLinearAdd(up) -> "two words"  t=<float32 2x2: 1.0 -2.0 inf nan>  zero=<uint8: 3>  none=<int64 0:>
Print(conv1)
If(cond) -> prob  then_net={
  net "then": up -> prob
  Softmax(up) -> prob
}  else_net={
  Neg(up) -> prob
}  names=["a", b"\\xff"]  device=(device_type=1, extra_info=[x])
"""


def test_the_text_form_reads_back_as_it_was_written() -> None:
    net = NetDef.from_text(EXAMPLE)
    moved = EXAMPLE.replace('  names=["a", b"\\xff"]  device=(device_type=1, extra_info=[x])', "")
    head, device = "If(cond) -> prob  ", "device=(device_type=1, extra_info=[x])  "
    assert net.to_text() == moved.replace(head, head + device).replace("}\n", '}  names=["a", b"\\xff"]\n')
    assert NetDef.from_text(net.to_text()) == net


def test_the_text_form_is_read_as_documented() -> None:
    net = NetDef.from_text(EXAMPLE)
    assert (net.name, net.type, net.num_workers) == ("digits", "dag", 2)
    assert (net.external_input, net.external_output) == (("data", "conv1_w", "conv1_b"), ("prob",))
    conv, resize, add, _, branch = net.op
    expected = OperatorDef.of(
        "Conv",
        ["data", "conv1_w", "conv1_b"],
        ["conv1"],
        engine="NNPACK,MOBILE",
        kernel=3,
        pads=[1, 1, 1, 1],
        order="NCHW",
        eps=1e-5,
    )
    assert conv == expected
    assert (resize.domain, resize.type, resize.name) == ("onnx", "Resize", "resize")
    assert resize.input == ("conv1", "", "scales")
    assert resize.get_str("name") == "argument"
    assert resize.get_floats("sizes") == (0.5, 2.0)
    assert (add.domain, add.type, add.output) == ("com.microsoft", "QLinearAdd", ("two words",))
    np.testing.assert_array_equal(add.get_tensor("t"), np.array([[1, -2], [np.inf, np.nan]], np.float32))
    assert (add.get_tensor("zero").dtype, add.get_tensor("none").shape) == (np.uint8, (0,))
    softmax = OperatorDef("Softmax", ("up",), ("prob",))
    assert branch.get_net("then_net") == NetDef("then", (softmax,), ("up",), ("prob",))
    assert branch.argument("names") == Argument("names", strings=(b"a", b"\xff"))
    assert branch.device_option == DeviceOption(device_type=1, extra_info=("x",))


@given(nets)
@settings(max_examples=300)
def test_small_nets_survive_their_text(net: NetDef) -> None:
    assert NetDef.from_text(net.to_text()) == net


@given(st.text(st.sampled_from('net "aA1.:,->()[]{}<>=#\n\\x'), max_size=60))
@settings(max_examples=500)
def test_any_text_is_a_net_or_refused(text: str) -> None:
    with contextlib.suppress(FormatError):
        net = NetDef.from_text(text)
        assert NetDef.from_text(net.to_text()) == net


def test_comments_blank_lines_and_broken_lists_are_read() -> None:
    text = '\n# what it is\nnet "n": a,\n    b -> c  # outputs\n\nAdd(a, b) -> c\n\n'
    assert NetDef.from_text(text).to_text() == 'net "n": a, b -> c\nAdd(a, b) -> c\n'


def test_long_headers_are_broken_after_a_comma() -> None:
    net = NetDef("n", external_input=tuple(f"input_{index}" for index in range(40)), external_output=("y",))
    lines = net.to_text().splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 120
    assert NetDef.from_text(net.to_text()) == net


def test_big_arrays_are_summarised_and_not_read_back() -> None:
    op = OperatorDef(
        "Fill",
        (),
        ("w",),
        (
            Argument("t", t=np.zeros((64, 3, 3, 3), np.float32)),
            Argument("floats", floats=np.zeros(65, np.float32)),
            Argument("ints", ints=np.zeros(4096, np.int64)),
            Argument("s", t=string_array([b"x"] * 17)),
        ),
    )
    text = NetDef(op=(op,)).to_text()
    assert text == "Fill() -> w  t=<float32 64x3x3x3>  floats=<floats 65>  ints=<ints 4096>  s=<string 17>\n"
    for summary in text.split("  ")[1:]:
        with pytest.raises(FormatError, match="summar"):
            NetDef.from_text(f"Fill() -> w  {summary}")


def test_an_empty_device_option_is_left_out() -> None:
    op = OperatorDef("Relu", ("x",), ("y",), device_option=DeviceOption())
    assert NetDef(op=(op,)).to_text() == "Relu(x) -> y\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Conv(", "line 1: expected ), found the end"),
        ("Conv(a\n) -> b", "line 1: expected ), found the end of the line"),
        ("\nConv(a) b", "line 2: expected =, found the end"),
        ("Relu(a) -> b}", "line 1: expected the end of the line, found '}'"),
        ("Relu(a) -> b order=NCHW", "a string in quotes, a list, a tensor or a block, found 'NCHW'"),
        ("Relu(a) -> b x=9223372036854775808", "between -9223372036854775808 and 9223372036854775807"),
        ("Relu(a) -> b x=1e39", "a value of float32, found '1e39'"),
        ('Relu(a) -> b x=[1, "a"]', "a list must hold numbers, strings, nets or arrays of one kind"),
        ("Relu(a) -> b x=<float32 3: 1.0>", "shape [3] does not hold 1 elements"),
        ("Relu(a) -> b x=<uint8 1: 256>", "between 0 and 255, found '256'"),
        ("Relu(a) -> b x=<int8 1: 1.5>", "a value of int8, found '1.5'"),
        ("Relu(a) -> b x=<complex64 1: 1>", "one of float16,"),
        ("Relu(a) -> b x=<float32 axb: 1>", "a shape such as 2x3"),
        ("Relu(a) -> b x=<int8 0x99999999999999999999:>", "does not hold 0 elements"),
        ('Relu(a) -> b x="\\q"', "a string in quotes with valid escapes"),
        ("Relu(a) -> b device=(speed=1)", "a field of a device option, found 'speed'"),
        ("Relu(a) -> b x=" + "[" * 100, "64 deep"),
        ('net "n": a -> b -> c', "the end of the line"),
        ("a.b.(x)", "an operator, found 'a.b.'"),
        ('Relu(a) -> b name=b"x"', "a string of characters"),
        ('Relu("a', "cannot read '\"a'"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        NetDef.from_text(text)
    assert problem in str(caught.value)
