"""``assert_same_answers``: a pair on a device answers as the original does in its own runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from armnet.comparison import TOLERANCE, compare
from armnet.evaluation.data import data_of
from armnet.evaluation.example import Data, Example, Finding
from armnet.evaluation.findings import differ, finding_of
from armnet.evaluation.on_target import OnTarget
from armnet.evaluation.place import Place, by_another_runtime
from armnet.model_files import completed
from armnet.opening import name_of
from armnet.opening import open as open_model
from armnet.other_runtimes import Original, Session, open_session
from armnet.pytest_plugin.device import Device, files_of
from exporter.compare.divergence import relative_error
from exporter.compare.original_run import run_original
from runtime_arm.app.answer import Answer, Options
from runtime_arm.app.model import Model
from runtime_arm.app.outputs import plain
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.files import AnyPath
from runtime_arm.pair.pair import Pair

LISTED = 5  # examples
_RUNTIMES = {".onnx": "onnxruntime", ".tflite": "tflite"}
_OUTPUTS = "outputs"  # of a finding: the arrays, which are compared beside the answer


class Error(NamedTuple):
    """The largest difference of an output from the original's, relative to the original's largest magnitude."""

    size: float
    example: str
    output: str


def assert_same_answers(
    model: Union[AnyPath, Sequence[AnyPath]],
    pair: Union[Pair, AnyPath, None],
    data: Any,
    device: Device,
    top1: float = 1.0,
    tolerance: Optional[float] = TOLERANCE,
) -> None:
    """Fails if a pair on a device does not answer as the original, run here by its own runtime.

    model: the file or files of the original (onnxruntime and LiteRT run theirs; ``armnet compare`` says what runs the
    others). pair: the pair or bundle that was made from it; None makes one. data: what ``armnet evaluate`` takes, or a
    list of inputs as ``armnet.open(pair).predict`` takes them. top1: the lowest share of examples with the same answer;
    for a classifier, the same best class. tolerance: the largest error of an output, relative to the original's largest
    magnitude; None compares only answers. A runtime that is not installed skips the test.
    """
    __tracebackhide__ = True
    sources = completed(files_of(model))
    with device.or_skip(), open_model(sources if pair is None else pair, notice=lambda text: None) as opened:
        examples, truths = _examples(data, opened)
        original = _original(sources, opened)
        options = Options() if truths is None else Options(truths.measure.threshold)
        here = by_another_runtime(opened, original.run, original.name, options, _kept)
        there = OnTarget(device.name, opened, options, keep=_kept, target=device.target)
        ours, theirs = _findings(there, examples), _findings(here, examples)
        worst = max(_error(one.name, theirs[place], ours[place]) for place, one in enumerate(examples))
        differing = [place for place in ours if differ(_answer(theirs[place]), _answer(ours[place]))]
        agreement = 1 - len(differing) / len(examples)
        device.record("agreement", agreement)
        device.record("error", worst.size)
        if truths is not None:
            scores = truths.measure.scores([(examples[place], finding) for place, finding in ours.items()])
            for name, value in scores.metrics.items():
                device.record(name, value)
        lines = []
        if agreement < top1:
            share = f"{len(examples) - len(differing)} of {len(examples)}"
            lines.append(f"the same answer to {share} examples, {agreement:.4g}; at least {top1:g} is asked for")
            lines += [_told(opened, examples[place], theirs[place], ours[place]) for place in differing[:LISTED]]
            lines += [f"  and {len(differing) - LISTED} more"] if len(differing) > LISTED else []
        if tolerance is not None and worst.size > tolerance:
            where = f"in output {worst.output} of {worst.example}"
            lines.append(f"the largest error is {worst.size:.3g}, {where}; {tolerance:g} is allowed")
        if lines:
            said = f"{_called(pair, sources)} on {device.name} does not answer as {name_of(sources)} by {original.name}"
            raise AssertionError("\n  ".join([said, *lines, _cause(sources, opened.pair, tolerance)]))


def _called(pair: Union[Pair, AnyPath, None], sources: Sequence[AnyPath]) -> str:
    return f"the pair of {name_of(sources)}" if pair is None or isinstance(pair, Pair) else name_of([pair])


def _examples(data: Any, model: Model) -> tuple[Sequence[Example], Optional[Data]]:
    """The examples, and their data set if the true answers are known."""
    if isinstance(data, (str, os.PathLike)):
        found = data_of(data, model)
        return found.examples, found
    values = [data] if isinstance(data, (Mapping, np.ndarray)) else list(data)
    if not values:
        raise UsageError("data holds no examples; nothing would be compared")
    return [Example(f"data[{number}]", value, None) for number, value in enumerate(values)], None


def _original(sources: Sequence[AnyPath], model: Model) -> Session:
    """The original, ready to answer, by the pair's names."""
    suffix = Path(sources[0]).suffix.lower()
    if len(sources) == 1 and suffix in _RUNTIMES:
        return open_session(_RUNTIMES[suffix], Original(model.pair, Path(sources[0]), os.fspath(sources[0])), 1)
    names = [info.name for info in model.pair.outputs]

    def run(feeds: Mapping[str, Any]) -> Dict[str, Any]:
        seen = {one.blob: one.value for one in run_original(sources, feeds, names).blobs}
        absent = [name for name in names if name not in seen]
        if absent:
            raise UsageError(f"{name_of(sources)}: its runtime does not show {', '.join(absent)}")
        return {name: seen[name] for name in names}

    return Session("its own runtime", run)


def _kept(answer: Answer) -> Finding:
    """The answer as evaluations keep it, if they know its kind, and the outputs."""
    outputs = {name: plain(value) for name, value in answer.outputs.items()}
    return {**({} if answer.result.kind == "tensors" else finding_of(answer.result)), _OUTPUTS: outputs}


def _answer(finding: Finding) -> Finding:
    return {key: value for key, value in finding.items() if key != _OUTPUTS}


def _findings(place: Place, examples: Sequence[Example]) -> Dict[int, Finding]:
    """The findings of all examples, in order; AssertionError for one that has no answer."""
    found = dict(sorted(place.findings(examples, range(len(examples))), key=lambda one: one[0]))
    for number, finding in found.items():
        if "error" in finding:
            raise AssertionError(f"{place.name}: {examples[number].name} has no answer: {finding['error']}")
    return found


def _error(example: str, theirs: Finding, ours: Finding) -> Error:
    """The worst output of an example."""
    errors = []
    for name, value in theirs[_OUTPUTS].items():
        other = ours[_OUTPUTS][name]
        size = relative_error(value, other) if value.shape == other.shape else float("inf")
        errors.append(Error(size, example, name))
    return max(errors)


def _told(model: Model, example: Example, theirs: Finding, ours: Finding) -> str:
    return f"  {example.name}: the original says {_said(model, theirs)}, the pair {_said(model, ours)}"


def _said(model: Model, finding: Finding) -> str:
    """An answer in few words."""
    if "top" in finding:
        number, score = finding["top"][0]
        label = model.labels[number] if model.labels else number
        return f"{label} ({score:.4g})"
    for key, read in _SHORT.items():
        if key in finding:
            return read(finding[key])
    return "something else"


_SHORT: Dict[str, Callable[[Any], str]] = {
    "text": repr,
    "boxes": lambda boxes: f"{len(boxes)} boxes",
    "events": lambda events: f"{len(events)} sounds",
    "shape": lambda shape: f"another mask of {shape[0]}x{shape[1]}",
}


def _cause(sources: List[AnyPath], pair: Pair, tolerance: Optional[float]) -> str:
    """Where pair and original begin to differ on this machine, or that they do not."""
    try:
        first = compare(sources, pair, tolerance=TOLERANCE if tolerance is None else tolerance).first
    except ArmnetError as error:
        return f"why was not found: {error}"
    if first is None:
        return (
            "on this machine pair and original agree on random inputs: suspect the device, or the inputs' preparation"
        )
    where = f"the first blob that differs: {first.blob}, error {first.error:.2e}, computed by {first.producer}"
    return f"{where}; likely cause: {first.cause}"
