"""The table of layers."""

from __future__ import annotations

import pytest

from optimize.quantization.table import Choice, check_layers, format_table, parse_table
from runtime_arm.errors import UsageError


def test_it_reads_what_it_writes() -> None:
    rows = [("Conv a b", Choice("int8", "int8")), ("FC c", Choice("float16", "float32"))]
    assert parse_table(format_table(rows)) == dict(rows)


def test_a_layer_of_several_weights_has_one_line() -> None:
    kept, packed = Choice("float32", "float32"), Choice("int8", "float32")
    text = format_table([("LSTM h", kept), ("FC c", packed), ("LSTM h", packed), ("LSTM h", kept)])
    assert parse_table(text) == {"LSTM h": packed, "FC c": packed}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("int8 int8", "line 1: expected"),
        ("\nint9 int8 Conv a", "line 2: weights can be"),
        ("int8 bool Conv a", "line 1: activations can be"),
        ("int8 int8 Conv a\nint8 int8 Conv a", "line 2: layer 'Conv a' has a line already"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_table(text)


def test_layers_that_do_not_exist_are_named() -> None:
    with pytest.raises(UsageError, match="'Conv b', which is no layer"):
        check_layers({"Conv b": Choice("int8", "float32")}, ["Conv a"])
