"""The gradients of Caffe2's LSTMUnit and GRUUnit. Source: caffe2/operators/{lstm,gru}_unit_op.h."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.recurrent.caffe2_units import gru_unit, lstm_unit, sigmoid64
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec


@operator("LSTMUnitGradient", inputs=(8, 9), outputs=3, dtypes=FLOATS)
def lstm_unit_gradient(
    op: OperatorDef, hidden: TensorSpec, cell: TensorSpec, gates: TensorSpec, *rest: TensorSpec
) -> List[TensorSpec]:
    """The gradients of LSTMUnit's states and gates. Inputs: LSTMUnit's, its outputs, and their gradients.

    A sequence that has ended hands its states' gradients on, or with drop_states 0; its gates get 0.
    """
    *own, new_hidden, new_cell, dhidden, dcell = rest
    lstm_unit.shape(op, hidden, cell, gates, *own)
    same_floats(op, hidden, cell, new_hidden, new_cell, dhidden, dcell)
    return [hidden, cell, gates]


def _goes_on(rest: Sequence[Array]) -> Any:
    """For each sequence whether it continues, as (1, N, 1); True if there are no lengths."""
    return True if len(rest) == 1 else (rest[-1].reshape(-1)[0] < rest[0]).reshape(1, -1, 1)


def _handed_on(op: OperatorDef, goes_on: Any, own: Array, state: Array) -> Array:
    """The gradient of a state: the step's result, or for sequences that have ended the incoming gradient."""
    return np.where(goes_on, own, 0 if op.get_bool("drop_states") else state)


@lstm_unit_gradient.reference
def lstm_unit_gradient_reference(op: OperatorDef, hidden: Array, cell: Array, gates: Array, *rest: Array) -> List[Any]:
    *own, _, new_cell, dhidden, dcell = rest
    i, f, o, g = np.split(gates.astype(np.float64), 4, axis=2)
    i, f, o, g = sigmoid64(i), sigmoid64(f + op.get_float("forget_bias", 0.0)), sigmoid64(o), np.tanh(g)
    bent, goes_on = np.tanh(new_cell.astype(np.float64)), _goes_on(own)
    errors = dcell + dhidden * o * (1 - bent**2)
    slopes = (
        errors * g * i * (1 - i),
        errors * cell * f * (1 - f),
        dhidden * bent * o * (1 - o),
        errors * i * (1 - g**2),
    )
    dgates = np.where(goes_on, np.concatenate(slopes, axis=2), 0)
    states = _handed_on(op, goes_on, np.zeros(hidden.shape), dhidden), _handed_on(op, goes_on, errors * f, dcell)
    return [result.astype(hidden.dtype) for result in (*states, dgates)]


@operator("GRUUnitGradient", inputs=(5, 6), outputs=2, dtypes=FLOATS)
def gru_unit_gradient(op: OperatorDef, hidden: TensorSpec, gates: TensorSpec, *rest: TensorSpec) -> List[TensorSpec]:
    """The gradients of GRUUnit's state and gates. Inputs: GRUUnit's, its output, and that one's gradient.

    The gate r, which GRUUnit does not use, gets 0. Sequences that have ended: see LSTMUnitGradient.
    """
    *own, new_hidden, dhidden = rest
    gru_unit.shape(op, hidden, gates, *own)
    same_floats(op, hidden, new_hidden, dhidden)
    return [hidden, gates]


@gru_unit_gradient.reference
def gru_unit_gradient_reference(op: OperatorDef, hidden: Array, gates: Array, *rest: Array) -> List[Any]:
    *own, _, dhidden = rest
    _, z, h = np.split(gates.astype(np.float64), 3, axis=2)
    z, h = sigmoid64(z), np.tanh(h)
    goes_on = _goes_on(own)
    slopes: Tuple[Any, ...] = (np.zeros(z.shape), dhidden * (hidden - h) * z * (1 - z), dhidden * (1 - z) * (1 - h**2))
    dgates = np.where(goes_on, np.concatenate(slopes, axis=2), 0)
    return [result.astype(hidden.dtype) for result in (_handed_on(op, goes_on, dhidden * z, dhidden), dgates)]
