"""The backward pass: visits the operators of a net from the last to the first and collects gradient operators.

A blob that n operators read gets n contributions to its gradient. They are added up once the last one is known, that
is, at the operator that reads the blob first. Names are Caffe2's (``AddGradientOperators``): the first contribution to
the gradient of X is ``X_grad``, the others ``_X_grad_autosplit_0`` and so on, and their sum overwrites ``X_grad``.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Optional, Set, Tuple

from optimize.gradients.contributions import Contribution, dense_sum, rename, sparse_sum
from optimize.gradients.versions import OUTSIDE, Step, Version, Versions
from runtime_arm.errors import GradientError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.gradients import Gradient, SparseGradient, backward, without_place
from runtime_arm.registry.schema import find

GIVEN = "_autogen_grad"


class BackwardPass:
    """The gradient operators of a net, ``ops``, and ``gradients``: the gradient of each blob.

    ys: by blob the gradient that the caller provides, None for a gradient of ones.
    """

    def __init__(self, forward: Tuple[OperatorDef, ...], ys: Mapping[str, Optional[Gradient]]) -> None:
        self.ops: List[OperatorDef] = []
        self._versions = Versions(forward)
        self._contributions: Dict[Version, List[Contribution]] = {}
        self._taken: Set[str] = set(self._versions.last)
        self._refuse_orphans()
        for y, given in ys.items():
            self._begin(y, given)
        for place in reversed(range(len(forward))):
            self._visit(place)
            self._add_up(place)

    @property
    def gradients(self) -> Dict[str, Gradient]:
        """The gradient of every blob that has one; for a blob that was overwritten, that of its first version with a
        gradient.
        """
        found: Dict[str, Tuple[int, Gradient]] = {}
        for (name, version), contributions in self._contributions.items():
            if contributions and (name not in found or version < found[name][0]):
                found[name] = version, contributions[-1].gradient
        return {name: gradient for name, (_, gradient) in found.items()}

    def _refuse_orphans(self) -> None:
        for step in self._versions.steps:
            if step.op.type == "StopGradient" and not self._versions.is_read(step.op.output[0]):
                raise GradientError(step.op, "nothing reads the output: it is meant to overwrite its input")

    def _begin(self, y: str, given: Optional[Gradient]) -> None:
        version = (y, self._versions.last[y])
        writer = self._versions.writer(version)
        device = None if writer == OUTSIDE else self._versions.steps[writer].op.device_option
        gradient = given
        if gradient is None:
            gradient = y + GIVEN
            fill = OperatorDef.of("ConstantFill", [y], [gradient], value=1.0)
            self.ops.append(fill.replace(device_option=device))
        contribution = Contribution(gradient, None, device)
        self._taken.update(contribution.names)
        self._contributions.setdefault(version, []).append(contribution)

    def _visit(self, place: int) -> None:
        """Appends the gradient operators of one operator and notes what they contribute."""
        step = self._versions.steps[place]
        outputs = [self._gradient_of((name, step.writes[name])) if name else None for name in step.op.output]
        if all(gradient is None for gradient in outputs) and step.op.type != "ZeroGradient":
            return
        made = backward(step.op, outputs)
        span = (len(self.ops), len(self.ops) + len(made.ops))
        self.ops.extend(made.ops)
        renamed = dict(self._with_free_names(place, span))
        self._check_versions(step, span, {name for output in outputs if output for name in _names(output)})
        local = {name for op in self.ops[slice(*span)] for name in op.output}
        self._taken.update(local)
        for name, gradient in zip(step.op.input, made.gradients):
            if gradient is not None:
                kept = _renamed(gradient, renamed)
                ops = span if set(_names(kept)) & local else None
                contribution = Contribution(kept, ops, step.op.device_option)
                self._contributions.setdefault((name, step.reads[name]), []).append(contribution)

    def _gradient_of(self, version: Version) -> Optional[Gradient]:
        contributions = self._contributions.get(version)
        return contributions[-1].gradient if contributions else None

    def _with_free_names(self, place: int, span: Tuple[int, int]) -> Iterator[Tuple[str, str]]:
        """Renames blobs that must not be overwritten; returns old and new names."""
        for at in range(*span):
            op = self.ops[at]
            for name in op.output:
                schema = find(op)
                shared = [i for i, x in enumerate(op.input) if x == name]
                allowed = schema.inplace.get(op.output.index(name), ()) if schema is not None else ()
                if self._is_needed(place, name) or any(i not in allowed for i in shared):
                    new = self._free(name)
                    rename(self.ops, (at, span[1]), name, new)
                    yield name, new

    def _is_needed(self, place: int, name: str) -> bool:
        """Whether sums, or operators that are visited later, need what a blob holds when one is visited."""
        if name in self._versions.last:
            return True
        step = self._versions.steps[place]
        for (blob, version), contributions in self._contributions.items():
            if step.writes.get(blob) == version or self._versions.writer((blob, version)) > place:
                continue
            own = step.reads.get(blob) == version  # what is made for it is told apart when it is added up
            if any(name in c.names for c in contributions if not (own and c.ops)):
                return True
        return False

    def _free(self, name: str) -> str:
        count = 1
        while f"{name}_{count}" in self._taken:
            count += 1
        self._taken.add(f"{name}_{count}")
        return f"{name}_{count}"

    def _check_versions(self, step: Step, span: Tuple[int, int], gradients: Set[str]) -> None:
        """GradientError if a gradient operator reads a blob that was overwritten after the operator ran."""
        local = set(gradients)
        for op in self.ops[slice(*span)]:
            for name in op.input:
                if name in local:
                    continue
                then = step.writes.get(name, step.reads.get(name))
                if then is not None and then != self._versions.last[name]:
                    what = f"the gradient needs {name!r} at version {then}, but it was overwritten"
                    raise GradientError(step.op, f"{what} {self._versions.last[name] - then} times since")
            local.update(op.output)

    def _add_up(self, place: int) -> None:
        """Adds up the contributions to those inputs of an operator that nothing reads before it."""
        step = self._versions.steps[place]
        for name, version in step.reads.items():
            key = (name, version)
            contributions = self._contributions.get(key, [])
            if len(contributions) < 2 or self._versions.first_use[key] != place:
                continue
            kinds = {isinstance(c.gradient, SparseGradient) for c in contributions}
            if len(kinds) > 1:
                raise GradientError(
                    step.op, f"the gradient of {name!r} is partly sparse, and such gradients cannot be added up"
                )
            self._contributions[key] = [self._sum(place, name, contributions)]

    def _sum(self, place: int, name: str, contributions: List[Contribution]) -> Contribution:
        device = contributions[0].device
        total: Gradient
        if isinstance(contributions[0].gradient, SparseGradient):
            ops, total = sparse_sum(self._told_apart(contributions), f"{name}_grad", device)
        else:
            total = self._name_of_sum(place, name, contributions)
            names = [str(gradient) for gradient in self._told_apart(contributions)]
            ops = [dense_sum(names, total, device)]
        span = (len(self.ops), len(self.ops) + len(ops))
        self.ops.extend(ops)
        self._taken.update(name for op in ops for name in op.output)
        return Contribution(total, span, device)

    def _name_of_sum(self, place: int, name: str, contributions: List[Contribution]) -> str:
        """The name of the first contribution that operators make; if all are handed on, a free name."""
        for contribution in contributions:
            if contribution.ops:
                return contribution.names[0]
        total = f"{name}_grad"
        handed_on = any(total in contribution.names for contribution in contributions)
        return self._free(total) if handed_on or self._is_needed(place, total) else total

    def _told_apart(self, contributions: List[Contribution]) -> List[Gradient]:
        """The contributions: all but the first that operators make get names of their own."""
        apart: List[Gradient] = []
        made = 0
        for contribution in contributions:
            new: Dict[str, str] = {}
            if contribution.ops:
                if made:
                    new = {name: f"_{without_place(name)}_autosplit_{made - 1}" for name in contribution.names}
                for old, name in new.items():
                    rename(self.ops, contribution.ops, old, name)
                made += 1
            written = {name for op in self.ops[slice(*contribution.ops or (0, 0))] for name in op.output}
            apart.append(_renamed(contribution.gradient, {old: name for old, name in new.items() if name in written}))
        return apart


def _names(gradient: Gradient) -> Tuple[str, ...]:
    return tuple(gradient) if isinstance(gradient, SparseGradient) else (gradient,)


def _renamed(gradient: Gradient, new: Mapping[str, str]) -> Gradient:
    if isinstance(gradient, SparseGradient):
        return SparseGradient(*(new.get(name, name) for name in gradient))
    return new.get(gradient, gradient)
