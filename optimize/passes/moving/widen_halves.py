"""Lets operators on float16 for which no kernel is fast compute on float32, between conversions.

BLAS multiplies no halves, so a network of them would run by reference kernels. From one such operator to the next, also
if elements are only moved in between, numbers stay float32 and are not rounded to halves. onnxruntime runs such
networks in the same way. Weights stay halves in the pair.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule, merged
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import DataDependent, Operator, find
from runtime_arm.registry.specs import TensorSpec

_HALF, _FLOAT = np.dtype(np.float16), np.dtype(np.float32)
_CONVERSIONS = ("FloatToHalf", "HalfToFloat")
MaybeSpecs = Sequence[Optional[TensorSpec]]
Test = Callable[[Program, Operator, OperatorDef], bool]


def _specs(program: Program, op: OperatorDef) -> List[Optional[TensorSpec]]:
    """What is known of the operands, for the first choice of open sizes."""
    return [program.known_specs[0].get(name) if name else None for name in op.input]


def _is_half(spec: Optional[TensorSpec]) -> bool:
    return spec is not None and spec.dtype == _HALF


def _wide(spec: Optional[TensorSpec]) -> Optional[TensorSpec]:
    if spec is None or spec.dtype != _HALF:
        return spec
    return TensorSpec(spec.shape, _FLOAT, None if spec.value is None else spec.value.astype(_FLOAT))


def _on_halves(test: Test) -> Callable[[Program, int], Iterator[Match]]:
    """Finds operators that read halves, and nothing unknown, and for which the test holds."""

    def matches(program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            op = program.net.op[place]
            schema = find(op)
            if schema is None or schema.control or not schema.pure or op.full_type in _CONVERSIONS:
                continue
            given = _specs(program, op)
            known = all(spec is not None for name, spec in zip(op.input, given) if name)
            if known and any(map(_is_half, given)) and test(program, schema, op):
                yield Match((place,))

    return matches


def _gains(program: Program, schema: Operator, op: OperatorDef) -> bool:
    """Whether there is a kernel for it in float32 but none in float16."""
    given = _specs(program, op)
    with suppress(ArmnetError, DataDependent):
        if schema.view or schema.choose(op, given, schema.infer(op, given))[0] is not None:
            return False
        wide = [_wide(spec) for spec in given]
        return _widens(program, schema, op, given) and schema.choose(op, wide, schema.infer(op, wide))[0] is not None
    return False


def _follows(program: Program, schema: Operator, op: OperatorDef) -> bool:
    """Whether an operator reads what was float32 a moment before, and takes that as well. It does not if more halves,
    such as a cache of keys, would have to be converted for it alone."""
    wide = halves = 0
    for name, spec in zip(op.input, _specs(program, op)):
        if spec is None or spec.dtype != _HALF or name in program.weights:
            continue
        place = program.writer(name)
        if place is not None and program.net.op[place].full_type == "FloatToHalf":
            wide += spec.size
        else:
            halves += spec.size
    if not wide or halves > wide:
        return False
    with suppress(ArmnetError, DataDependent):
        return _widens(program, schema, op, _specs(program, op))
    return False


def _widens(program: Program, schema: Operator, op: OperatorDef, given: MaybeSpecs) -> bool:
    """Whether an operator gives halves, and gives the same in float32 if its inputs are float32. Integer outputs could
    differ by one; they do not matter if nobody reads them.
    """
    read = [bool(program.readers(name)) or name in program.net.external_output for name in op.output]
    outputs, results = schema.infer(op, given), schema.infer(op, [_wide(spec) for spec in given])
    return all(
        wide.shape == spec.shape and wide.dtype == _FLOAT if _is_half(spec) else wide == spec and not matters
        for spec, wide, matters in zip(outputs, results, read)
    )


def _widen(program: Program, match: Match) -> Rewrite:
    (op,) = program.operators(match)
    given = _specs(program, op)
    schema = find(op)
    assert schema is not None
    halves = [name for name, spec in zip(op.input, given) if _is_half(spec)]
    inputs = {name: program.fresh(f"{name}_wide") for name in halves}
    outputs: Dict[str, str] = {
        name: program.fresh(f"{name}_wide")
        for name, spec in zip(op.output, schema.infer(op, given))
        if name and _is_half(spec)
    }
    inner = op.replace(
        input=tuple(inputs.get(name, name) for name in op.input),
        output=tuple(outputs.get(name, name) for name in op.output),
    )
    return Rewrite(
        (
            *(OperatorDef.of("HalfToFloat", [name], [wide]) for name, wide in inputs.items()),
            inner,
            *(OperatorDef.of("FloatToHalf", [wide], [name]) for name, wide in outputs.items()),
        )
    )


def _there_and_back(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        writer = program.writer(op.input[0]) if op.full_type == "HalfToFloat" else None
        if writer is not None and program.net.op[writer].full_type == "FloatToHalf":
            yield Match((place,))


def _stay(program: Program, match: Match) -> Rewrite:
    (op,) = program.operators(match)
    writer = program.writer(op.input[0])
    assert writer is not None
    return Rewrite(rename=merged(program, op.output[0], program.net.op[writer].input[0]))


PASS = Pass(
    "widen_halves",
    (Rule(_on_halves(_gains), _widen), Rule(_there_and_back, _stay), Rule(_on_halves(_follows), _widen)),
)
