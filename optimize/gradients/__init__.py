"""Gradients as nets: appends to a net the operators that compute the gradients of its blobs."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Tuple, Union

from optimize.gradients.backward_pass import BackwardPass
from optimize.layers.unfuse import unfused
from runtime_arm.errors import UsageError
from runtime_arm.netdef import NetDef
from runtime_arm.registry.gradients import Gradient, SparseGradient

Given = Union[None, str, Tuple[str, str]]

__all__ = ["SparseGradient", "add_gradient_operators"]


def add_gradient_operators(
    net: NetDef, ys: Union[Sequence[str], Mapping[str, Given]]
) -> Tuple[NetDef, Dict[str, Gradient]]:
    """The net with gradient operators after its own, and the gradient of every blob that has one, by name.

    ys: the blobs that are differentiated; or by blob the gradient to start with: a blob that the caller feeds or the
    net computes, (indices, values) of a sparse one, or None. If it is None, the operators fill it with ones
    (``<y>_autogen_grad``). A sparse gradient is a ``SparseGradient(indices, values)``.

    The meaning and the names are those of Caffe2's ``AddGradientOperators``: ``X_grad`` is the gradient of X, and a
    blob that is read several times gets the Sum of what its readers contribute. Unlike Caffe2, a gradient given for a
    blob that the net reads is added to the others, and no operator overwrites a gradient that is still needed. Fused
    operators are split into their parts first, so the net's own operators change. GradientError, naming the operator,
    if an operator on the way has no gradient, or needs a blob that was overwritten. UsageError if a blob of ``ys`` is
    not in the net.
    """
    if isinstance(ys, str) or not isinstance(ys, (Mapping, Sequence)):
        raise UsageError("ys must be a list of blobs, or a dict of blobs and their gradients")
    wanted: Mapping[str, Given] = ys if isinstance(ys, Mapping) else dict.fromkeys(ys)
    blobs = {name for op in net.op for name in (*op.input, *op.output)}
    for y in wanted:
        if y not in blobs:
            raise UsageError(f"no operator reads or writes the blob {y!r}, so it has no gradient")
    given = {y: SparseGradient(*g) if isinstance(g, tuple) else g for y, g in wanted.items()}
    net = unfused(net)
    done = BackwardPass(net.op, given)
    gradients = done.gradients
    return _extended(net, done, given), gradients


def _extended(net: NetDef, done: BackwardPass, given: Mapping[str, Optional[Gradient]]) -> NetDef:
    """The net with the operators, the gradients that the caller provides as inputs and the others as outputs."""
    ops = (*net.op, *done.ops)
    written = {name for op in ops for name in op.output}
    fed = [name for gradient in given.values() if gradient for name in _blobs_of(gradient) if name not in written]
    inputs = dict.fromkeys([*net.external_input, *fed]) if net.external_input else {}
    computed = {name for op in done.ops for name in op.output}
    made = [name for gradient in done.gradients.values() for name in _blobs_of(gradient) if name in computed]
    outputs = dict.fromkeys([*net.external_output, *made]) if net.external_output else {}
    return net.replace(op=ops, external_input=tuple(inputs), external_output=tuple(outputs))


def _blobs_of(gradient: Gradient) -> Tuple[str, ...]:
    return tuple(gradient) if isinstance(gradient, SparseGradient) else (gradient,)
