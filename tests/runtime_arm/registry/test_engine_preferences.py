"""The engines that an operator asks for, and the one that runs it."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.engine_preferences import Preference, hint, open_variants, preferences, wanted_engines
from runtime_arm.registry.kernel import Kernel, Work, choose
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec

VARIANTS = ("f2x2_3x3", "f4x4_3x3", "f6x6_3x3")


def op_with(engine: str) -> OperatorDef:
    return OperatorDef.of("Conv", ["x", "w"], ["y"], engine=engine, kernel=3)


@pytest.mark.parametrize(
    ("text", "preference"),
    [
        ("WINOGRAD", Preference("WINOGRAD")),
        (" WINOGRAD : f4x4_3x3", Preference("WINOGRAD", "f4x4_3x3")),
        ("!WINOGRAD:f6x6_3x3", Preference("WINOGRAD", "f6x6_3x3", True)),
        ("NNPACK", Preference("WINOGRAD")),
        ("", Preference("DEFAULT")),
    ],
)
def test_a_name_is_read(text: str, preference: Preference) -> None:
    assert preferences(op_with(text)) == [preference]
    assert text in ("", "NNPACK") or str(preference) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("algorithm", "engine"),
    [
        ("AUTO", "WINOGRAD"),
        ("WINOGRAD", "WINOGRAD"),
        ("FT8", "FFT"),
        ("FT16", "FFT"),
        ("IMPLICIT_GEMM", "IM2COL"),
        ("DIRECT", "POINTWISE"),
    ],
)
def test_nnpack_stands_for_the_engine_of_its_algorithm(algorithm: str, engine: str) -> None:
    assert list(wanted_engines(op_with("NNPACK,MOBILE").with_args(algo=algorithm))) == [engine, "MOBILE"]
    assert list(wanted_engines(op_with("BLOCK").with_args(algo=algorithm))) == ["BLOCK"]


@pytest.mark.parametrize(
    ("engine", "block", "panel", "wanted"),
    [
        ("", None, None, {"DEFAULT": ""}),
        ("block=524288", 524288, None, {"DEFAULT": ""}),
        ("WINOGRAD:f4x4_3x3, block=524288 ,panel=0,!GEMM", 524288, 0, {"WINOGRAD": "f4x4_3x3"}),
        ("panel=32,panel=64,block=many", None, 32, {"DEFAULT": ""}),
        ("BLOCK", None, None, {"BLOCK": ""}),
    ],
)
def test_hints_are_read_and_are_not_engines(engine: str, block: Any, panel: Any, wanted: Any) -> None:
    op = op_with(engine)
    assert (hint(op, "block"), hint(op, "panel"), wanted_engines(op)) == (block, panel, wanted)


def test_a_list_is_read_most_wanted_first() -> None:
    op = op_with("DEPTHWISE_3x3,NNPACK,WINOGRAD:f2x2_3x3,!GEMM")
    assert wanted_engines(op) == {"DEPTHWISE": "", "WINOGRAD": ""}


@pytest.mark.parametrize(
    ("engine", "left"),
    [
        ("", VARIANTS),
        ("IM2COL", VARIANTS),
        ("WINOGRAD:f4x4_3x3", VARIANTS[1:2]),
        ("!WINOGRAD:f6x6_3x3", VARIANTS[:2]),
        ("WINOGRAD:f9x9_3x3", ()),
        ("!WINOGRAD:f6x6_3x3,!WINOGRAD:f4x4_3x3", VARIANTS[:1]),
    ],
)
def test_variants_that_are_allowed(engine: str, left: Tuple[str, ...]) -> None:
    assert tuple(open_variants(op_with(engine), "WINOGRAD", VARIANTS)) == left


def kernels() -> Dict[str, Kernel]:
    """A kernel that refuses, two that estimate their work, and one that does not."""

    def kernel(engine: str, **rest: object) -> Kernel:
        return Kernel(engine, lambda call: lambda: None, **rest)  # type: ignore[arg-type]

    return {
        "NEVER": kernel("NEVER", supports=lambda op, inputs, outputs: "not today"),
        "DEAR": kernel("DEAR", work=lambda op, inputs, outputs: Work(100, 10), variants=("a", "b")),
        "SILENT": kernel("SILENT"),
        "CHEAP": kernel("CHEAP", work=lambda op, inputs, outputs: Work(100)),
    }


@pytest.mark.parametrize(
    ("engine", "chosen"),
    [
        ("", "CHEAP"),
        ("DEAR", "DEAR"),
        ("DEAR:b", "DEAR"),
        ("DEAR:c", "SILENT"),
        ("NEVER,DEAR", "DEAR"),
        ("!CHEAP", "DEAR"),
        ("!DEAR,!CHEAP", "SILENT"),
        ("!DEAR:a,!DEAR:b", "SILENT"),
        ("SILENT", "SILENT"),
        ("REFERENCE", None),
        ("block=65536", "CHEAP"),
        ("block=65536,SILENT", "SILENT"),
        ("!DEAR,!CHEAP,!SILENT", None),
        ("WARP", "CHEAP"),
    ],
)
def test_the_chosen_engine(engine: str, chosen: object) -> None:
    kernel, _ = choose(kernels(), op_with(engine), [], [])
    assert (kernel and kernel.engine) == chosen


def test_the_reasons_against_the_other_engines() -> None:
    _, refusals = choose(kernels(), op_with("WARP"), [], [])
    assert refusals == {
        "WARP": "no such engine for this operator",
        "NEVER": "not today",
        "DEAR": "it takes the time of 110 multiplies, CHEAP that of 100",
    }
    _, refusals = choose(kernels(), op_with("!CHEAP,!SILENT,!DEAR:b,!DEAR:a"), [], [])
    assert refusals["CHEAP"] == "the operator rules it out"
    assert refusals["DEAR"] == "the operator leaves none of its variants a, b open"


def test_every_engine_that_estimates_its_work_does_so_for_a_real_layer() -> None:
    x, w = TensorSpec((1, 64, 28, 28), "float32"), TensorSpec.known(np.ones((64, 64, 3, 3), np.float32))
    op = op_with("").with_args(pad=1)
    schema = lookup(op)
    outputs = schema.infer(op, [x, w])
    costs = {
        engine: kernel.work(op, [x, w], outputs)
        for engine, kernel in schema.kernels.items()
        if kernel.work and kernel.refusal(op, [x, w], outputs) is None
    }
    assert costs["IM2COL"].multiplies >= 28 * 28 * 64 * 64 * 9
    assert costs["WINOGRAD"].multiplies < costs["IM2COL"].multiplies / 2
    assert costs["WINOGRAD"].error > costs["IM2COL"].error == 1
