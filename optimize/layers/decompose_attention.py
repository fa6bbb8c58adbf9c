"""Attention as products with a softmax between them, for formats and runtimes that lack it."""

from __future__ import annotations

from typing import List, Optional

from runtime_arm.netdef import OperatorDef

_PLAIN = {"scale", "q_num_heads", "kv_num_heads"}


def decomposed(op: OperatorDef) -> Optional[List[OperatorDef]]:
    """The operators that compute ONNX's Attention, if it has the form that the optimizer makes; else None.

    The mask, if there is one, must hold floats, one for each key.
    """
    heads = op.get_int("q_num_heads", 0)
    if {arg.name for arg in op.arg} - _PLAIN or not op.get_float("scale", 0.0):
        return None
    if len(op.output) > 1 or any(op.input[4:]) or op.get_int("kv_num_heads", 0) != heads:
        return None
    y, made = op.output[0], []
    names = list(op.input[:3])
    for at, part in enumerate("qkv"):
        axes = [0, 1, 2, 3] if not heads else [0, 2, 1, 3]
        axes = [axes[0], axes[1], axes[3], axes[2]] if part == "k" else axes
        if heads:
            apart = [f"{y} {part} apart", f"{y} {part} before"]
            made.append(OperatorDef.of("Reshape", [names[at]], apart, shape=[0, 0, heads, -1]))
            names[at] = apart[0]
        if axes != [0, 1, 2, 3]:
            made.append(OperatorDef.of("Transpose", [names[at]], [f"{y} {part}"], axes=axes))
            names[at] = f"{y} {part}"
    q, k, v = names
    made.append(OperatorDef.of("BatchMatMul", [q, k], [f"{y} products"], broadcast=1))
    made.append(OperatorDef.of("Scale", [f"{y} products"], [f"{y} scaled"], scale=op.get_float("scale")))
    scores = f"{y} scaled"
    if len(op.input) > 3 and op.input[3]:
        made.append(OperatorDef.of("Add", [scores, op.input[3]], [f"{y} scores"]))
        scores = f"{y} scores"
    made.append(OperatorDef.of("Softmax", [scores], [f"{y} probabilities"], axis=3))
    last = f"{y} by heads" if heads else y
    made.append(OperatorDef.of("BatchMatMul", [f"{y} probabilities", v], [last], broadcast=1))
    if heads:
        made.append(OperatorDef.of("Transpose", [last], [f"{y} joined"], axes=[0, 2, 1, 3]))
        made.append(OperatorDef.of("Reshape", [f"{y} joined"], [y, f"{y} before"], shape=[0, 0, -1]))
    return made
