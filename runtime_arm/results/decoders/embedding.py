"""Nets that turn an input into a vector, such as those that recognise faces.

Output: (1, n).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.decoders.classes import classes_of
from runtime_arm.results.facts import Facts
from runtime_arm.results.result import Result
from runtime_arm.results.vectors import Embedding

_NORMS = ("LpNormalization", "L2Normalization", "Normalize", "ReduceL2")
_NAMES = ("embedding", "embeddings")


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The vector."""
    return Embedding(np.asarray(setting.output(outputs, "vector"), np.float64))


def recognise(facts: Facts) -> Optional[Parameters]:
    """The only output is one vector that is called an embedding, or is divided by its length at the end."""
    if len(facts.outputs) != 1 or not facts.pictures:
        return None
    output = facts.outputs[0]
    if classes_of(output.shape) is None:
        return None
    scaled = any(op.type in _NORMS for op in facts.chain(output.name, 4)) and output.made_by != "Softmax"
    divided = output.made_by == "Div" and bool({"ReduceL2"} & facts.ancestors(output.name))
    called = any(output.name.lower().split(":")[0].endswith(name) for name in _NAMES)
    return {"outputs": {"vector": output.name}} if scaled or divided or called else None


DECODER = Decoder("embedding", decode, recognise)
