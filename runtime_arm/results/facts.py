"""Facts about a net: the evidence from which recognisers decide what its outputs mean."""

from __future__ import annotations

from itertools import islice
from typing import Dict, FrozenSet, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import Dim, TensorInfo
from runtime_arm.records import NamedTuple, field, record

# Types that pass numbers on: their outputs were computed by the operator before them.
PASSIVE = frozenset(
    [
        "Alias",
        "Cast",
        "ConstantFill",
        "Copy",
        "Dequantize",
        "DequantizeLinear",
        "Dropout",
        "ExpandDims",
        "Flatten",
        "Identity",
        "NCHW2NHWC",
        "NHWC2NCHW",
        "Requantize",
        "Reshape",
        "Squeeze",
        "StopGradient",
        "Transpose",
        "Unsqueeze",
        "QuantizeLinear",
        "Quantize",
        "Int8Dequantize",
    ]
)
PARTS = ("Split", "Slice", "StridedSlice", "Gather")  # types that take a part of their first input


class Picture(NamedTuple):
    """An input that is a picture. height and width are None where they are open."""

    name: str
    height: Optional[int]
    width: Optional[int]
    channels: int
    layout: str


@record(frozen=True)
class Output:
    """An output; shape is None if unknown, a size None if open. made_by: the type that made its numbers, by which
    function they have passed; empty if unknown."""

    name: str
    shape: Optional[Tuple[Optional[int], ...]]
    made_by: str = ""

    def fits(self, *dims: Optional[int]) -> bool:
        """Whether the shape without its batch is ``dims``; None fits any size."""
        if self.shape is None or len(self.shape) != len(dims) + 1:
            return False
        return all(wanted is None or size == wanted for size, wanted in zip(self.shape[1:], dims))

    @property
    def dims(self) -> Tuple[Optional[int], ...]:
        """The shape without its batch and without sizes of 1; empty if unknown."""
        return tuple(size for size in (self.shape or ())[1:] if size != 1)


@record(frozen=True)
class Facts:
    """A net's inputs and outputs, its operators and what its source says about itself.

    sizes: the shape of each input with the sizes to which pictures are resized. properties: what the source file says
    besides the net ("task", "names", ...). labels: how many the pair has.
    """

    net: NetDef
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[Output, ...]
    pictures: Tuple[Picture, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    labels: int = 0
    source: str = ""

    @property
    def picture(self) -> Optional[Picture]:
        """The net's picture, if it takes one picture and nothing else."""
        return self.pictures[0] if len(self.pictures) == 1 == len(self.inputs) else None

    def named(self, *names: str) -> Optional[Dict[str, str]]:
        """The outputs by these names, if the net has each of them; ``:0`` after a name does not count."""
        found = {output.name.split(":")[0]: output.name for output in self.outputs}
        return {name: found[name] for name in names} if set(names) <= set(found) else None

    def fitting(self, *dims: Optional[int]) -> List[Output]:
        """The outputs whose shapes without the batch fit these sizes."""
        return [output for output in self.outputs if output.fits(*dims)]

    def writer(self, blob: str) -> Optional[OperatorDef]:
        """The operator that writes a blob last."""
        return next((op for op in reversed(self.net.op) if blob in op.output), None)

    def composition(self, blob: str, depth: int = 8) -> Tuple[str, ...]:
        """The types that made a blob's numbers: one, or one for each part that was joined to make it.

        Parts of equal make, such as the levels of a detector, count as one.
        """
        op = self._maker(blob)
        if op is None:
            return ("",)
        if op.type not in ("Concat", "Stack", "Pack") or depth == 0:
            return (op.type,)
        parts = [self.composition(name, depth - 1) for name in op.input if self.writer(name) is not None]
        if len(set(parts)) == 1:
            return parts[0]
        joined: List[str] = []
        for part in parts:
            joined += part
        return tuple(joined)

    def _maker(self, blob: str) -> Optional[OperatorDef]:
        """The last operator that changed the numbers of a blob."""
        found = None
        for found in self._writers(blob):
            if found.type not in (*PASSIVE, *PARTS):
                break
        return found

    def _writers(self, blob: str) -> Iterator[OperatorDef]:
        """The operators that lead to a blob along first inputs, the last one first; one that works in place occurs
        once."""
        for op in reversed(self.net.op):
            if blob in op.output:
                yield op
                if not op.input:
                    return
                blob = op.input[0]

    def chain(self, blob: str, length: int = 8) -> List[OperatorDef]:
        """The operators that lead to a blob along first inputs, the last one first, without those that pass numbers
        on."""
        return list(islice((op for op in self._writers(blob) if op.type not in PASSIVE), length))

    def ancestors(self, blob: str) -> FrozenSet[str]:
        """The types of all operators that a blob depends on."""
        wanted: Set[str] = {blob}
        types: Set[str] = set()
        for op in reversed(self.net.op):
            if not wanted.isdisjoint(op.output):
                wanted.update(op.reads())
                types.add(op.type)
        return frozenset(types)


def pictures_of(infos: Sequence[TensorInfo], resize: Optional[Sequence[int]] = None) -> Tuple[Picture, ...]:
    """The inputs that are pictures: rank 4, one, three or four channels. ``resize`` says sizes that are open."""
    found = []
    for info in infos:
        layout = layout_of(info.shape)
        if layout is None or info.shape is None:
            continue
        channels = info.shape[1] if layout == "NCHW" else info.shape[3]
        sizes = info.shape[2:] if layout == "NCHW" else info.shape[1:3]
        height, width = (known(size) if known(size) else wanted for size, wanted in zip(sizes, resize or (None, None)))
        assert isinstance(channels, int)
        found.append(Picture(info.name, height, width, channels, layout))
    return tuple(found)


def layout_of(shape: Optional[Sequence[Dim]]) -> Optional[str]:
    """ "NCHW" or "NHWC" if an input of this shape is a picture, else None."""
    if shape is None or len(shape) != 4:
        return None
    if shape[1] in (1, 3) and shape[3] not in (3,):
        return "NCHW" if shape[1] == 3 or shape[3] != 1 else None
    if shape[3] in (1, 3):
        return "NHWC" if shape[1] not in (3,) or shape[2] != 3 else None
    return None


def known(size: Dim) -> Optional[int]:
    """A size that is a number, else None."""
    return size if isinstance(size, int) else None
