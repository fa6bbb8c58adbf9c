"""The table of layers: what each layer's weights and activations are stored in, as text that is edited by hand.

    # weights  activations  layer
    int8       float32      Conv conv1
    float32    float32      FC fc8

A layer is an operator that multiplies by a constant weight; its name is its type and its first output. Blank lines and
what follows a # at the start of a line do not count. A line says everything about its layer; layers without a line
have what ``quantize`` was asked for.
"""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, NamedTuple, Tuple

from optimize.quantization.packing.formats import FLOAT32, check_format
from runtime_arm.errors import UsageError

DYNAMIC = "dynamic"  # quantised while the net runs
ACTIVATIONS = ("float32", DYNAMIC, "int8", "int16")


class Choice(NamedTuple):
    """What a layer is stored and computed in."""

    weights: str
    activations: str


Table = Mapping[str, Choice]  # by layer


def parse_table(text: str, source: str = "table") -> Dict[str, Choice]:
    """The choices of a table. UsageError, naming the line, for one that cannot be read."""
    choices: Dict[str, Choice] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = line.split(None, 2)
        where = f"{source}, line {number}"
        if len(fields) < 3:
            raise UsageError(f"{where}: expected weights, activations and a layer, got {line.strip()[:100]!r}")
        weights, activations, layer = fields[0], fields[1], fields[2].rstrip()
        try:
            check_format(weights)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        if activations not in ACTIVATIONS:
            raise UsageError(f"{where}: activations can be {', '.join(ACTIVATIONS)}; got {activations!r}")
        if layer in choices:
            raise UsageError(f"{where}: layer {layer!r} has a line already")
        choices[layer] = Choice(weights, activations)
    return choices


def format_table(rows: Iterable[Tuple[str, Choice]]) -> str:
    """The table as text, a line a layer. Of a layer of several weights, those that stayed float do not decide."""
    chosen: Dict[str, Choice] = {}
    for layer, choice in rows:
        if chosen.get(layer, Choice(FLOAT32, FLOAT32)) == Choice(FLOAT32, FLOAT32):
            chosen[layer] = choice
    lines = ["# weights  activations  layer"]
    lines += [f"{choice.weights:<10} {choice.activations:<12} {layer}" for layer, choice in chosen.items()]
    return "\n".join(lines) + "\n"


def check_layers(table: Table, layers: Iterable[str]) -> None:
    """UsageError if the table names a layer that does not exist."""
    known = set(layers)
    unknown = [layer for layer in table if layer not in known]
    if unknown:
        some = ", ".join(sorted(known)[:5])
        raise UsageError(f"the table names {unknown[0]!r}, which is no layer of this net; layers are {some}, ...")
