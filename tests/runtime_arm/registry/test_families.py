"""Families of operators are imported for the types that a net names; the table of families is complete."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from runtime_arm.registry.families import FAMILIES
from tests.support.paths import ROOT

# Prints, by domain and module, the types that the module declares or adds engines to while it is imported.
DECLARED = """
import json, sys
from collections import defaultdict
from runtime_arm.registry import schema as registry
from runtime_arm.registry.families import FAMILIES, load_domain

def importing():
    frame = sys._getframe(2)
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals["__name__"].partition(".")[2]

declare, kernel = registry._declare, registry.Operator.kernel
schemas, engines = [], []

def declare_noted(schema):
    schemas.append((importing(), schema))
    return declare(schema)

def kernel_noted(self, *arguments, **named):
    engines.append((importing(), self.kernels))
    return kernel(self, *arguments, **named)

registry._declare, registry.Operator.kernel = declare_noted, kernel_noted
for domain in FAMILIES:
    load_domain(domain)
found = {domain: defaultdict(set) for domain in FAMILIES}
for family, schema in schemas:
    found[schema.domain][family].add(schema.type)
for family, kernels in engines:
    for _, schema in schemas:
        if schema.kernels is kernels:  # aliases share them
            found[schema.domain][family].add(schema.type)
print(json.dumps({domain: {family: sorted(types) for family, types in found[domain].items()} for domain in found}))
"""

LOADED = """
import json, sys
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import find
assert find(OperatorDef.of(sys.argv[2], [], ["y"], domain=sys.argv[1])) is not None
print(json.dumps([name for name in sys.modules if name.startswith(("runtime_arm.operators.", "runtime_arm.engines."))]))
"""


def printed(program: str, *words: str) -> Any:
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_table_lists_what_every_family_declares() -> None:
    declared = printed(DECLARED)
    listed = {
        domain: {family: sorted(types.split()) for family, types in families.items()}
        for domain, families in FAMILIES.items()
    }
    wrong = [
        f'in domain "{domain}": "{family}": "{" ".join(types)}",'
        for domain, families in declared.items()
        for family, types in families.items()
        if listed[domain].get(family) != types
    ]
    assert wrong == [], "write into FAMILIES of runtime_arm/registry/families.py:\n" + "\n".join(wrong)
    assert {domain: set(families) for domain, families in listed.items()} == {
        domain: set(families) for domain, families in declared.items()
    }, "a family declares nothing there"


def test_a_type_loads_only_its_families() -> None:
    loaded = set(printed(LOADED, "", "Softmax"))
    assert "runtime_arm.operators.norm.softmax" in loaded
    assert len(loaded) < 12
    assert not any(name.startswith("runtime_arm.engines.") for name in loaded)


def test_a_type_loads_all_its_engines() -> None:
    loaded = set(printed(LOADED, "armnet", "FusedConv"))
    assert {f"runtime_arm.engines.conv.{name}" for name in ("depthwise", "im2col", "pointwise", "winograd")} <= loaded
    assert "runtime_arm.operators.recurrent.caffe2_units" not in loaded
