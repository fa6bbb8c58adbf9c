"""Every message is one line, whatever a file or another library puts into it."""

from __future__ import annotations

import pickle

import pytest

from runtime_arm.errors import ArgumentError, ArmnetError, FormatError, first_line
from runtime_arm.netdef import OperatorDef


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a\nb", r"a\nb"), ("a\x1b[1m\x85\u2028", r"a\x1b[1m\x85\u2028"), ("Größe: é", "Größe: é"), ("", "")],
)
def test_what_is_not_printable_is_escaped(given: str, shown: str) -> None:
    assert str(FormatError(given)) == shown


def test_an_operator_is_named_in_one_line_and_survives_pickling() -> None:
    op = OperatorDef.of("Con\nv", ["x\r"], ["y"])
    error = pickle.loads(pickle.dumps(ArgumentError(op, "no kernel\ngiven")))
    assert (error.op, error.rule) == (op, "no kernel\ngiven")
    assert str(error).isprintable()


def test_of_another_librarys_message_the_first_line_counts() -> None:
    assert first_line(ValueError("\n  \nwhat\nwhere")) == "what"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("x" * 9999))) == 300
    assert str(ArmnetError()) == ""
