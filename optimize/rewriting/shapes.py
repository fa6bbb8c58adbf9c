"""What shape inference knows of a net whose inputs may leave sizes open.

Open sizes are tried out: inference runs once for each of several choices, and what all of them agree on counts as
known.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

Specs = Dict[str, Optional[TensorSpec]]

# Sizes tried for what an input leaves open: of its first dimension, and of the others, each of which gets another.
# Networks halve pictures up to five times, hence the multiples of 32; none is 1, which would broadcast.
CHOICES = ((2, 224), (3, 480))
STEP = 32
LARGEST_SAMPLE = 1 << 30  # bytes: with several open sizes the product of such choices may be more than a machine has


def example_specs(inputs: Sequence[TensorInfo]) -> List[Specs]:
    """The inputs' specs for each choice of open sizes, one if none is open; None for an unknown rank or dtype."""
    open_sizes = any(info.shape is not None and not info.is_static for info in inputs)
    return [_chosen(inputs, *choice) for choice in (CHOICES if open_sizes else CHOICES[:1])]


def sample_specs(inputs: Sequence[TensorInfo]) -> Dict[str, TensorSpec]:
    """Specs of one sample: what is open is 1 along the first dimension and as above along others.

    UsageError, naming the input, where rank or dtype is not known, or where that would be too large.
    """
    chosen = _chosen(inputs, 1, CHOICES[0][1])
    unknown = [name for name, spec in chosen.items() if spec is None]
    if unknown:
        raise UsageError(f"the shape of input {unknown[0]!r} is not known")
    for info in inputs:
        spec = chosen[info.name]
        if spec is not None and not info.is_static and spec.nbytes > LARGEST_SAMPLE:
            raise UsageError(
                f"a sample of input {info.name!r} with {list(spec.shape)} for {info.shape_text()} "
                f"would take {spec.nbytes:,} bytes; give an example of its shape"
            )
    return {name: spec for name, spec in chosen.items() if spec is not None}


def _chosen(inputs: Sequence[TensorInfo], first: int, other: int) -> Specs:
    named: Dict[str, int] = {}
    specs: Specs = {}
    for info in inputs:
        if info.shape is None or info.dtype is None:
            specs[info.name] = None
            continue
        sizes = []
        for axis, dim in enumerate(info.shape):
            size = dim if isinstance(dim, int) else other + STEP * axis if axis else first
            sizes.append(named.setdefault(dim, size) if isinstance(dim, str) else size)
        specs[info.name] = TensorSpec(sizes, info.dtype)
    return specs


def infer_more(net: NetDef, known: Mapping[str, Optional[TensorSpec]]) -> Tuple[Specs, List[str]]:
    """``known`` with the specs of the blobs that it lacks, None where they depend on data or on what is not known.

    Second, why operators refused their inputs; their outputs are not known.
    """
    specs: Specs = dict(known)
    refusals: List[str] = []
    for op in net.op:
        if all(name in specs for name in op.output if name):
            continue
        found = _infer(op, [specs.get(name) if name else None for name in op.input])
        if isinstance(found, str):
            refusals.append(found)
            found = []
        specs.update(dict.fromkeys(name for name in op.output if name))
        specs.update({name: spec for name, spec in zip(op.output, found) if name})
    return specs, refusals


def _infer(op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> Union[Sequence[TensorSpec], str]:
    if any(name and spec is None for name, spec in zip(op.input, inputs)):
        return []
    try:
        return infer_operator(op, inputs)[1]
    except DataDependent:
        return f"{op.signature()}: the shape of what it makes depends on data"
    except ArmnetError as error:
        return str(error)
