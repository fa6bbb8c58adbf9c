"""ONNX's operators on strings: what ONNX's own test cases leave out, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.onnx_nodes import onnxruntime_outputs


def computed(op: OperatorDef, *inputs: Any) -> Any:
    workspace = Workspace()
    for name, value in zip(op.input, inputs):
        workspace.feed(name, np.array(value, object))
    workspace.run_net_once(NetDef("net", (op,), external_input=op.input, external_output=op.output))
    return [workspace.fetch(name) for name in op.output]


def op_of(type: str, inputs: str = "X", outputs: str = "Y", **attributes: Any) -> OperatorDef:
    return OperatorDef.of(type, inputs.split(), outputs.split(), domain="onnx", **attributes)


def test_bytes_that_are_not_utf8_are_kept() -> None:
    (joined,) = computed(op_of("StringConcat", "X B"), [b"\xff", "ü".encode()], [b"\xc3", b"!"])
    assert joined.tolist() == [b"\xff\xc3", "ü!".encode()]


PATTERNS = [r"\w+", r"[\w ]+", r"\D+", r".+\b", r"(?i)CAFE.*", r"a\sb", r"a\Sb", r"a[\sx]b", r"a[^\s]b", r"a[\S]b"]
PATTERNS += [r"a[-\s]b", r"a$\n", r"(?m)a$\n", r"a[$]b", r"a\$b", r"x{,2}", r"x{1,2}", r"[{,2}]b", r"[]a$]+b", r"\\$"]
TEXTS = ["cafe", "café", "a b", "٣", "7", ""]
TEXTS += ["a\vb", "a\n", "a", "a$b", "x", "xx", "x{,2}", "$b", "a-b", "a\tb", "\\", "axb"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_expressions_match_as_in_onnxruntime(pattern: str) -> None:
    op, texts = op_of("RegexFullMatch", pattern=pattern), TEXTS
    (expected,) = onnxruntime_outputs(op, [np.array(texts, object)], [np.bool_])
    assert computed(op, [text.encode() for text in texts])[0].tolist() == expected.tolist()


def test_blank_strings_have_no_pieces() -> None:
    pieces, counts = computed(op_of("StringSplit", outputs="Y Z"), [b"", b"  ", b" a  b "])
    assert pieces.tolist() == [[b"", b""], [b"", b""], [b"a", b"b"]]
    assert counts.tolist() == [0, 0, 2]


def test_stop_words_match_in_any_case_unless_case_sensitive() -> None:
    words = [b"The", b"the", b"cat"]
    assert computed(op_of("StringNormalizer", stopwords=["the"]), words)[0].tolist() == [b"cat"]
    kept = op_of("StringNormalizer", stopwords=["the"], is_case_sensitive=1, case_change_action="UPPER")
    assert computed(kept, words)[0].tolist() == [b"THE", b"CAT"]


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (op_of("RegexFullMatch", pattern="(a"), "cannot be used as a regular expression"),
        (op_of("RegexFullMatch", pattern="[[:alpha:]]"), "classes of POSIX"),
        (op_of("RegexFullMatch", pattern="(?i)é"), "letters beyond ASCII"),
        (op_of("RegexFullMatch", pattern="(?u)a"), "cannot be used as a regular expression"),
        (op_of("StringNormalizer", case_change_action="TITLE"), "case_change_action must be one of NONE, LOWER, UPPER"),
    ],
)
def test_refuses(op: OperatorDef, rule: str) -> None:
    with pytest.raises(ArmnetError, match=rule):
        computed(op, [b"a"])
