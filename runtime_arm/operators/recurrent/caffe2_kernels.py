"""The fast kernel of Caffe2's InferenceLSTM: one layer after the other, each with its directions."""

from __future__ import annotations

from typing import List, Optional, Sequence

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.recurrent.caffe2_networks import cells_of, inference_lstm
from runtime_arm.operators.recurrent.cells import lstm
from runtime_arm.operators.recurrent.unrolled import Part, Side, scratch_of, unrolled
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn

_SLOTS = ((1, 0, 2), (3, 2, 3), (0, 3, 4))  # slots of o, i, f, g, and where the gates i and f, g, o begin and end


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return "there is nothing to compute" if any(spec.size == 0 for spec in outputs) else None


def _directions(op: OperatorDef) -> int:
    return 2 if op.get_bool("bidirectional") else 1


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """What a layer needs, and the results of layers, in turns in two buffers, where others follow."""
    y, hidden = outputs[0], outputs[1].shape[2]
    batch, steps = y.shape[:2] if op.get_bool("batch_first") else y.shape[1::-1]
    between = min(cells_of(op)[0] // _directions(op) - 1, 2)
    whole = TensorSpec((steps, batch, y.shape[2]), y.dtype)
    return [*scratch_of(lstm(), steps, batch, hidden, y.dtype), *[whole] * between]


def _gates(matrix: Array) -> List[Part]:
    hidden = len(matrix) // 4
    return [(slot, matrix[first * hidden : last * hidden]) for slot, first, last in _SLOTS]


@inference_lstm.kernel("NUMPY", supports=_refuses, scratch=_scratch)
def inference_lstm_numpy(call: Call) -> Run:
    op, (x, hidden, cell, *weights) = call.op, call.inputs
    count, per_cell = cells_of(op)
    directions, size = _directions(op), hidden.shape[2]
    y, last_hidden, last_cell = call.outputs
    if op.get_bool("batch_first"):
        x, y = x.swapaxes(0, 1), y.swapaxes(0, 1)
    constant = all(spec is not None and spec.value is not None for spec in call.in_specs[3:])
    runs: List[Run] = []
    layers = count // directions
    for layer in range(layers):
        target = y if layer == layers - 1 else call.scratch[2 + layer % 2]
        sides = []
        for d in range(directions):
            number = layer * directions + d
            w, r, *biases = weights[number * per_cell :][:per_cell]
            out = target[:, :, d * size : (d + 1) * size]
            states = [hidden[number], cell[number]], [last_hidden[number], last_cell[number]]
            vectors = [part for bias in biases for part in _gates(bias)]
            sides.append(Side(x, out, _gates(w), _gates(r), vectors, *states, d == 1))
        runs.append(unrolled(call, lstm(), sides, constant, f"layer {layer}, "))
        x = target
    return in_turn(runs)
