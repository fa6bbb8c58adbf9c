"""The engines that an operator asks for or rules out: ``op.engine``, a comma-separated list, most wanted first.

    WINOGRAD                    this engine
    WINOGRAD:f4x4_3x3           one variant of it
    !WINOGRAD:f6x6_3x3          not this variant; !WINOGRAD: not this engine
    block=524288                a hint: bytes of the blocks that the engine works in
    panel=32                    a hint: columns of the panels into which it cuts a constant matrix; 0 leaves it whole
    DEVICE:winograd             on a device beside the processor, this way; the processor ignores it

Hints are measured on one machine; a hint that an engine does not use, or that makes no sense, is ignored. Unknown names
are ignored, as in Caffe2, which itself ignores every form but the first. Names that occur in real Caffe2 files stand
for the engine that takes their place here.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence

from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple

DEFAULT = "DEFAULT"
DEVICE = "DEVICE"  # stands for the device on which the net runs
BLOCK, PANEL = "block", "panel"
MOST_DIGITS = 9  # of a hint
ENGINE_ALIASES = {"": DEFAULT, "NNPACK": "WINOGRAD", "DEPTHWISE_3x3": "DEPTHWISE"}
NNPACK_ALGORITHMS = {"FT8": "FFT", "FT16": "FFT", "IMPLICIT_GEMM": "IM2COL", "DIRECT": "POINTWISE"}  # by ``algo``


class Preference(NamedTuple):
    """One name of the list; without a variant it means all variants."""

    engine: str
    variant: str = ""
    refused: bool = False

    @staticmethod
    def parse(text: str) -> Preference:
        refused = text.startswith("!")
        engine, _, variant = text.lstrip("!").partition(":")
        return Preference(ENGINE_ALIASES.get(engine.strip(), engine.strip()), variant.strip(), refused)

    def __str__(self) -> str:
        return f"{'!' * self.refused}{self.engine}{':' * bool(self.variant)}{self.variant}"


_ANY = Preference(DEFAULT)


def preferences(op: OperatorDef) -> List[Preference]:
    """The operator's list without its hints; DEFAULT alone if it is empty."""
    if not op.engine:
        return [_ANY]
    names = [name.strip() for name in op.engine.split(",") if "=" not in name] or [""]
    nnpack = NNPACK_ALGORITHMS.get(op.get_str("algo", "AUTO"), "NNPACK") if "NNPACK" in names else ""
    return [Preference.parse(nnpack if name == "NNPACK" else name) for name in names]


def hints(op: OperatorDef) -> List[str]:
    """The hints in the operator's list, as text."""
    return [name.strip() for name in op.engine.split(",") if "=" in name] if "=" in op.engine else []


def hint(op: OperatorDef, key: str) -> Optional[int]:
    """The first value of a hint in the operator's list; None if there is none or it is not a plain number."""
    for text in hints(op):
        name, _, value = text.partition("=")
        if name == key:
            is_plain = value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS
            return int(value) if is_plain else None
    return None


def wanted_engines(op: OperatorDef) -> Dict[str, str]:
    """The processor's engines that the operator asks for, most wanted first, each with the first variant named, or
    ""."""
    wanted: Dict[str, str] = {}
    for one in preferences(op):
        if not one.refused and one.engine != DEVICE:
            wanted.setdefault(one.engine, one.variant)
    return wanted


def is_refused(op: OperatorDef, engine: str) -> bool:
    """Whether the operator rules out the whole engine."""
    return "!" in op.engine and Preference(engine, refused=True) in preferences(op)


def open_variants(op: OperatorDef, engine: str, variants: Sequence[str]) -> List[str]:
    """The variants that an engine may choose among: the one that is asked for, or all that are not ruled out."""
    asked = wanted_engines(op).get(engine, "")
    refused = {one.variant for one in preferences(op) if one.refused and one.engine == engine}
    return [variant for variant in variants if variant not in refused and asked in ("", variant)]


def ruled_out(op: OperatorDef, engines: Iterable[Preference]) -> OperatorDef:
    """A copy of the operator that rules these out, too."""
    known = [name.strip() for name in op.engine.split(",") if name.strip()]
    refused = [str(one._replace(refused=True)) for one in engines]
    return op.replace(engine=",".join(dict.fromkeys([*known, *refused])))


def preferring(op: OperatorDef, engine: str) -> OperatorDef:
    """A copy of the operator that asks for this engine first."""
    return op.replace(engine=f"{engine},{op.engine}".rstrip(","))
