"""What the readers of a blob contribute to its gradient, and the operators that add the contributions up."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from runtime_arm.netdef import DeviceOption, OperatorDef
from runtime_arm.registry.gradients import Gradient, SparseGradient

MADE_SUM = "is_auto_gen_sum_ops:1"  # Caffe2's mark of a sum that no user wrote


class Contribution(NamedTuple):
    """A part of a gradient.

    ops: the range of gradient operators that make it, as places in the list; None if it is handed on by name.
    """

    gradient: Gradient
    ops: Optional[Tuple[int, int]]
    device: Optional[DeviceOption]

    @property
    def names(self) -> Tuple[str, ...]:
        """The blobs that hold it."""
        return tuple(self.gradient) if isinstance(self.gradient, SparseGradient) else (self.gradient,)


def rename(ops: List[OperatorDef], span: Tuple[int, int], old: str, new: str) -> None:
    """Renames a blob that the operators of the range write, from its first write on."""
    written = False
    for place in range(*span):
        op = ops[place]
        inputs = tuple(new if written and name == old else name for name in op.input)
        written = written or old in op.output
        ops[place] = op.replace(input=inputs, output=tuple(new if name == old else name for name in op.output))


def dense_sum(names: Sequence[str], total: str, device: Optional[DeviceOption]) -> OperatorDef:
    """``total`` = the sum of the blobs; if ``total`` is one of them, it comes first and is overwritten."""
    order = list(names)
    if total in order:
        at = order.index(total)
        order[0], order[at] = order[at], order[0]
    return _marked(OperatorDef.of("Sum", order, [total]), device)


def sparse_sum(
    parts: Sequence[Gradient], base: str, device: Optional[DeviceOption]
) -> Tuple[List[OperatorDef], SparseGradient]:
    """Sparse gradients are added by concatenating their indices and their values."""
    total = SparseGradient(f"{base}_indices_concat", f"{base}_values_concat")
    ops = [
        OperatorDef.of("Concat", names, [joined, f"{joined}_split"], axis=0)
        for names, joined in zip(zip(*parts), total)
    ]
    return [_marked(op, device) for op in ops], total


def _marked(op: OperatorDef, device: Optional[DeviceOption]) -> OperatorDef:
    device = device or DeviceOption()
    return op.replace(device_option=device.replace(extra_info=(*device.extra_info, MADE_SUM)))
