"""Makes a train net of a predict_net: the net in training mode, its loss, gradients, and updates of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from optimize.gradients import SparseGradient, add_gradient_operators
from optimize.rewriting.shapes import SpecsByName, choices_of
from optimize.training import fuse_normalizations, keep_masks, replace_broadcast_products
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec
from training.builder import NetBuilder
from training.losses import Loss
from training.normalization import frozen, in_training, is_normalisation
from training.solvers import BIAS, SCALE, WEIGHT, Names, Solver

Trainable = Union[None, str, Iterable[str]]
MUTEX = "iteration_mutex"
# operators whose last outputs may be left out
SHORTENED = ("ConvGradient", "ConvTransposeGradient", "FCGradient", "FCTransposedGradient")


@dataclass(frozen=True)
class TrainOptions:
    """What the caller wants: see ``training.trainer.Trainer``. ``outputs``: the blobs that the loss takes."""

    loss: Loss
    labels: str
    solver: Solver
    trainable: Trainable
    outputs: Sequence[str]
    batch_norm: str = "auto"
    caffe2_compatible: bool = False


class TrainNet(NamedTuple):
    """A train net, and its two halves.

    net: a whole step. backward: forward and backward, up to ``gradients``. update: from the gradients, which are fed,
    to the new parameters. state: the blobs that a step changes, with their values at the start; constants: those that
    it reads; feeds: those that the caller gives. parameters: those that are trained. loss, rate: the blobs with the
    loss and the rate of a step.
    """

    net: NetDef
    backward: NetDef
    update: NetDef
    state: Dict[str, Array]
    constants: Dict[str, Array]
    feeds: Tuple[str, ...]
    parameters: Tuple[str, ...]
    gradients: Tuple[str, ...]
    loss: str
    rate: str
    iteration: str


def make_train_net(
    net: NetDef, inputs: Sequence[TensorInfo], weights: Dict[str, Array], options: TrainOptions
) -> TrainNet:
    """The train net of a predict_net with these inputs and weights. UsageError if there is nothing to train."""
    weights = dict(weights)
    chosen = _chosen(net, inputs, weights, options)
    builder = NetBuilder(net.op, [*net.external_input, options.labels])
    _set_normalisations(builder, chosen, weights, options)
    kinds = {name: _kind(builder.ops, name, weights[name]) for name in chosen}
    if not options.caffe2_compatible:
        builder.ops = replace_broadcast_products(builder.ops)
        _save_memory(builder, net, inputs, weights, options.outputs)
    loss = options.loss.append(builder, options.outputs, options.labels)
    with_gradients, found = add_gradient_operators(NetDef(net.name, tuple(builder.ops)), [loss])
    builder.replace_ops(with_gradients)
    parameters = [name for name in chosen if name in found]
    if not parameters:
        raise UsageError("the loss depends on none of the parameters that are to be trained")
    gradients = {name: _dense(builder, name, weights[name].shape, found[name]) for name in parameters}
    _tell_apart(builder, gradients)
    split = len(builder.ops)
    rate, iteration = _add_update(builder, options.solver, kinds, gradients, weights)
    everything = {**weights, **builder.blobs}
    state = {name: everything[name] for name in _written(builder.ops) if name in everything}
    kept = [loss, *options.outputs]
    whole, halves = builder.ops, (builder.ops[:split], builder.ops[split:])
    moved = [name for name in _written(halves[0]) if name in state]
    title = f"{net.name or 'net'}_train"
    nets = [
        _net(title, whole, [*kept, rate, *state]),
        _net(f"{title}_backward", halves[0], [*kept, *moved, *gradients.values()]),
        _net(f"{title}_update", halves[1], [rate, *(name for name in state if name not in moved)]),
    ]
    read = [name for net in nets for name in net.external_input]
    constants = {name: everything[name] for name in read if name in everything and name not in state}
    feeds = tuple(name for name in nets[0].external_input if name not in everything)
    own = tuple(parameters), tuple(gradients.values())
    return TrainNet(nets[0], nets[1], nets[2], state, constants, feeds, *own, loss, rate, iteration)


def _chosen(net: NetDef, inputs: Sequence[TensorInfo], weights: Dict[str, Array], options: TrainOptions) -> List[str]:
    """The parameters to train, in the order in which the net reads them."""
    statistics = {name for op in net.op if is_normalisation(op) for name in op.input[3:5]}
    floats = [name for name in net.captures() if name in weights and weights[name].dtype == np.float32]
    fed = {info.name for info in inputs}
    possible = [name for name in floats if name not in statistics and name not in fed]
    if options.trainable is None:
        return possible
    patterns = [options.trainable] if isinstance(options.trainable, str) else list(options.trainable)
    for pattern in patterns:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in possible):
            raise UsageError(f"trainable: no parameter is called {pattern!r}; there are {', '.join(possible[:20])}")
    return [name for name in possible if any(name == p or fnmatchcase(name, p) for p in patterns)]


def _set_normalisations(
    builder: NetBuilder, chosen: Sequence[str], weights: Dict[str, Array], options: TrainOptions
) -> None:
    ops: List[OperatorDef] = []
    for op in builder.ops:
        learns = bool(set(op.input[1:3]) & set(chosen))
        moves = options.batch_norm == "train" or (options.batch_norm == "auto" and learns)
        if not is_normalisation(op) or not set(op.input[1:]) <= set(weights):
            ops.append(op)
        elif moves:
            ops.append(in_training(builder, op, weights))
        else:
            ops.extend(frozen(builder, op, weights, learns) if options.caffe2_compatible else [op])
    builder.ops = ops


def _save_memory(
    builder: NetBuilder, net: NetDef, inputs: Sequence[TensorInfo], weights: Dict[str, Array], outputs: Sequence[str]
) -> None:
    """Fuse normalisations, and keep masks for the backward pass instead of activations."""
    constants: SpecsByName = {name: TensorSpec.known(value) for name, value in weights.items()}
    shapes = [choice.found for choice in choices_of(net, constants, inputs)]
    fused = fuse_normalizations(NetDef("", tuple(builder.ops)), shapes, outputs)
    builder.replace_ops(keep_masks(fused, outputs))


def _kind(ops: Sequence[OperatorDef], name: str, value: Array) -> str:
    """The kind of a parameter: a weight, the scale of a normalisation, or a bias, which is any other of one
    dimension."""
    if any(is_normalisation(op) and name == op.input[1] for op in ops):
        return SCALE
    return WEIGHT if sum(size > 1 for size in value.shape) > 1 or value.ndim > 1 else BIAS


def _dense(builder: NetBuilder, parameter: str, shape: Tuple[int, ...], gradient: Union[str, SparseGradient]) -> str:
    """The blob of a gradient. A sparse one becomes dense, for indices of any shape."""
    if not isinstance(gradient, SparseGradient):
        return gradient
    rows = []
    for blob, size in ((gradient.indices, [-1]), (gradient.values, [-1, *shape[1:]])):
        names = [builder.free(f"{parameter}_{name}") for name in ("grad_rows", "grad_shape")]
        builder.write("Reshape", [blob], names, shape=size)
        rows.append(names[0])
    return builder.add("SparseToDense", [*rows, parameter], f"{parameter}_dense_grad")


def _tell_apart(builder: NetBuilder, gradients: Dict[str, str]) -> None:
    """Give every parameter a gradient blob of its own, because updates overwrite it."""
    seen = set()
    for parameter, gradient in gradients.items():
        if gradient in seen:
            gradients[parameter] = builder.add("Copy", [gradient], f"{parameter}_own_grad")
        seen.add(gradient)


def _add_update(
    builder: NetBuilder, solver: Solver, kinds: Dict[str, str], gradients: Dict[str, str], weights: Dict[str, Array]
) -> Tuple[str, str]:
    """Adds clipping, the count of iterations, the rate and the updates; returns the blobs of rate and count."""
    _clip(builder, solver, list(gradients.values()))
    iteration = builder.blob("iteration", np.zeros(1, np.int64))
    mutex = builder.blob(MUTEX, np.empty(0, np.uint8))
    builder.write("AtomicIter", [mutex, iteration], [iteration])
    rate = builder.free("learning_rate")
    builder.ops.append(solver.schedule.operator(solver.rate * solver.direction, iteration, rate))
    for parameter, gradient in gradients.items():
        kind = kinds[parameter]
        solver.decay(builder, kind, parameter, gradient)
        solver.update(builder, Names(parameter, kind, weights[parameter], gradient, rate, iteration))
    return rate, iteration


def _clip(builder: NetBuilder, solver: Solver, gradients: Sequence[str]) -> None:
    if solver.clip_value:
        for gradient in gradients:
            bound = float(solver.clip_value)
            builder.write("Clip", [gradient], [gradient], min=-bound, max=bound)
    if not solver.clip_norm:
        return
    squares = [builder.add("SumSqrElements", [gradient], f"{gradient}_square_sum") for gradient in gradients]
    total = builder.add("Sum", squares, "gradient_square_sum")
    norm = builder.add("Pow", [total], "gradient_norm", exponent=0.5)
    limit = builder.blob("clip_norm", np.array(solver.clip_norm, np.float32))
    largest = builder.add("Max", [norm, limit], "gradient_norm_or_limit")
    ratio = builder.add("Div", [limit, largest], "gradient_ratio")
    for gradient in gradients:
        builder.write("Mul", [gradient, ratio], [gradient], broadcast=1)


def _written(ops: Iterable[OperatorDef]) -> List[str]:
    return list(dict.fromkeys(name for op in ops for name in op.output if name))


def _net(name: str, ops: Sequence[OperatorDef], wanted: Sequence[str]) -> NetDef:
    """The net of the operators on which the wanted blobs depend."""
    net = NetDef(name, tuple(reversed(list(_needed(ops, wanted)))))
    return net.replace(external_input=net.captures(), external_output=tuple(dict.fromkeys(wanted)))


def _needed(ops: Sequence[OperatorDef], wanted: Iterable[str]) -> Iterator[OperatorDef]:
    """The operators on which the blobs that are wanted at the end depend, from the last to the first."""
    live = set(wanted)
    for op in reversed(ops):
        if not live & set(op.output):
            continue
        if op.type in SHORTENED:
            fewest = lookup(op).outputs[0]
            while len(op.output) > fewest and op.output[-1] not in live:
                op = op.replace(output=op.output[:-1])
        live -= set(op.output)
        live |= set(op.input)
        yield op
