"""Makes a net cheaper to run, ``optimize``, or smaller, ``quantize``; ``pick_engines`` only chooses engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Tuple

from optimize import pipeline
from optimize.engines.pick import AUTO, MEASURE, pick_engines
from optimize.engines.sample_inputs import taken
from optimize.engines.trials import Trials
from optimize.equivalence import Steps, require_equal
from optimize.examples import stored_examples
from optimize.half_steps import in_float32
from optimize.integer_steps import on_integers
from optimize.rewriting.program import Program
from optimize.rewriting.report import Progress, Recorder, Report, quiet
from optimize.rewriting.rewrite import Pass
from optimize.rewriting.shapes import sample_specs
from optimize.rewriting.subnets import run_passes_everywhere
from optimize.rewriting.weights import with_unpacked_fills
from optimize.untangling import untangled
from runtime_arm.errors import UsageError
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.execution.predictor import Predictor
from runtime_arm.imports import lazy_names
from runtime_arm.machine.memory import memory_for
from runtime_arm.netdef import NetDef
from runtime_arm.operators.control.trials import trying
from runtime_arm.pair.argument import require_pair
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import TUNING
from runtime_arm.records import replace
from runtime_arm.registry.schema import find
from runtime_arm.registry.specs import TensorSpec

if TYPE_CHECKING:
    from optimize.quantization import quantize
else:
    __getattr__, __dir__ = lazy_names(__name__, {"quantize": "optimize.quantization"})

__all__ = ["Report", "optimize", "pick_engines", "quantize"]

Shapes = Mapping[str, Sequence[int]]

_TUNING_DROPPED = f"{TUNING} belongs to another net and was dropped; armnet optimize --engines measure makes a new one"


@memory_for("optimize")
@trying()
def optimize(
    pair: Pair,
    engines: str = AUTO,
    *,
    accuracy: Optional[float] = None,
    caffe2_compatible: bool = False,
    keep_biases: bool = False,
    keep_order: bool = False,
    merge_parallel: bool = False,
    paranoid: bool = False,
    stop_after: Optional[int] = None,
    shapes: Optional[Shapes] = None,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    report: Optional[Report] = None,
    progress: Progress = quiet,
) -> Pair:
    """Returns a pair that computes the same at less cost. Optimising its result again changes nothing.

    First, branches, loops and sequences are simplified as far as they are known (see ``optimize.untangling``). Then
    nets in ONNX's QDQ form are made to compute on integers, and the report says how many results differ by one step
    (see ``optimize.integer_steps``). Operators on float16 compute in float32 if no kernel is fast otherwise (see
    ``optimize.half_steps``). The result of all other steps is compared with the plain pair before it is returned (see
    ``optimize.equivalence``). If that is not possible, the report says so.

    How it runs. engines, accuracy, threads, device: as for ``pick_engines``. shapes: examples of input shapes that the
    pair leaves open, for measurements and comparisons; by default the size of pictures that model.json states. The
    result also runs with every other shape with which the pair runs.

    What may be changed. caffe2_compatible: use only operators and encodings that Caffe2 has. keep_biases: do not move
    biases to later operators (see ``shift_biases``). keep_order: do not move operators to save memory.
    merge_parallel: merge 1x1 convolutions that read the same blob.

    What you learn. report: collects what was done and what was refused. progress: called with what is being done, how
    many of these are done, and of how many. paranoid: run the result with free memory poisoned (see
    ``runtime_arm.execution.paranoid``). stop_after: make at most this many steps, to find the one that spoils a result.

    OptimizationError, naming the step or the operator, if one changed what the net computes. UsageError for options
    that contradict each other or the pair. ShapeError for an operator with too few or too many inputs or outputs.

    Examples:
        >>> import armnet
        >>> pair = armnet.export("demo/digits.onnx")
        >>> fast = armnet.optimize(pair)
        >>> len(pair.predict_net.op), len(fast.predict_net.op)
        (18, 8)
    """
    require_pair(pair, "optimize")
    report = Report() if report is None else report
    recorder = Recorder(report, stop_after, progress)
    _check_options(pair, engines, stop_after, caffe2_compatible)
    known, program = _prepared(pair, shapes or stored_examples(pair), caffe2_compatible, recorder)
    passes = _passes(caffe2_compatible, keep_biases, keep_order, merge_parallel)
    result, steps = _rewritten(known, program, passes, recorder)
    if caffe2_compatible:
        result = result.replace(init_net=with_unpacked_fills(result.init_net))
    trials = Trials({})
    if recorder.may_step:
        result = pick_engines(
            result,
            engines,
            accuracy=accuracy,
            plain=known,
            threads=threads,
            device=device,
            stop_after=stop_after,
            report=report,
            progress=progress,
            trials=trials,
        )
    progress("comparison with the plain net", 0, 1)
    require_equal(pair.inputs, known, result.replace(tuning=None), program, steps, report, trials)
    if pair.tuning is not None and result.tuning is None:
        report.notes.append(_TUNING_DROPPED)
    if paranoid:
        report.notes.append(_paranoid(result, sample_specs(known.inputs)))
    return result.replace(inputs=pair.inputs)


def _paranoid(pair: Pair, specs: Mapping[str, TensorSpec]) -> str:
    """Runs the pair in poisoned memory. Returns what a report says of it."""
    with Predictor(pair, threads=1) as predictor:
        feeds = taken(predictor, specs)[0]
    return str(run_paranoid(pair, feeds))


def _check_options(pair: Pair, engines: str, stop_after: Optional[int], caffe2_compatible: bool) -> None:
    if stop_after is not None and stop_after < 0:
        raise UsageError(f"stop_after must not be negative, got {stop_after}")
    if stop_after is not None and engines == MEASURE:
        raise UsageError("stop_after counts steps, and measuring engines is not a step; give one of the two")
    _check_counts(pair.predict_net)
    if caffe2_compatible:
        _refuse_foreign(pair.predict_net)


def _prepared(pair: Pair, shapes: Shapes, caffe2_compatible: bool, recorder: Recorder) -> Tuple[Pair, Program]:
    """The pair with which the result is compared, its inputs of the shapes given, and its program."""
    inputs = _with_examples(pair.check().inputs, shapes)
    if caffe2_compatible:
        known, program = pair.replace(inputs=inputs), Program.of(pair, unpacked=True, examples=shapes)
        recorder.report.warnings += _warnings(known, program)
        return known, program
    simpler, program = untangled(pair, inputs, shapes, recorder)
    known = simpler.replace(inputs=inputs)
    recorder.report.warnings += _warnings(known, program)
    return in_float32(*on_integers(known, program, recorder), recorder)


def _passes(caffe2_compatible: bool, keep_biases: bool, keep_order: bool, merge_parallel: bool) -> Sequence[Pass]:
    unwanted = [
        *([pipeline.SHIFTING] if keep_biases else []),
        *([pipeline.REORDERING] if keep_order else []),
        *([] if merge_parallel else [pipeline.MERGING]),
    ]
    return [one for one in (pipeline.CAFFE2_COMPATIBLE if caffe2_compatible else pipeline.ALL) if one not in unwanted]


def _rewritten(known: Pair, program: Program, passes: Sequence[Pass], recorder: Recorder) -> Tuple[Pair, Steps]:
    """The pair after the passes, and the steps that they made."""

    def rewritten(recorder: Recorder) -> Pair:
        return run_passes_everywhere(program, passes, recorder).pair(known)

    before = len(recorder.report.steps)
    result = rewritten(recorder)
    return result, Steps(recorder.report.steps[before:], lambda count: rewritten(Recorder(stop_after=count)))


def _check_counts(net: NetDef) -> None:
    """ShapeError for an operator with too few or too many inputs or outputs; passes rely on their number."""
    for op in net.op:
        schema = find(op)
        if schema is not None:
            schema.check_counts(op)
        for sub in op.subnets():
            _check_counts(sub)


def _refuse_foreign(net: NetDef) -> None:
    for op in net.op:
        if op.domain not in ("", "caffe2"):
            raise UsageError(f"{op.signature()}: Caffe2 has no such operator; the net cannot be Caffe2-compatible")
        for sub in op.subnets():
            _refuse_foreign(sub)


def _with_examples(inputs: Sequence[TensorInfo], shapes: Shapes) -> Tuple[TensorInfo, ...]:
    """The inputs, with sizes from ``shapes`` where they leave sizes open."""
    for name in shapes:
        if name not in [info.name for info in inputs]:
            raise UsageError(f"no input {name!r}; the net takes {', '.join(info.name for info in inputs) or 'none'}")
    return tuple(_with_example(info, shapes[info.name]) if info.name in shapes else info for info in inputs)


def _with_example(info: TensorInfo, shape: Sequence[int]) -> TensorInfo:
    if min(shape, default=1) < 1:
        raise UsageError(f"input {info.name!r}: sizes must be positive, got {list(shape)}")
    dims = info.shape if info.shape is not None else shape
    if len(dims) != len(shape) or any(isinstance(dim, int) and dim != size for dim, size in zip(dims, shape)):
        raise UsageError(f"input {info.name!r} is {info.shape_text()}, shape {list(shape)} does not fit")
    return replace(info, shape=tuple(shape), dtype=info.dtype or "float32")


def _warnings(pair: Pair, program: Program) -> Sequence[str]:
    unknown = [
        f"the shape of input {info.name!r} is not known; what needs shapes is left as it is, unless "
        f"--shape {info.name}=N,N,... gives an example"
        for info in pair.inputs
        if info.shape is None or info.dtype is None
    ]
    return [*unknown, *(f"shapes are not known behind {refusal}" for refusal in program.inference_refusals.values())]
