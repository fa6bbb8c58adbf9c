"""Formats outputs as text, JSON or .npz."""

from __future__ import annotations

import io
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.app.display import shape_text
from runtime_arm.app.pictures import best
from runtime_arm.errors import UsageError
from runtime_arm.files import write_file
from runtime_arm.netdef import Array
from runtime_arm.registry.specs import QuantizedTensor

Outputs = Mapping[str, Any]


def answers_wanted(top: Optional[int], labels: Optional[Sequence[str]]) -> int:
    """How many answers to print: ``--top``, or 5 if there are labels, or none. UsageError for a negative number."""
    if top is not None and top < 0:
        raise UsageError(f"--top must be 0 or more, got {top}")
    return top if top is not None else 5 if labels else 0


def plain(value: Any) -> Array:
    """The array of an output; of a quantised output its integers."""
    return value.values if isinstance(value, QuantizedTensor) else np.asarray(value)


def summarise(name: str, outputs: Outputs, labels: Optional[Sequence[str]], top: int) -> Dict[str, Any]:
    """One run as JSON: the shapes and ranges of its outputs, and the ``top`` best answers of the first output.

    For a batch of several items the best answers of each item are listed; "item" is its number.
    """
    described = {key: _describe(plain(value)) for key, value in outputs.items()}
    answers = _best_answers(plain(next(iter(outputs.values()))), labels, top) if top and outputs else []
    return {"input": name, "outputs": described, "top": answers}


def _best_answers(scores: Array, labels: Optional[Sequence[str]], top: int) -> List[Dict[str, Any]]:
    if scores.ndim < 2 or len(scores) < 2:
        return [answer._asdict() for answer in best(scores, labels, top)]
    return [{"item": item, **answer._asdict()} for item, row in enumerate(scores) for answer in best(row, labels, top)]


def _describe(array: Array) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"shape": list(array.shape), "dtype": array.dtype.name}
    if array.size and array.dtype.kind in "fiub":
        real = array.astype(np.float64)
        facts.update(min=float(real.min()), max=float(real.max()), mean=float(real.mean()))
    return facts


def text(summary: Mapping[str, Any]) -> str:
    """The best answers, or a line for each output if there are none."""
    if summary["top"]:
        return "\n".join([summary["input"], *map(_answer_line, summary["top"])])
    lines = []
    for name, facts in summary["outputs"].items():
        numbers = (
            f"  min {facts['min']:.6g}  max {facts['max']:.6g}  mean {facts['mean']:.6g}" if "min" in facts else ""
        )
        lines.append(f"{summary['input']}: {name}  {facts['dtype']} {shape_text(facts['shape'])}{numbers}")
    return "\n".join(lines)


def _answer_line(answer: Mapping[str, Any]) -> str:
    item = f"  [{answer['item']}]" if "item" in answer else ""
    return f"{item}  {answer['score']:10.6g}  {answer['label']}"


def write_npz(path: str, runs: Sequence[Outputs]) -> None:
    """Writes the outputs by name, those of several runs stacked.

    UsageError if an output's shape differs between runs, ResourceError if the file cannot be written.
    """
    arrays: Dict[str, Any] = {}
    for name in runs[0]:
        values: List[Array] = [plain(outputs[name]) for outputs in runs]
        if len({value.shape for value in values}) > 1:
            raise UsageError(
                f"the shape of output {name!r} differs between runs, so they cannot be stacked in one file; "
                "give one input at a time"
            )
        arrays[name] = values[0] if len(values) == 1 else np.stack(values)
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_file(path, [content.getbuffer()])
