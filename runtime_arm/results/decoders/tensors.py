"""Outputs as they are: their names, shapes and ranges."""

from __future__ import annotations

from runtime_arm.results.decoder import Decoder, Outputs, Setting
from runtime_arm.results.result import Result
from runtime_arm.results.vectors import Tensors


def decode(outputs: Outputs, setting: Setting) -> Result:
    """The outputs."""
    return Tensors(outputs)


DECODER = Decoder("tensors", decode, lambda facts: None)
