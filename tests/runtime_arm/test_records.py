"""Records behave as dataclasses and typing's named tuples do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from typing import Any, Dict, List, Tuple

import pytest

from runtime_arm.records import NamedTuple, field, record, replace


def _class(decorate: Any, made: Any, **options: Any) -> Any:
    class Thing:
        """A thing."""

        a: int
        b: str = "b"
        c: List[int] = made(default_factory=list)
        d: float = made(default=0.5, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.a + len(self.b))

    return decorate(**options)(Thing)


@pytest.fixture(params=[{"frozen": True}, {"frozen": True, "eq": False}, {"eq": False, "repr": False}, {}], ids=str)
def pair(request: pytest.FixtureRequest) -> Tuple[Any, Any]:
    """A record and the dataclass that it stands for."""
    return _class(record, field, **request.param), _class(dataclasses.dataclass, dataclasses.field, **request.param)


def _seen(make: Any) -> List[Any]:
    one, other, third = make(1), make(a=1, b="b", c=[], d=2.0), make(2, "x", [3])
    copied = copy.copy(third)
    return [
        *(sorted(vars(thing).items()) for thing in (one, other, third, copied)),
        [one == other, one == third, one != third, one == 5],
        one.c is not other.c,
        repr(third) if make.__repr__ is not object.__repr__ else "",
        [_outcome(lambda: hash(one)), _outcome(lambda: setattr(one, "a", 5)), _outcome(lambda: delattr(one, "b"))],
        [_outcome(lambda: make()), _outcome(lambda: make(1, e=2)), _outcome(lambda: make(1, "b", [], 1.0, 2))],
        make.__doc__,
    ]


def _outcome(call: Any) -> Any:
    try:
        call()
    except Exception as error:
        return AttributeError if isinstance(error, AttributeError) else type(error)
    return None


def test_a_record_is_what_a_dataclass_is(pair: Tuple[Any, Any]) -> None:
    ours, theirs = pair
    assert _seen(ours) == _seen(theirs)


def test_a_replaced_field_is_the_only_one_that_changes(pair: Tuple[Any, Any]) -> None:
    ours, theirs = pair
    assert vars(replace(ours(1, "long"), a=7)) == vars(dataclasses.replace(theirs(1, "long"), a=7))
    with pytest.raises(TypeError):
        replace(ours(1), e=5)


class Point(NamedTuple):
    """A point."""

    x: int
    y: int = 2

    @property
    def both(self) -> int:
        return self.x + self.y

    @classmethod
    def of(cls, x: int) -> Point:
        return cls(x)


class TheirPoint(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2


def test_a_named_tuple_is_what_typings_is() -> None:
    def seen(make: Any) -> Dict[str, Any]:
        return {
            "values": [make(1), make(x=1, y=3), make(1)._replace(y=5)],
            "dict": make(1)._asdict(),
            "fields": (make._fields, make._field_defaults, make.__doc__, make.__module__),
            "errors": [_outcome(lambda: make()), _outcome(lambda: setattr(make(1), "x", 2))],
            "kinds": (issubclass(make, tuple), isinstance(make(1), tuple), hash(make(1)) == hash((1, 2))),
        }

    assert seen(Point) == seen(TheirPoint)
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert Point.of(4).both == 6
    assert pickle.loads(pickle.dumps(Point(1, 5))) == Point(1, 5)
