"""The interface of the kernels that convolve between two layouts."""

from __future__ import annotations

from typing import Optional, Protocol, Sequence, Tuple

from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec


class Algorithm(Protocol):
    """An algorithm for a convolution, and perhaps the max pool after it, between two layouts.

    It is a value object: its fields are the layouts and everything else that decides how it runs. It is made when
    layouts are chosen, asked for its cost, and, if it is the cheapest, bound to buffers. ``convolution_options.py``
    makes a ``Kernel`` of it.
    """

    @property
    def engine(self) -> str:
        """The engine that it belongs to: ``op.engine`` may ask for that, or rule it out."""

    @property
    def variants(self) -> Tuple[str, ...]:
        """Its variant of the engine, if the engine has variants; see ``Kernel``."""

    @property
    def x(self) -> Optional[Tiles]:
        """The layout of X, None for (N, C, H, W)."""

    @property
    def y(self) -> Tiles:
        """The layout of the convolution's results, whether they are the output or are pooled."""

    @property
    def pooling(self) -> Optional[Pooling]:
        """What makes the output of the results, None if they are the output."""

    @property
    def reads_slices(self) -> bool:
        """Whether X may be a slice of the channels of a wider blob."""

    @property
    def writes_slices(self) -> bool:
        """Whether the output may be a slice of the channels of a wider blob."""

    @property
    def work(self) -> Work:
        """What it takes."""

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """The buffers that ``bind`` finds in ``call.scratch``; those of the activation come after them."""

    def hints(self, op: OperatorDef) -> Sequence[str]:
        """The hints with which it would run the operator otherwise than it does now."""

    def bind(self, call: Call) -> Run:
        """The function that runs it. It writes all of output 0, or this worker's part of it, borders included."""


def output_layout(algorithm: Algorithm) -> Tiles:
    """The layout of the step's output."""
    return algorithm.y if algorithm.pooling is None else algorithm.pooling.after(algorithm.y)


__all__ = ["Algorithm", "output_layout"]
