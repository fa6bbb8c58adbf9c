from __future__ import annotations

from typing import Any, List

import pytest

from runtime_arm.app.command_line import Parser


@pytest.mark.parametrize("default", [None, []])
def test_words_of_an_option_that_is_given_twice_are_gathered(default: Any) -> None:
    parser = Parser()
    group = parser.add_subparsers().add_parser("run").add_argument_group("inputs")
    group.add_argument("--input", nargs="+", default=default)
    group.add_argument("--mean", nargs="+", type=float)
    group.add_argument("--top", type=int, default=5)

    def given(*words: str) -> List[Any]:
        args = parser.parse_args(["run", *words])
        return [args.input, args.mean, args.top]

    assert given() == [default, None, 5]
    assert given("--input", "a=1", "b=2", "--top", "1", "--input", "c=3") == [["a=1", "b=2", "c=3"], None, 1]
    assert given("--mean", "1", "2", "--mean", "3", "--top", "1", "--top", "2") == [default, [3.0], 2]
