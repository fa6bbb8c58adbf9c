"""A TFLite model before it is written: graphs of operations on numbered tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from runtime_arm.netdef import Array

MISSING = -1  # the number of an input that is left out


class Quantization(NamedTuple):
    """real = scale * (stored - zero_point); one scale, or one for each slice along ``axis``."""

    scale: Tuple[float, ...]
    zero_point: Tuple[int, ...]
    axis: int = 0


@dataclass
class Tensor:
    """``value`` is the content of a constant, else None."""

    name: str
    shape: Tuple[int, ...]
    dtype: np.dtype[Any]
    quantization: Optional[Quantization] = None
    value: Optional[Array] = None


@dataclass
class Operation:
    """``type`` is the name of a built-in operator, or of a custom one if ``custom`` holds its options.

    ``options`` are the fields of the operator's table in TFLite's schema, by their names there.
    """

    type: str
    inputs: List[int]
    outputs: List[int]
    options: Dict[str, Any] = field(default_factory=dict)
    custom: Optional[bytes] = None


@dataclass
class Graph:
    """``inputs`` and ``outputs`` are numbers of tensors."""

    name: str = "main"
    tensors: List[Tensor] = field(default_factory=list)
    operations: List[Operation] = field(default_factory=list)
    inputs: List[int] = field(default_factory=list)
    outputs: List[int] = field(default_factory=list)


@dataclass
class Model:
    """``inputs`` and ``outputs`` name tensors of the first graph; ``metadata`` are buffers by name.

    ``turned`` are those that are pictures with their channels last in the file and first in the pair.
    """

    graphs: List[Graph]
    description: str = ""
    inputs: Dict[str, int] = field(default_factory=dict)
    outputs: Dict[str, int] = field(default_factory=dict)
    metadata: Dict[str, bytes] = field(default_factory=dict)
    turned: Set[str] = field(default_factory=set)
