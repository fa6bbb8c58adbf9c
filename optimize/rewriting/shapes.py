"""What shape inference knows about a net whose inputs may have open sizes.

Inference runs for several choices of the open sizes, and only what all choices agree on counts as known. An example of
a shape is the first choice; it is never the only one unless the net refuses all others. A choice that an operator
refuses says nothing, because the net does not run with it.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import (
    Callable,
    Dict,
    Hashable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec

SpecsByName = Dict[str, Optional[TensorSpec]]
Examples = Mapping[str, Sequence[int]]
Result = TypeVar("Result")
Sizes = Dict[Hashable, int]  # by the name of a dimension, or by input and axis if it has none

# The open sizes of the first choice: FIRST for axis 0 of an input, OTHER + STEP * axis for the other axes. Networks
# halve images up to five times, hence the multiples of 32. Of an input with more than PLANE open sizes beside axis 0, a
# volume, those axes get OTHER % STEP + STEP * axis: a net may make a hundred channels of each of its voxels.
FIRST, OTHER, STEP = 2, 224, 32
PLANE = 2
SHORT = (1, 37, 6)  # first, other and step of samples for nets that refuse those, as position tables have an end
LARGEST_VALUE = 1 << 20  # bytes of what follows from known sizes; larger ones say nothing about shapes
LARGEST_SAMPLE = 1 << 30  # bytes; the product of several such sizes may exceed the memory of a machine
# How sizes are varied: each line gives the first of its functions whose sizes the net accepts. Odd sizes reveal more.
VARIATIONS: Sequence[Sequence[Callable[[int], int]]] = (
    (lambda size: 2 * size + 1, lambda size: 2 * size),
    (lambda size: size // 16 | 1, lambda size: size // 4, lambda size: size // 2),
    (lambda size: 1,),
    (lambda size: 0,),
)
USUAL = 2  # choices of common sizes: the first, and the one with all sizes about doubled; the others may be rare
MOST_SINGLE = 12  # open sizes that are also varied one by one, after all together


class Stop(NamedTuple):
    """Why inference knows nothing about an operator's outputs; ``refused`` if the operator refuses its inputs."""

    reason: str
    refused: bool


class Choice(NamedTuple):
    """The specs of a net's inputs for one choice of their open sizes, and what ``infer_more`` gives for it."""

    inputs: SpecsByName
    found: SpecsByName
    stops: Dict[int, Stop]


def choices_of(
    net: NetDef, constants: SpecsByName, inputs: Sequence[TensorInfo], examples: Optional[Examples] = None
) -> List[Choice]:
    """Several choices of open sizes; one if no size is open.

    The spec is None for an input of unknown rank or dtype without an example. constants: the specs of the other blobs
    that the net reads. Choices that the net refuses are left out, and so are choices that show nothing new.
    """
    examples = examples or {}
    start, found, stops = _first_choice(net, constants, inputs, examples)
    kept = [Choice(_specs(inputs, examples, start), found, stops)]
    differences, tried, taken = _Differences(found), [start], [start]
    for alternatives in _variations(start):
        for sizes in alternatives:
            if sizes in tried:
                continue
            tried.append(sizes)
            choice = _specs(inputs, examples, sizes)
            found, others = infer_more(net, {**constants, **choice})
            if all(place in stops for place, stop in others.items() if stop.refused):
                taken.append(sizes)
                kept += [Choice(choice, found, others)] if differences.shown_by(found) else []
                break
    given = _start([info for info in inputs if info.name in examples], examples)
    only = [key for key in start if key not in given and all(sizes[key] == start[key] for sizes in taken)]
    if only:  # the net may refuse other sizes by chance; such a choice makes what depends on them unknown
        choice = _specs(inputs, examples, {**start, **{key: 2 * start[key] for key in only}})
        kept.append(Choice(choice, *infer_more(net, {**constants, **choice})))
    return kept


def sample_specs(
    inputs: Sequence[TensorInfo], first: int = 1, other: int = OTHER, step: int = STEP
) -> Dict[str, TensorSpec]:
    """The specs of one sample: an open size is ``first`` for axis 0 and ``other + step * axis`` for the other axes;
    smaller sizes for volumes.

    UsageError, naming the input, if its rank or dtype is not known or if the sample would be too large.
    """
    sizes = _start(inputs, {}, first, other, step)
    chosen = _specs(inputs, {}, sizes)
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


def first_taken(inputs: Sequence[TensorInfo], attempt: Callable[[Dict[str, TensorSpec]], Result]) -> Result:
    """What ``attempt`` returns for a sample of the usual sizes, or for a short sample if it refuses the usual one."""
    usual = sample_specs(inputs)
    try:
        return attempt(usual)
    except ArmnetError:
        short = sample_specs(inputs, *SHORT)
        if short != usual:
            with suppress(ArmnetError):
                return attempt(short)
        raise


def _keys(info: TensorInfo, examples: Examples) -> List[Union[int, Hashable]]:
    """For each dimension of an input: its size, or the key of its open size."""
    dims = info.shape if info.shape is not None else [None] * len(examples[info.name])
    return [(info.name, axis) if dim is None else dim for axis, dim in enumerate(dims)]


def _start(
    inputs: Sequence[TensorInfo], examples: Examples, first: int = FIRST, other: int = OTHER, step: int = STEP
) -> Sizes:
    """The sizes of the first choice: those of the examples, and the default ones for all other open sizes."""
    given: Sizes = {}
    usual: Sizes = {}
    for info in inputs:
        if info.shape is None and info.name not in examples:
            continue
        keys = _keys(info, examples)
        is_volume = sum(not isinstance(key, int) for key in keys[1:]) > PLANE
        least = other % STEP if is_volume else other
        for axis, key in enumerate(keys):
            if isinstance(key, int):
                continue
            if info.name not in examples:
                names: Sequence[Hashable] = _terms(key) or [key]
                for one in names:
                    if not isinstance(one, int):
                        usual.setdefault(one, least + step * axis if axis else first)
            elif given.setdefault(key, examples[info.name][axis]) != examples[info.name][axis]:
                size = examples[info.name][axis]
                raise UsageError(f"the examples give dimension {key!r} both the size {given[key]} and {size}")
    return {**usual, **given}


def _first_choice(
    net: NetDef, constants: SpecsByName, inputs: Sequence[TensorInfo], examples: Examples
) -> Tuple[Sizes, SpecsByName, Dict[int, Stop]]:
    """The sizes of the first choice, and what ``infer_more`` finds for it. Short sizes are taken if the net refuses the
    usual ones and inference finds more with the short ones.
    """
    usual, short = _start(inputs, examples), _start(inputs, examples, FIRST, *SHORT[1:])
    found, stops = infer_more(net, {**constants, **_specs(inputs, examples, usual)})
    if usual != short and any(stop.refused for stop in stops.values()):
        others, fewer = infer_more(net, {**constants, **_specs(inputs, examples, short)})
        if _known(others) > _known(found):
            return short, others, fewer
    return usual, found, stops


def _known(specs: SpecsByName) -> int:
    return sum(spec is not None for spec in specs.values())


def _specs(inputs: Sequence[TensorInfo], examples: Examples, sizes: Sizes) -> SpecsByName:
    specs: SpecsByName = {}
    for info in inputs:
        dtype = info.dtype or ("float32" if info.name in examples else None)
        if dtype is None or (info.shape is None and info.name not in examples):
            specs[info.name] = None
            continue
        keys = _keys(info, examples)
        specs[info.name] = TensorSpec([_size(key, sizes) for key in keys], dtype)
    return specs


def _terms(key: Hashable) -> List[Union[int, str]]:
    """The numbers and names in the name of a dimension that is a sum, "past + 1", as exporters write it; else none."""
    words = [word.strip() for word in key.split("+")] if isinstance(key, str) else []
    if len(words) < 2 or not all(word.isdigit() or word.isidentifier() for word in words):
        return []
    return [int(word) if word.isdigit() else word for word in words]


def _size(key: Union[int, Hashable], sizes: Sizes) -> int:
    if isinstance(key, int):
        return key
    return sizes[key] if key in sizes else sum(_size(term, sizes) for term in _terms(key))


def _variations(start: Sizes) -> Iterator[List[Sizes]]:
    """Lists of alternatives to the sizes of the first choice.

    All sizes vary together, then each by itself, and then all differ: this separates independent sizes from sizes that
    belong together.
    """
    together = [list(start)] if start else []
    alone = [[key] for key in islice(start, MOST_SINGLE)] if len(start) > 1 else []
    for keys in [*together, *alone]:
        for variation in VARIATIONS:
            yield [{**start, **{key: vary(start[key]) for key in keys}} for vary in variation]
    if alone:
        yield [{key: least + step * at for at, key in enumerate(start)} for least, step in ((5, 2), (OTHER, STEP))]


class _Differences:
    """Which sizes of a net's blobs have differed so far, from each other or from choice to choice."""

    def __init__(self, found: SpecsByName):
        self._blobs = [(name, spec.shape) for name, spec in found.items() if spec is not None]
        self._seen: List[List[object]] = []
        self._known = 0
        self.shown_by(found)

    def shown_by(self, found: SpecsByName) -> bool:
        """Whether another choice shows new differences; if so, they are remembered."""
        column: List[object] = []
        for name, shape in self._blobs:
            spec = found.get(name)
            agrees = spec is not None and len(spec.shape) == len(shape)
            column += spec.shape if spec is not None and agrees else [None] * len(shape)
        rows = list(zip(*self._seen, column))
        known = len(set(rows)) + sum(len(set(row)) > 1 for row in rows)
        grows = known > self._known
        if grows:
            self._seen.append(column)
            self._known = known
        return grows


def infer_more(net: NetDef, known: Mapping[str, Optional[TensorSpec]]) -> Tuple[SpecsByName, Dict[int, Stop]]:
    """``known`` and the inferred specs of all other blobs; None for those that depend on data or on unknown blobs.

    The second result gives, for each operator at which inference stopped, its place in the net and the reason.
    """
    specs: SpecsByName = dict(known)
    stops: Dict[int, Stop] = {}
    for place, op in enumerate(net.op):
        if all(name in specs for name in op.output if name):
            continue
        found = _infer(op, [specs.get(name) if name else None for name in op.input])
        if isinstance(found, Stop):
            stops[place] = found
            found = []
        specs.update(dict.fromkeys(name for name in op.output if name))
        specs.update({name: spec for name, spec in zip(op.output, found) if name})
    return specs, stops


def _infer(op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> Union[Sequence[TensorSpec], Stop]:
    if any(name and spec is None for name, spec in zip(op.input, inputs)):
        return []
    try:
        return infer_operator(op, inputs, LARGEST_VALUE)[1]
    except DataDependent:
        return Stop(f"{op.signature()}: the shape of what it makes depends on data", refused=False)
    except ArmnetError as error:
        return Stop(str(error), refused=True)
