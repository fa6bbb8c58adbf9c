"""Functions of one number between DequantizeLinear and QuantizeLinear become one table of 256 integers."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np

from optimize.passes.integers.quantised import DEQUANTIZE, QUANTIZE, Integers, Quantised
from optimize.rewriting.operator_types import TypesWhose
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, merged, source
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.tables import table_of
from runtime_arm.operators.quantised.parameters import Parameters, dequantized, quantized
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

FUNCTIONS = TypesWhose(lambda schema: schema.kind is Kind.ELEMENTWISE and schema.pure and not schema.control)
MOST_OPERATORS = 16  # of one function


def _functions(program: Program, start: int) -> Iterator[Match]:
    """A QuantizeLinear, and all elementwise operators between it and one blob of floats that is made of integers."""
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if op.full_type in QUANTIZE:
            found = _between(program, op.input[0])
            if found is not None:
                name, places = found
                inner = [blob for inside in places for blob in program.net.op[inside].output if blob]
                yield Match((*places, place), tuple(inner), {"x": name})


def _between(program: Program, name: str) -> Optional[Tuple[str, List[int]]]:
    """The blob x if this blob is a function of x alone, and the places of the operators that compute it, in order."""
    places: Set[int] = set()
    sources: Set[str] = set()
    asked = [name]
    while asked:
        blob = asked.pop()
        place = program.writer(blob)
        if _number(program, blob) is not None:
            continue
        if place is None:
            return None
        op = program.net.op[place]
        if op.full_type in DEQUANTIZE:
            sources.add(blob)
        elif op.full_type in FUNCTIONS and len(places) < MOST_OPERATORS:
            places.add(place)
            asked += op.reads()
        else:
            return None
    return (sources.pop(), sorted(places)) if len(sources) == 1 else None


def _number(program: Program, name: str) -> Optional[Array]:
    """The content of a weight of one element, also one that is made of an integer."""
    value = program.value(name)
    if value is None:
        op = source(program, name)
        if op is not None and op.full_type in DEQUANTIZE and all(read in program.weights for read in op.reads()):
            values = [program.value(read) if read else None for read in op.input]
            if values[0] is not None and values[0].size == 1:
                known = [None if one is None else TensorSpec.known(one) for one in values]
                value = infer_operator(op, known)[1][0].value
    return value if value is not None and value.size == 1 else None


def _look_up(program: Program, match: Match) -> Rewrite:
    *functions, quantize = program.operators(match)
    integers = Integers(program)
    x, y = integers.one_scale(match.captured["x"]), integers.made_by(quantize)
    if not functions and x.has_parameters_of(y):
        return Rewrite(rename=merged(program, y.blob, x.blob))

    def function(reals: Array) -> Array:
        return _computed(program, functions, match.captured["x"], reals, quantize.input[0])

    return integers.rewrite(looked_up(integers, x, y, function))


def _computed(program: Program, functions: List[OperatorDef], x: str, reals: Array, y: str) -> Array:
    """What the operators make of ``reals`` in the place of x. Refusal if it cannot be computed ahead."""
    specs: Dict[str, Optional[TensorSpec]] = {x: TensorSpec.known(reals)}
    for op in functions:
        for name in op.reads():
            if name not in specs:
                number = _number(program, name)
                specs[name] = None if number is None else TensorSpec.known(number)
        with np.errstate(all="ignore"):
            made = infer_operator(op, [specs[name] if name else None for name in op.input])[1]
        specs.update(zip(op.output, made))
    found = specs[y]
    if found is None or found.value is None or found.value.dtype != np.float32 or found.value.size != reals.size:
        raise Refusal("its values cannot be computed ahead")
    values: Array = found.value.reshape(reals.shape)
    return values


def looked_up(integers: Integers, x: Quantised, y: Quantised, function: Callable[[Array], Array]) -> OperatorDef:
    """The operator that computes y by a table: a function of the real numbers that the integers x stand for."""

    def of_integers(values: Array) -> Array:
        reals = function(dequantized(values, Parameters(x.scale, x.zero_point.astype(np.int32))))
        return quantized(reals, Parameters(y.scale, y.zero_point.astype(np.int32)), y.dtype)

    table = integers.constant(f"{y.blob}_table", table_of(x.dtype, of_integers))
    return OperatorDef.of("LookUp", [x.blob, table], [y.blob], domain="armnet")


PASS = Pass("look_up_integers", (Rule(_functions, _look_up),))
