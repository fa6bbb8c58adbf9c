"""The tiers hold every pass that there is."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import optimize.passes
from optimize import pipeline


def test_every_pass_has_its_place() -> None:
    modules = [import_module(one.name) for one in walk_packages(optimize.passes.__path__, "optimize.passes.")]
    passes = {module.PASS.name for module in modules if hasattr(module, "PASS")}
    assert len(passes) > 30
    tiers = (*pipeline.UNTANGLING, *pipeline.INTEGERS, pipeline.HALVES, *pipeline.ALL)
    assert sorted(passes - {one.name for one in tiers}) == [], "give it a place in optimize/pipeline.py"
