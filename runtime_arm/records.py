"""Classes of fields, as ``dataclasses`` and ``typing.NamedTuple`` make them, for classes that every start needs.

Those two take several times as long: one imports ``inspect``, and the other compiles every annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, replace
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _NamedTupleMeta(type):
        def __new__(mcs, name, bases, namespace):
            if not bases:
                return super().__new__(mcs, name, bases, namespace)
            names = list(namespace.get("__annotations__", ()))
            defaults = [namespace.pop(one) for one in names if one in namespace]
            made = namedtuple(name, names, defaults=defaults, module=namespace["__module__"])
            for key, value in namespace.items():
                if key not in ("__module__", "__qualname__"):
                    setattr(made, key, value)
            made.__qualname__ = namespace["__qualname__"]
            return made

    class NamedTuple(metaclass=_NamedTupleMeta):
        """A tuple whose elements have names, as ``typing.NamedTuple`` declares it."""

    class field:  # noqa: N801 - it stands for a function of that name
        """Options of a field: a function that makes its default for each object, and whether comparisons include it."""

        def __init__(self, *, default=..., default_factory=None, compare=True):
            self.default, self.make, self.compare = default, default_factory, compare

    def record(cls=None, *, frozen=False, eq=True, repr=True):
        """Decorator: the class gets the ``__init__`` of its annotated names, which calls ``__post_init__`` if there is
        one; with ``eq`` equality and, if it is frozen, a hash; with ``repr`` a text of its fields.

        It may not inherit from another record.
        """
        if cls is None:
            return lambda cls: record(cls, frozen=frozen, eq=eq, repr=repr)
        names = list(cls.__annotations__)
        special = {name: value for name in names if isinstance(value := cls.__dict__.get(name), field)}
        for name, found in special.items():
            delattr(cls, name)
            if found.make is None and found.default is not ...:
                setattr(cls, name, found.default)
        cls.__init__ = _init(cls, names, special)
        cls._fields = tuple(names)
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        if eq:
            _compare(cls, [name for name in names if name not in special or special[name].compare], frozen)
        if repr and "__repr__" not in cls.__dict__:
            cls.__repr__ = _shown
        return cls

    def _init(cls, names, special):
        given, lines, known = [], [], {"made": object()}
        for name in names:
            make = special[name].make if name in special else None
            if make is not None:
                known[f"make_{name}"] = make
                given.append(f"{name}=made")
                lines.append(f"fields[{name!r}] = make_{name}() if {name} is made else {name}")
                continue
            if name in cls.__dict__:
                known[f"default_{name}"] = cls.__dict__[name]
                given.append(f"{name}=default_{name}")
            else:
                given.append(name)
            lines.append(f"fields[{name!r}] = {name}")
        lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
        exec(f"def __init__(self, {', '.join(given)}):\n fields = self.__dict__\n " + "\n ".join(lines), known)
        known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
        return known["__init__"]

    def _compare(cls, names, frozen):
        def values(one):
            return tuple([getattr(one, name) for name in names])

        def equals(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        cls.__eq__ = equals
        cls.__hash__ = (lambda self: hash(values(self))) if frozen else None

    def _refuse(self, name, *value):
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def _shown(self):
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__qualname__}({fields})"

    def replace(one, **changes):
        """A copy with some fields changed."""
        return type(one)(**{**{name: getattr(one, name) for name in one._fields}, **changes})


__all__ = ["NamedTuple", "field", "record", "replace"]
