"""Compares one model with its own runtime, plain and optimised, with one worker and two, for sizes that it leaves open.

``python -m scripts.checking.one_model FILE...`` prints its row as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from functools import lru_cache, partial
from pathlib import Path
from typing import AbstractSet, Any, Callable, Container, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from armnet import Predictor, Report, export, optimize, support
from armnet.comparison import compare, in_portions, specs_for
from exporter.compare.divergence import ROUNDING, Divergence, divergences
from exporter.compare.original_run import run_original
from optimize.engines.accuracy import difference
from optimize.engines.sample_inputs import in_last_bits, taken
from optimize.examples import stored_examples
from optimize.rewriting.shapes import OTHER, STEP, sample_specs
from runtime_arm.errors import ArmnetError, ExportError, MissingDependency, UsageError, first_line
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.records import replace
from runtime_arm.registry.specs import TensorSpec

OK, IDLE, REFUSED, WRONG, CRASH = "ok", "idle", "refused", "wrong", "crash"
TOLERANCE = 1e-3  # of the largest magnitude of a blob
SIZES = ((1, OTHER, STEP), (3, 37, 6), (1, 64, 32))  # open sizes: of axis 0, and of other axes
LAST = (512, 256, 8)  # only of open last axes, the others are 1: several inputs may belong together without saying so
PICTURE = (1, 3, 224, 224)  # of an input of which no shape is known
SOUND = (1, 16000, 0)  # one more for nets that take no pictures: they may want a second of sound
BATCHES = (1, 3)  # of pictures of the size that the pair suggests
ROUNDED_STATES = "DynamicQuantizeLSTM"  # what it remembers is rounded to steps, again and again
FAR = 0.25  # of the largest magnitude: onnxruntime is up to 0.15 from itself, with and without its optimiser
SENSITIVE = 10.0  # times as far as the last bits of inputs move an output may be rounding, which all operators do
CHOICES = 2  # of those sizes that are run
BY_ROUNDING = "differs by rounding alone: each operator computes what the runtime does from the runtime's own numbers"
MOVED = "optimised, it differs by no more than ten times what the last bits of its inputs make"

Feeds = Mapping[str, Array]


class Problem(Exception):
    """What is wrong with the results."""


def check(paths: Sequence[Path], row: Dict[str, Any]) -> None:
    """Fill the row of a model. ArmnetError if it is refused, Problem if something is wrong."""
    missing = [one.type for one in support(*paths) if one.problem]
    start = time.perf_counter()
    try:
        plain = export(*paths)
    except ArmnetError as error:
        if missing or _lacks_weights(paths):
            raise
        raise Problem(f"support finds nothing missing, export refuses it: {first_line(error)}") from error
    row["export seconds"] = round(time.perf_counter() - start, 2)
    row["operators"] = len(plain.predict_net.op)
    if missing:
        raise Problem(f"support finds {', '.join(missing)} missing, export translates it")
    start, report = time.perf_counter(), Report()
    fast = optimize(plain, report=report)
    row["optimize seconds"] = round(time.perf_counter() - start, 2)
    row["optimised operators"] = len(fast.predict_net.op)
    refusal = _run_all(paths, plain, fast, row)
    if not row.get("inputs"):
        row["outcome"] = IDLE
    rounding = [BY_ROUNDING] if _number(row.get("from the runtime")) > TOLERANCE else []
    rounding += [MOVED] if _number(row.get("optimised from plain")) > _allowed(plain) else []
    row["remark"] = "; ".join([*([refusal] if row["outcome"] == IDLE else []), *rounding, *report.notes])


def _lacks_weights(paths: Sequence[Path]) -> bool:
    """Whether the file is only the half of a model that describes the computation."""
    return len(paths) == 1 and paths[0].suffix.lower() not in (".onnx", ".tflite")


def _run_all(paths: Sequence[Path], plain: Pair, fast: Pair, row: Dict[str, Any]) -> str:
    """Run both pairs for the choices of sizes that the plain one takes; why it takes no more of them."""
    refusal, taken = "", []
    for specs in _choices(plain):
        try:
            feeds, wanted = _accepted(plain, specs())
        except ArmnetError as error:
            refusal = first_line(error)
            continue
        taken.append(" ".join(f"{name}={','.join(map(str, array.shape))}" for name, array in feeds.items()))
        row["inputs"] = "; ".join(taken)
        _compare_with_runtime(paths, plain, feeds, row)
        moved = lru_cache(None)(partial(_moved, plain, feeds, wanted))
        _compare(row, "optimised from plain", wanted, _outputs(fast, feeds, 1), _allowed(plain), moved)
        _compare(row, "two workers from one", wanted, _outputs(plain, feeds, 2), _allowed(plain), moved)
        _compare(row, "two workers from one", _outputs(fast, feeds, 1), _outputs(fast, feeds, 2), TOLERANCE, moved)
        if len(taken) == CHOICES:
            break
    return refusal


def _choices(plain: Pair) -> List[Callable[[], Mapping[str, TensorSpec]]]:
    """Functions that give specs of inputs, which may be refused: those that the pair suggests, then others if sizes are
    open.
    """
    suggested = [stored_examples(plain, batch) for batch in BATCHES]
    choices = [partial(sample_specs, _with(plain.inputs, examples)) for examples in suggested if examples]
    inputs = _with(plain.inputs, {info.name: PICTURE for info in plain.inputs if info.shape is None})
    is_open = not all(info.is_static for info in inputs)
    flat = all(len(info.shape) <= 2 for info in inputs)
    sizes = (*SIZES, *([SOUND] if flat else [])) if is_open else SIZES[:1]
    alike = [_with(inputs, _alike(inputs, size)) for size in LAST] if is_open and len(inputs) > 1 else []
    return [
        *choices,
        *(partial(sample_specs, inputs, *one) for one in sizes),
        *(partial(sample_specs, one) for one in alike),
    ]


def _alike(inputs: Sequence[TensorInfo], last: int) -> Dict[str, Tuple[int, ...]]:
    """Shapes of the inputs in which open last axes have one size, and all other open sizes are 1."""
    return {
        info.name: tuple(
            dim if isinstance(dim, int) else (last if axis == len(info.shape) - 1 else 1)
            for axis, dim in enumerate(info.shape)
        )
        for info in inputs
    }


def _with(inputs: Sequence[TensorInfo], examples: Mapping[str, Tuple[int, ...]]) -> List[TensorInfo]:
    return [
        replace(info, shape=examples[info.name], dtype=info.dtype or "float32") if info.name in examples else info
        for info in inputs
    ]


def _accepted(plain: Pair, specs: Mapping[str, TensorSpec]) -> Tuple[Feeds, Dict[str, Any]]:
    """Random inputs of these specs that the pair accepts, and its outputs."""
    with Predictor(plain, threads=1) as predictor:
        return taken(predictor, specs)[:2]


def _outputs(pair: Pair, feeds: Feeds, threads: int) -> Dict[str, Any]:
    with Predictor(pair, threads=threads) as predictor:
        return predictor.run(feeds)


def _compare_with_runtime(paths: Sequence[Path], plain: Pair, feeds: Feeds, row: Dict[str, Any]) -> None:
    try:
        found = compare(list(paths), plain, feeds, tolerance=TOLERANCE)
    except (ExportError, MissingDependency, UsageError) as error:  # the runtime is missing or refuses the model
        row["from the runtime"] = f"not compared: {first_line(error)}"
        return
    error = max((blob.error for blob in found.blobs), default=0.0)
    row["from the runtime"] = f"{max(error, _number(row.get('from the runtime'))):.1e}"
    blob = _fault(paths, plain, feeds, {one.blob for one in found.blobs}) if found.first else None
    if blob is not None:
        raise Problem(
            f"{row['inputs']}: {blob.blob!r}, made by {blob.producer}, differs by {blob.error:.1e}: {blob.cause}"
        )


def _fault(paths: Sequence[Path], plain: Pair, feeds: Feeds, both: AbstractSet[str]) -> Optional[Divergence]:
    """The first blob that differs from the runtime's although it is computed from the runtime's own numbers.

    both: the blobs that the pair and the runtime have.

    In a whole run, a difference may come from rounding: large scores before a Softmax, or a step of integers, amplify
    small differences, and values that are nearly equal change their order. Here each operator reads the runtime's
    numbers, so the rounding of earlier operators has no effect. A layer that rounds its own states carries a differing
    step through the rest of a sequence: it may be FAR away.
    """
    producers = {name: op for op in plain.predict_net.op for name in op.output if name}
    specs = specs_for(plain, feeds)
    numbers = {name for name in both if (spec := specs.get(name)) is None or _is_number(spec)}
    for portion in in_portions(plain, specs):
        wanted = [name for name in portion if name in both and name in producers]
        if not wanted:
            continue
        original = run_original(paths, feeds, {*wanted, *_read_by(wanted, producers, numbers)})
        seen = {one.blob: one.value for one in original.blobs if one.blob in producers}
        theirs = {name: value for name, value in seen.items() if isinstance(value, np.ndarray) and _is_number(value)}
        part, reads = _fed_with(plain, theirs, wanted)
        with Predictor(part) as predictor:
            ours = predictor.run({**feeds, **reads})
        found = (row for row in divergences(original, ours, producers, TOLERANCE) if row.diverges)
        blob = next((row for row in found if ROUNDED_STATES not in row.producer or row.error > FAR), None)
        if blob is not None:
            return blob
    return None


def _read_by(blobs: Sequence[str], producers: Mapping[str, OperatorDef], numbers: Container[str]) -> Set[str]:
    """What the operators that make these blobs read, and what is behind that until it is among ``numbers``."""
    found: Set[str] = set()
    waiting = [*blobs]
    while waiting:
        op = producers.get(waiting.pop())
        for name in () if op is None else {*op.reads()} - found:
            found.add(name)
            if name not in numbers:
                waiting.append(name)
    return found


def _is_number(value: Union[Array, TensorSpec]) -> bool:
    """Whether the blob can hold rounding errors. Sizes and indices are left to the pair, which may have to know
    them.
    """
    return value.dtype.kind == "f" or value.dtype.itemsize < 4


def _fed_with(pair: Pair, theirs: Feeds, wanted: Sequence[str]) -> Tuple[Pair, Feeds]:
    """The pair's operators that make the wanted blobs, and inputs "theirs:x" that they read in place of blobs x."""
    ops, needed = [], {*wanted}
    for op in reversed(pair.predict_net.op):
        if not needed.isdisjoint(op.output):
            ops.append(op.replace(input=tuple(f"theirs:{name}" if name in theirs else name for name in op.input)))
            needed.update(name for name in op.reads() if name not in theirs or name not in op.input)
    reads = {
        f"theirs:{name}": value for name, value in theirs.items() if any(f"theirs:{name}" in op.input for op in ops)
    }
    inputs = tuple(TensorInfo(name, value.shape, value.dtype.name) for name, value in reads.items())
    net = pair.predict_net
    net = net.replace(
        op=tuple(reversed(ops)), external_input=(*net.external_input, *reads), external_output=tuple(wanted)
    )
    return pair.replace(predict_net=net, inputs=(*pair.inputs, *inputs), outputs=()), reads


def _allowed(pair: Pair) -> float:
    """How far outputs may be from those of a pair that computes integer steps with floats."""
    rounding = ("QuantizeLinear", "DynamicQuantizeLinear", ROUNDED_STATES)
    return FAR if any(op.type in rounding for op in pair.predict_net.op) else TOLERANCE


def _compare(
    row: Dict[str, Any],
    column: str,
    wanted: Mapping[str, Any],
    actual: Mapping[str, Any],
    allowed: float,
    moved: Callable[[], Mapping[str, float]],
) -> None:
    """Note the largest difference of an output. Problem if it is too large: more than allowed, and more than rounding
    explains. moved: how far it moves each output, asked only if it matters."""
    apart = {name: _apart(wanted[name], actual.get(name)) for name in wanted}
    row[column] = f"{max([_number(row.get(column)), *apart.values()]):.1e}"
    far = {name: error for name, error in apart.items() if error > allowed}
    if far:
        by_rounding = moved()
        unexplained = [error for name, error in far.items() if error > SENSITIVE * by_rounding[name]]
        if unexplained:
            raise Problem(f"{row['inputs']}: {column} differs by {max(unexplained):.1e}")


def _moved(plain: Pair, feeds: Feeds, wanted: Mapping[str, Any]) -> Dict[str, float]:
    """How far the last bits of the inputs move each output; 0 if the outputs cannot be compared."""
    rng = np.random.default_rng(0)
    shaken = _outputs(plain, {name: in_last_bits(array, rng) for name, array in feeds.items()}, 1)
    apart = {name: _apart(wanted[name], shaken[name]) for name in wanted}
    return {name: error if np.isfinite(error) else 0.0 for name, error in apart.items()}


def _apart(wanted: Any, actual: Any) -> float:
    """The difference of two outputs; 0 for floats that are so small that a sigmoid is no more exact."""
    far = difference(wanted, actual)
    if 0 < far < float("inf") and isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
        return 0.0 if far * np.abs(wanted[np.isfinite(wanted)]).max() <= ROUNDING else far
    return far


def _number(text: Optional[str]) -> float:
    """The number in a cell; 0 if there is none."""
    return float(text) if text and not text.startswith("not") else 0.0


def checked(paths: Sequence[Path]) -> Dict[str, Any]:
    """The row of a model, whatever happens."""
    row: Dict[str, Any] = {"outcome": OK}
    try:
        check(paths, row)
    except Problem as problem:
        row.update({"outcome": WRONG, "remark": str(problem)})
    except ArmnetError as error:
        row.update({"outcome": REFUSED, "remark": first_line(error)})
    except Exception as error:  # whatever escapes is what this is about
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        row.update({"outcome": CRASH, "remark": f"{type(error).__name__} in {where}: {first_line(error)}"})
    return row


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(checked([*map(Path, sys.argv[1:])])))
