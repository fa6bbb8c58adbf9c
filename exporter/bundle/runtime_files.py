"""Which files of the runtime a bundle contains: all except the operators and engines that its nets do not need.

Three kinds of files are always left out: those for devices beside the processor, because a bundle runs on the CPU;
those that verify signatures, because a bundle cannot vouch for itself; and those that read and write pairs in zip
files, because a bundle holds its own pair.
"""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath
from typing import Dict, Iterable, Iterator, List, Set, Tuple

import runtime_arm
from runtime_arm.netdef import NetDef
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.registry.families import families_of
from runtime_arm.registry.schema import domain_of
from runtime_arm.results.decoders import DECODERS

ROOT = Path(runtime_arm.__file__).parent
SUFFIXES = (".py", ".desc")
FAMILIES = ("operators", "engines")  # folders whose files are taken as needed
TEACHING = "runtime_arm/app/teaching/command.py"  # what bundles that learn by themselves begin with
LEFT_OUT = ("gpu/", "pair/signatures/", "pair/places.py", "pair/zipped.py")  # folders and files that are not taken
ALWAYS_DECODED = ("classes", "tensors")  # what every net's outputs can be read as
_DECODERS, _TEACHING = "runtime_arm/results/decoders/", "runtime_arm/app/teaching/"
# Imported by gradient makers and by functions that are given pairs, none of which a bundle has, by bundles that learn,
# and by one decoder.
_ON_DEMAND = {
    "runtime_arm/pair/argument.py",
    "runtime_arm/registry/gradients.py",
    "runtime_arm/app/packing.py",
    "runtime_arm/results/cepstra.py",
}


def runtime_files(nets: Iterable[NetDef], decoders: Iterable[str] = (), more: Iterable[str] = ()) -> Dict[str, Path]:
    """The files by their path in the bundle: those that every net needs, those that the operators of these need, and
    the decoders of their results. more: files that are taken, too, with what they need."""
    files = {
        path.relative_to(ROOT.parent).as_posix(): path
        for path in sorted(ROOT.rglob("*"))
        if path.suffix in SUFFIXES and not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT)
    }
    optional = {
        name for name in files if name.split("/")[1] in FAMILIES or name.startswith((_DECODERS, _TEACHING))
    } | _ON_DEMAND
    pending = [name for name in files if name not in optional and name.endswith(".py")]
    pending += [
        name for net in nets for type in _types(net) for family in families_of(*type) for name in _files(family)
    ]
    pending += [f"{_DECODERS}{DECODERS[name].replace('.', '/')}.py" for name in (*decoders, *ALWAYS_DECODED)]
    pending += more
    needed: Set[str] = set()
    while pending:
        name = pending.pop()
        if name in files and name not in needed:
            needed.add(name)
            pending += _packages_around(name)
            pending += _uses(files[name])
    return {name: path for name, path in files.items() if name in needed or name not in optional}


def _types(net: NetDef) -> Iterator[Tuple[str, str]]:
    """Domain and type of every operator, sub-nets and the activations of fused operators included."""
    for op in net.op:
        yield domain_of(op), op.type
        activation = activation_of(op) if op.output and op.has("activation") else None
        if activation is not None:
            yield domain_of(activation), activation.type
        for sub in op.subnets():
            yield from _types(sub)


def _uses(path: Path) -> Iterator[str]:
    """The files that a module may import, and those of the operators that it requests by ``load_operator``."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _files(node.module)
            for alias in node.names:
                yield from _files(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_operator":
            words = [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]
            if len(words) == 2:
                for family in families_of(words[0], words[1]):
                    yield from _files(family)


def _files(module: str) -> Tuple[str, str]:
    """The two possible files of ``operators.conv`` or ``runtime_arm.operators.conv``: a module or a package."""
    prefix = "" if module.startswith(f"{ROOT.name}.") else f"{ROOT.name}/"
    path = f"{prefix}{module.replace('.', '/')}"
    return f"{path}.py", f"{path}/__init__.py"


def _packages_around(name: str) -> List[str]:
    """The ``__init__.py`` of every package that a file lies in."""
    return [f"{folder.as_posix()}/__init__.py" for folder in PurePosixPath(name).parents]
