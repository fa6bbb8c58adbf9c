"""Engines: which kernel an operator shall run by."""

from __future__ import annotations

from dataclasses import replace

from runtime_arm.engine_names import ENGINE_ALIASES
from runtime_arm.errors import UsageError
from runtime_arm.netdef import NetDef
from runtime_arm.registry import REFERENCE, find, registered

AUTO = "auto"


def prefer_engines(net: NetDef, engines: str) -> NetDef:
    """The net whose operators prefer the engines of a comma-separated list, where they have one of them.

    "auto" leaves the choice to the runtime. An engine that refuses an operator is passed over when the net is planned.
    UsageError for an engine that no operator has.
    """
    if engines == AUTO:
        return net
    names = [name.strip() for name in engines.split(",")]
    known = {REFERENCE, *ENGINE_ALIASES, *(engine for schema in registered() for engine in schema.kernels)} - {""}
    for name in names:
        if name not in known:
            raise UsageError(f"no operator has an engine {name!r}; there are {', '.join(sorted(known))}")
    wanted = {ENGINE_ALIASES.get(name, name) for name in names}
    ops = []
    for op in net.op:
        schema = find(op)
        has_one = schema is not None and not wanted.isdisjoint([REFERENCE, *schema.kernels])
        ops.append(replace(op, engine=",".join(names)) if has_one else op)
    return net.replace(op=tuple(ops))
