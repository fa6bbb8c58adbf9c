"""Regular expressions that match in linear time, where Python's own may take exponential time.

All possible matches are followed at once, as by Thompson (Regular expression search algorithm, 1968). Python parses the
pattern; syntax that RE2 lacks, such as references to groups, is refused.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Callable, FrozenSet, Iterable, List, Optional, Sequence, Tuple

_parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

FEW_CHOICES = 3  # repetitions and alternatives, none within a repetition, with which Python's own takes little time
MOST_STEPS = 10_000
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_CHARACTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_KINDS = (*_REPEATS, *_CHARACTERS, "AT", "SUBPATTERN", "BRANCH")
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_CATEGORIES = {"DIGIT": frozenset("0123456789"), "SPACE": frozenset(" \t\n\r\f\v"), "WORD": _WORD}

Step = Tuple[str, Any]  # "char" and a test of it; "goto" and steps; "at" and a test of a place; "match"


def linear_expression(pattern: str, flags: int) -> Optional[LinearExpression]:
    """The expression if Python's own may take long for it or match otherwise, else None. ValueError if RE2 has no such
    expression."""
    tree = _parser.parse(pattern, flags)
    return LinearExpression(tree, tree.state.flags) if _choices(tree) > FEW_CHOICES else None


def _choices(tree: Any, repeated: bool = False) -> int:
    """How many repetitions and alternatives there are; many if one is within a repetition, and if there is a \\B, which
    an empty text has in RE2, but not in Python before 3.14."""
    count = 0
    for kind, value in tree:
        name = str(kind)
        if name not in _KINDS:
            raise ValueError(f"RE2 has no {name.lower()}")
        is_repeat, is_branch = name in _REPEATS, name == "BRANCH"
        if (is_repeat and value[0] != value[1]) or is_branch:
            count += FEW_CHOICES + 1 if repeated else 1
        if str(value) == "AT_NON_BOUNDARY":
            count += FEW_CHOICES + 1
        inner = [value[2]] if is_repeat else value[1] if is_branch else [value[-1]] if name == "SUBPATTERN" else []
        count += sum(_choices(one, repeated or (is_repeat and value[1] > 1)) for one in inner)
    return count


class LinearExpression:
    """An expression as steps; several are taken at once, each at most once a character."""

    def __init__(self, tree: Any, flags: int):
        self._steps: List[Step] = []
        self._add(tree, flags)
        self._emit("match", None)

    def fullmatch(self, text: str) -> bool:
        """Whether the text as a whole matches."""
        return self._longest(text, 0) == len(text)

    def search(self, text: str, start: int) -> Optional[Tuple[int, int]]:
        """Where the first match from ``start`` on begins and ends, the longest there."""
        ends = ((at, self._longest(text, at)) for at in range(start, len(text) + 1))
        return next(((at, end) for at, end in ends if end is not None), None)

    def _longest(self, text: str, at: int) -> Optional[int]:
        steps, taken, longest = self._steps, self._reached([0], text, at), None
        while taken:
            if len(steps) - 1 in taken:
                longest = at
            if at == len(text):
                break
            character = text[at]
            at += 1
            behind = [place + 1 for place in taken if steps[place][0] == "char" and steps[place][1](character)]
            taken = self._reached(behind, text, at)
        return longest

    def _reached(self, places: Iterable[int], text: str, at: int) -> FrozenSet[int]:
        """The steps to which those at ``places`` lead without a character."""
        waiting, seen = list(places), set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            kind, value = self._steps[place]
            if kind == "goto":
                waiting += value
            elif kind == "at" and value(text, at):
                waiting.append(place + 1)
        return frozenset(seen)

    def _emit(self, kind: str, value: Any) -> int:
        if len(self._steps) >= MOST_STEPS:
            raise ValueError("it has too many repetitions")
        self._steps.append((kind, value))
        return len(self._steps) - 1

    def _add(self, tree: Any, flags: int) -> None:
        for kind, value in tree:
            name = str(kind)
            if name in _CHARACTERS:
                self._emit("char", _test(name, value, flags))
            elif name == "AT":
                self._emit("at", _place(str(value), bool(flags & _parser.SRE_FLAG_MULTILINE)))
            elif name == "SUBPATTERN":
                self._add(value[3], (flags | value[1]) & ~value[2])
            elif name == "BRANCH":
                self._add_branches(value[1], flags)
            else:
                self._add_repeat(value, flags)

    def _add_branches(self, branches: Sequence[Any], flags: int) -> None:
        ends = []
        for branch in branches:
            fork = self._emit("goto", [])
            self._add(branch, flags)
            ends.append(self._emit("goto", []))
            self._steps[fork][1].extend([fork + 1, len(self._steps)] if branch is not branches[-1] else [fork + 1])
        for end in ends:
            self._steps[end][1].append(len(self._steps))

    def _add_repeat(self, repeat: Tuple[int, int, Any], flags: int) -> None:
        least, most, tree = repeat
        for _ in range(least):
            before = len(self._steps)
            self._add(tree, flags)
            if len(self._steps) == before:
                return
        if most == _parser.MAXREPEAT:
            fork = self._emit("goto", [])
            self._add(tree, flags)
            self._emit("goto", [fork])
            forks = [fork]
        else:
            forks = []
            for _ in range(most - least):
                forks.append(self._emit("goto", []))
                self._add(tree, flags)
        for fork in forks:
            self._steps[fork][1].extend([fork + 1, len(self._steps)])


def _test(name: str, value: Any, flags: int) -> Callable[[str], bool]:
    """Whether a character is one of a class."""
    if name == "ANY":
        return lambda character: bool(flags & _parser.SRE_FLAG_DOTALL) or character != "\n"
    items = [(str(kind), operand) for kind, operand in (value if name == "IN" else [("LITERAL", value)])]
    negated = name == "NOT_LITERAL" or items[0][0] == "NEGATE"
    ignores_case = bool(flags & _parser.SRE_FLAG_IGNORECASE)

    def test(character: str) -> bool:
        same = {character, character.lower(), character.upper()} if ignores_case and character.isascii() else character
        return negated != any(_is_among(kind, operand, one) for one in same for kind, operand in items)

    return test


def _is_among(kind: str, operand: Any, character: str) -> bool:
    if kind == "LITERAL":
        return bool(operand == ord(character))
    if kind == "RANGE":
        return bool(operand[0] <= ord(character) <= operand[1])
    if kind == "CATEGORY":
        _, *inverted, category = str(operand).split("_")
        return (character in _CATEGORIES[category]) != bool(inverted)
    return False


def _place(name: str, lines: bool) -> Callable[[str, int], bool]:
    """Whether a place is what ``name`` says: a beginning, an end or the bound of a word."""

    def is_bound(text: str, at: int) -> bool:
        return (text[at - 1 : at] in _WORD) != (text[at : at + 1] in _WORD)

    if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
        return lambda text, at: is_bound(text, at) == (name == "AT_BOUNDARY")
    if name.startswith("AT_BEGINNING"):
        whole = name == "AT_BEGINNING_STRING" or not lines
        return lambda text, at: at == 0 or (not whole and text[at - 1] == "\n")
    whole = name == "AT_END_STRING" or not lines
    return lambda text, at: at == len(text) or (not whole and text[at] == "\n")
