"""Nets that give a number for every pixel, such as a depth.

Output: (1, rows, columns), (1, 1, rows, columns) or (1, rows, columns, 1).
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.results.decoder import Decoder, Outputs, Parameters, Setting
from runtime_arm.results.facts import Facts
from runtime_arm.results.pictures import Depth
from runtime_arm.results.resampling import sampled
from runtime_arm.results.result import Result

_NAMES = ("depth", "disparity", "disp")


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The numbers, for every pixel of the original picture."""
    plane = np.squeeze(setting.output(outputs, "values"))
    if plane.ndim != 2:
        raise UsageError(f"a depth is one number a pixel; the output's shape is {plane.shape}")
    return Depth(sampled(plane.astype(np.float32), *setting.frame.grid(*plane.shape)))


def recognise(facts: Facts) -> Optional[Parameters]:
    """The only output is called a depth and has one number a pixel."""
    if facts.picture is None or len(facts.outputs) != 1:
        return None
    output = facts.outputs[0]
    called = any(name in output.name.lower() for name in _NAMES)
    return {"outputs": {"values": output.name}} if called and len(output.dims) == 2 else None


DECODER = Decoder("depth", decode, recognise)
