"""Writes pairs with Caffe2's operators and fills alone.

pair = to_caffe2(pair)
pair.save("folder")                            # init_net.pb and predict_net.pb for Caffe2

TFLite's operators on int8 become those of Caffe2's mobile era on bytes: Int8Conv and its kin. They requantise like
gemmlowp, so that a result may be a step of its scale away.
"""

from __future__ import annotations

from typing import List, Tuple

from exporter.to_caffe2.integers import Bytes
from optimize.rewriting.program import Program
from optimize.rewriting.weights import with_unpacked_fills
from runtime_arm.errors import ArmnetError, ExportError, OperatorError
from runtime_arm.netdef import Argument, NetDef, OperatorDef
from runtime_arm.netdef.values import NARROW_TENSORS
from runtime_arm.pair.pair import Pair


def to_caffe2(pair: Pair) -> Pair:
    """The pair that computes the same with Caffe2's operators alone.

    OperatorError, naming the operator, if Caffe2 has none that means the same, or if its kernels refuse the scales.
    """
    program = Program.of(pair.check())
    made = Bytes(program)
    ops: List[OperatorDef] = []
    sources: List[OperatorDef] = []  # of each of ops
    for op in program.net.op:
        try:
            _check_nets(op)
            for part in _of_caffe2(op, program):
                ops += made.translated(part)
            sources += [op] * (len(ops) - len(sources))
        except ArmnetError as error:
            raise error if isinstance(error, OperatorError) else OperatorError(op, str(error)) from error
    read = {name for op in ops for name in op.reads()}
    kept = [op for op in program.weights.init_net.op if read.intersection(op.output) and op.output[0] not in made.fills]
    init = with_unpacked_fills(program.weights.init_net.replace(op=tuple(kept)))
    fills = [*init.op, *made.fills.values()]
    names = [name for op in fills for name in op.output]
    inputs = [name for name in program.net.external_input if name not in program.weights]
    net = program.net.replace(op=tuple(ops), external_input=(*inputs, *names), arg=_arguments(program.net))
    init = init.replace(op=tuple(fills), external_output=tuple(names), arg=_arguments(init))
    result = pair.replace(init_net=init, predict_net=net, tuning=None).check()
    for place, refusal in Program.of(result).inference_refusals.items():
        # What the pair's own operator refuses, too, are sizes that were taken for open ones.
        if all(program.specs(name)[0] is not None for name in sources[place].output if name):
            raise ExportError(f"Caffe2's operators refuse what they would read: {refusal}")
    return result


def _arguments(net: NetDef) -> Tuple[Argument, ...]:
    """The net's, but for the one about tensors that armnet's own files hold in fewer bytes."""
    return tuple(arg for arg in net.arg if arg.name != NARROW_TENSORS)


def _check_nets(op: OperatorDef) -> None:
    """ExportError for nets inside with other operators than Caffe2's, or of which an If takes outputs by position."""
    for net in op.subnets():
        for inner in net.op:
            if inner.domain not in ("", "caffe2"):
                raise ExportError(f"Caffe2 has no {inner.full_type}, which its net {net.name!r} holds")
            _check_nets(inner)
        written = {name for inner in net.op for name in inner.output}
        if op.full_type == "If" and op.output and written.isdisjoint(op.output):
            raise ExportError(f"Caffe2 takes outputs by name, and its net {net.name!r} does not write {op.output[0]!r}")


def _of_caffe2(op: OperatorDef, program: Program) -> List[OperatorDef]:
    """ONNX's operators that Caffe2 has, too, but not quite: the Sign of NaN is 0 there."""
    if op.full_type == "onnx.Sign":
        return [op.replace(domain="")]
    if op.full_type == "onnx.Softmax":
        return _softmax(op, program)
    return _softplus(op, program) if op.full_type == "onnx.Softplus" else [op]


def _softmax(op: OperatorDef, program: Program) -> List[OperatorDef]:
    """Caffe2's makes one row of the axis and all behind it: the axis becomes the last one."""
    (x,), (y,), dims = op.input, op.output, program.dims(op.input[0])
    if dims is None:
        raise ExportError("it is not known how many dimensions it reads")
    last = len(dims) - 1
    axis = op.get_int("axis", -1) % len(dims)
    if axis == last:
        return [OperatorDef.of("Softmax", [x], [y], name=op.name, axis=last)]
    order = [*(one for one in range(len(dims)) if one != axis), axis]
    moved, result = (program.fresh(f"{y}_{what}") for what in ("last", "moved"))
    return [
        OperatorDef.of("Transpose", [x], [moved], axes=order),
        OperatorDef.of("Softmax", [moved], [result], name=op.name, axis=last),
        OperatorDef.of("Transpose", [result], [y], axes=[order.index(one) for one in range(len(dims))]),
    ]


def _softplus(op: OperatorDef, program: Program) -> List[OperatorDef]:
    """max(x, 0) + Softplus(-|x|): Caffe2's own overflows where exp(x) does."""
    x, y = op.input[0], op.output[0]
    size, opposite, rest, positive = (program.fresh(f"{y}_{what}") for what in ("abs", "negative", "rest", "positive"))
    return [
        OperatorDef.of("Abs", [x], [size]),
        OperatorDef.of("Negative", [size], [opposite]),
        OperatorDef.of("Softplus", [opposite], [rest]),
        OperatorDef.of("Relu", [x], [positive]),
        OperatorDef.of("Add", [positive, rest], [y], name=op.name),
    ]
