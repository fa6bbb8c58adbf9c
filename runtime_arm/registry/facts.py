"""Facts about an operator type that its schema states for the planner, the engines and the optimizer."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple

Formula = Callable[..., Any]  # (x, y, *scratch, **arguments)
Default = Union[float, int, str]


class Kind(Enum):
    """What an operator computes, independent of how its arguments are written: operators of one kind are treated alike.

    CONVOLUTION: inputs X, W and a bias, and for a fused operator an addend and its activation's operand; its arguments
    are read by ``operators.conv.convolution.convolution_of``. MAX_POOL, AVERAGE_POOL: the arguments are read by
    ``operators.pool.caffe2.pool_of``. BATCH_NORM: inputs X, scale, bias, mean and variance, and for a fused operator as
    above. FULLY_CONNECTED: inputs X, W and a bias, and for a fused operator as above; a row of X is multiplied with all
    weights. CONCATENATION: output 0 is the inputs side by side along one axis. ELEMENTWISE: every output element is a
    function of the input elements at its place; inputs broadcast. POOLED_CONVOLUTION, SEPARABLE_BLOCK,
    GATED_CONVOLUTION: the merged operators of those names.
    """

    CONVOLUTION = "convolution"
    MAX_POOL = "max pool"
    AVERAGE_POOL = "average pool"
    BATCH_NORM = "batch norm"
    FULLY_CONNECTED = "fully connected"
    CONCATENATION = "concatenation"
    ELEMENTWISE = "elementwise"
    POOLED_CONVOLUTION = "pooled convolution"
    SEPARABLE_BLOCK = "separable block"
    GATED_CONVOLUTION = "gated convolution"


class FastFormula(NamedTuple):
    """The fast kernel of an elementwise operator of one input, for others that apply it to blocks of their results.

    formula: ``(x, y, *scratch, **arguments)``, which writes ``y``; x and y may be the same memory. scratch: how many
    temporaries of the size of a block it takes. dtypes: those for which it is precise enough. defaults: the operator's
    arguments.
    """

    formula: Formula
    scratch: int
    dtypes: Tuple[str, ...]
    defaults: Mapping[str, Default]

    def bind(self, op: OperatorDef) -> Formula:
        """``(x, y, *scratch)`` with the arguments of the operator."""
        return partial(self.formula, **arguments_of(op, self.defaults)) if self.defaults else self.formula


def arguments_of(op: OperatorDef, defaults: Mapping[str, Default]) -> Dict[str, Any]:
    """The operator's arguments by name, of the kind of their defaults."""
    return {name: _argument(op, name, default) for name, default in defaults.items()}


def _argument(op: OperatorDef, name: str, default: Default) -> Any:
    if isinstance(default, str):
        return op.get_str(name, default)
    return op.get_float(name, default) if isinstance(default, float) else op.get_int(name, default)


class Fusion(NamedTuple):
    """The parts of a fused operator: a layer, perhaps an addition, perhaps an activation.

    layer: Caffe2's type of the first part. addend: the input that is added to the layer's results, None if there can be
    none; the input after it is the activation's operand. activation: the one that the type implies; if there is none,
    the argument ``activation`` names it.
    """

    layer: str
    addend: Optional[int] = None
    activation: str = ""
