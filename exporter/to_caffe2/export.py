"""Writes pairs with nothing but Caffe2's operators and fills.

pair = to_caffe2(pair)
pair.save("folder")                            # init_net.pb and predict_net.pb for Caffe2

TFLite's operators on int8 and uint8 become Caffe2's operators on bytes, which it has for mobile devices: Int8Conv and
others. They requantise like gemmlowp, so a result may be one step of its scale off. Inputs and outputs keep their
types.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from exporter.common.shapes import Shapes, check_names
from exporter.to_caffe2 import floats, integers, pad, resize  # noqa: F401  (their rules)
from exporter.to_caffe2.translator import Translator
from optimize.rewriting.program import Program
from optimize.rewriting.weights import with_unpacked_fills
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import Argument, NetDef, OperatorDef
from runtime_arm.netdef.values import NARROW_TENSORS
from runtime_arm.pair.pair import Pair
from runtime_arm.records import replace


def to_caffe2(pair: Pair, shapes: Optional[Shapes] = None) -> Pair:
    """The pair that computes the same with only Caffe2's operators. shapes: for inputs whose sizes are open.

    OperatorError, naming the operator, if Caffe2 has none that means the same, or if its kernels refuse the scales.
    """
    pair = _with_shapes(pair.check(), shapes or {})
    program = Program.of(pair)
    translator = Translator(program)
    ops: List[OperatorDef] = []
    sources: List[OperatorDef] = []  # of each of ops
    for op in program.net.op:
        try:
            _check_nets(op)
            ops += translator.translated(op)
            sources += [op] * (len(ops) - len(sources))
        except ArmnetError as error:
            raise error if isinstance(error, OperatorError) else OperatorError(op, str(error)) from error
    ops, sources = _with_plain_outputs(ops, sources, translator)
    read = {name for op in ops for name in op.reads()}
    kept = [
        op
        for op in program.weights.init_net.op
        if read.intersection(op.output) and op.output[0] not in translator.fills
    ]
    init = with_unpacked_fills(program.weights.init_net.replace(op=tuple(kept)))
    fills = [*init.op, *translator.fills.values()]
    names = [name for op in fills for name in op.output]
    inputs = [name for name in program.net.external_input if name not in program.weights]
    net = program.net.replace(op=tuple(ops), external_input=(*inputs, *names), arg=_arguments(program.net))
    init = init.replace(op=tuple(fills), external_output=tuple(names), arg=_arguments(init))
    result = pair.replace(init_net=init, predict_net=net, tuning=None).check()
    for place, refusal in Program.of(result).inference_refusals.items():
        # What the pair's own operator refuses, too, are sizes that were taken for open ones.
        if all(program.specs(name)[0] is not None for name in sources[place].output if name):
            raise ExportError(f"Caffe2's operators refuse their inputs: {refusal}")
    return result


def _arguments(net: NetDef) -> Tuple[Argument, ...]:
    """The net's arguments, without the one about tensors that armnet's own files store in fewer bytes."""
    return tuple(arg for arg in net.arg if arg.name != NARROW_TENSORS)


def _with_shapes(pair: Pair, shapes: Shapes) -> Pair:
    check_names(shapes, pair.inputs)
    named = {name: tuple(shape) for name, shape in shapes.items()}
    return pair.replace(inputs=tuple(replace(info, shape=named.get(info.name, info.shape)) for info in pair.inputs))


def _check_nets(op: OperatorDef) -> None:
    """ExportError if a sub-net has operators that Caffe2 lacks, or if an If takes a sub-net's outputs by position."""
    for net in op.subnets():
        for inner in net.op:
            if inner.domain not in ("", "caffe2"):
                raise ExportError(f"Caffe2 has no {inner.full_type}, which the sub-net {net.name!r} contains")
            _check_nets(inner)
        written = {name for inner in net.op for name in inner.output}
        if op.full_type == "If" and op.output and written.isdisjoint(op.output):
            raise ExportError(
                f"Caffe2 takes outputs by name, and the sub-net {net.name!r} does not write {op.output[0]!r}"
            )


def _with_plain_outputs(
    ops: List[OperatorDef], sources: List[OperatorDef], translator: Translator
) -> Tuple[List[OperatorDef], List[OperatorDef]]:
    """The operators and their sources; if outputs of the net hold bytes, operators at the end convert these to
    integers.
    """
    held = [name for name in translator.program.net.external_output if translator.holds_bytes(name)]
    names = {name: translator.fresh(f"{name}_bytes") for name in held}
    ops = [
        op.replace(
            input=tuple(names.get(name, name) for name in op.input),
            output=tuple(names.get(name, name) for name in op.output),
        )
        for op in ops
    ]
    for name, inner in names.items():
        ops += translator.integers_of(inner, name)
    return ops, sources + [sources[-1]] * (len(ops) - len(sources))
