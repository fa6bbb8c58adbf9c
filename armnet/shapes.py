"""``--shape NAME=N,N,...``: sizes of inputs that a pair leaves open."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence

from runtime_arm.errors import OperatorError, UsageError, there_are
from runtime_arm.results.facts import pictures_of

if TYPE_CHECKING:
    from runtime_arm.netdef import Array
    from runtime_arm.pair.metadata import TensorInfo
    from runtime_arm.pair.pair import Pair


def parse_shapes(words: Sequence[str]) -> Dict[str, List[int]]:
    """Shapes by name from words such as ``data=1,3,224,224``. UsageError if a word does not have that form."""
    shapes = {}
    for word in words:
        name, _, numbers = word.partition("=")
        try:
            shapes[name] = [int(n) for n in numbers.replace("x", ",").split(",")]
        except ValueError as error:
            raise UsageError(f"--shape takes NAME=N,N,..., got {word!r}") from error
        if min(shapes[name]) < 0:
            raise UsageError(f"--shape {word}: sizes must not be negative")
    return shapes


def shapes_of(words: Sequence[str], pair: Pair) -> Dict[str, List[int]]:
    """Shapes by name from words; also those to which the pair brings a picture or a sound of open size."""
    rule = pair.meta.get("preprocessing") or {}
    sizes = rule.get("crop") or rule.get("resize")
    shapes = parse_shapes(words)
    for info in pair.inputs if isinstance(sizes, (list, tuple)) and len(pair.inputs) == 1 else ():
        for picture in pictures_of([info], sizes):
            batch = info.shape[0] if info.shape and isinstance(info.shape[0], int) else 1
            image = [picture.height or 1, picture.width or 1]
            channels_first = [batch, picture.channels, *image]
            shapes.setdefault(
                info.name, channels_first if picture.layout == "NCHW" else [batch, *image, picture.channels]
            )
    sound = (pair.meta.get("result") or {}).get("sound") or {}
    window = sound.get("window", 0) + sound.get("context", 0)
    for info in pair.inputs if window else ():
        if info.name == sound.get("input") and not info.is_static and len(info.shape or ()) == 2:
            shapes.setdefault(info.name, [1, window])
    return shapes


def feeds_of(files: Optional[Sequence[str]], pair: Pair, shapes: Mapping[str, Sequence[int]]) -> Mapping[str, Array]:
    """The inputs of one run: what --input names, or else random ones of these shapes."""
    from exporter.bundle.random_inputs import random_inputs
    from runtime_arm.app.inputs import read_single_run

    if files:
        return read_single_run(files, pair.inputs, pair.meta.get("preprocessing") or {})
    return random_inputs(pair, shapes=shapes)


def assumptions(inputs: Sequence[TensorInfo], given: Mapping[str, Any]) -> List[str]:
    """A line for each input whose sizes other than the batch were taken as 1; ``given`` as for ``sizes_assumed``."""
    return [
        f"open sizes of input {info.name!r} {info.shape_text()} are taken as 1; "
        f"to change that, give --shape {info.name}=N,N,..."
        for info in _open(inputs, given)
    ]


def require_sizes(inputs: Sequence[TensorInfo], given: Mapping[str, Any]) -> None:
    """UsageError if sizes other than the batch are open: what is measured at a size of 1 says nothing.

    given: as for ``sizes_assumed``.
    """
    for info in _open(inputs, given):
        raise UsageError(
            f"input {info.name!r} {info.shape_text()} leaves sizes open, and times depend on them: "
            f"give --shape {info.name}=N,N,... or --input"
        )


def _open(inputs: Sequence[TensorInfo], given: Mapping[str, Any]) -> List[TensorInfo]:
    """The inputs that are not given and leave other sizes open than that of the batch."""
    left = [info for info in inputs if info.name not in given]
    return [info for info in left if info.shape is None or not all(isinstance(dim, int) for dim in info.shape[1:])]


@contextmanager
def sizes_assumed(inputs: Sequence[TensorInfo], given: Mapping[str, Any]) -> Iterator[None]:
    """Inside the block, an operator that refuses shapes which follow from assumed sizes is a UsageError about --shape.

    given: what the user gave, by input name. UsageError at once if a name is not an input's.
    """
    names = [info.name for info in inputs]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise UsageError(f"no input {unknown!r}; the net takes {there_are(unknown, names)}")
    try:
        yield
    except OperatorError as error:
        assumed = [info for info in inputs if not info.is_static and info.name not in given]
        if not assumed:
            raise
        info = assumed[0]
        raise UsageError(
            f"{error}; open sizes of input {info.name!r} {info.shape_text()} were taken as 1; "
            f"give --shape {info.name}=N,N,..."
        ) from error
