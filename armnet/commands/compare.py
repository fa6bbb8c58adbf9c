"""Compare a pair with the original model, and name the first blob that differs, with a likely cause.

If all blobs agree and the answer is still wrong, --picture and --label find what is wrong with the input.

  armnet compare squeezenet.onnx squeezenet
  armnet compare squeezenet.onnx squeezenet --input dog.npy
  armnet compare deploy.prototxt net.caffemodel net
  armnet compare init_net.pb predict_net.pb net
  armnet compare net net_fast                       a pair and its optimised form
  armnet compare squeezenet.onnx --picture dog.jpg --label "golden retriever" --labels imagenet.txt
                                                    what is mixed up: RGB and BGR, the range, mean and std, the fit?

onnxruntime runs an ONNX original, LiteRT with its reference kernels a TFLite one, and OpenCV 4 a Caffe one. armnet's
own reference kernels run Caffe2 models and pairs. Random inputs are several samples, each with a wider range than the
one before. Exit status: 0 if all blobs agree, 1 if one differs or the picture gets a wrong answer.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from armnet.arguments import MODELS, add_inputs, add_json, add_seed
from runtime_arm.errors import UsageError

_WAYS = 8  # that make the answer right are listed

if TYPE_CHECKING:
    from armnet.comparison import Comparison
    from armnet.preprocessing_trials import PreprocessingTrials
    from exporter.compare.divergence import Divergence
    from exporter.compare.spread import BlobSpread
    from runtime_arm.pair.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help=f"the original: {MODELS}, or a pair; then the pair made from it, or a bundle (default: what "
        "armnet export makes of it); armnet optimize --keep-biases leaves more blobs to compare",
    )
    add_inputs(parser)
    add_seed(parser, "random inputs")
    parser.add_argument(
        "--samples", type=int, default=3, metavar="N", help="how many random inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--statistics",
        action="store_true",
        help="list every blob with its minimum, maximum, mean, share of zeros, and NaN; for both sides",
    )
    parser.add_argument("--picture", metavar="FILE", help="a picture whose right answer you know")
    parser.add_argument("--label", metavar="CLASS", help="the right answer: the name or the number of a class")
    parser.add_argument("--labels", metavar="FILE", help="a file with one label per line (default: the pair's labels)")
    parser.add_argument(
        "--preprocessing", metavar="RULE", help="how you prepare the picture (default: as the pair's model.json says)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        metavar="E",
        help="the error allowed, relative to a blob's largest magnitude (default: %(default)g)",
    )
    parser.add_argument(
        "--worst", type=int, default=5, metavar="N", help="how many of the worst blobs to list (default: %(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.comparison import compare
    from armnet.console import note, print_json, progress
    from armnet.shapes import shapes_of
    from runtime_arm.app.inputs import read_single_run

    original, pair = _both(args.models)
    shapes = shapes_of(args.shape, pair)
    rule = pair.meta.get("preprocessing") or {}
    if args.label and not args.picture:
        raise UsageError("--label needs --picture")
    inputs = read_single_run(args.input, pair.inputs, rule) if args.input else None
    with progress("compare") as report:
        found = compare(
            original,
            pair,
            inputs,
            tolerance=args.tolerance,
            seed=args.seed,
            samples=args.samples,
            shapes=shapes,
            progress=report,
        )
    trials = _tried_preprocessings(args, pair) if args.picture else None
    first, worst = found.first, found.worst(args.worst)
    if args.json:
        print_json(
            "compare",
            {
                "agree": first is None,
                "runtime": found.runtime,
                "blobs": len(found.blobs),
                "first": first and first._asdict(),
                "worst": [row._asdict() for row in worst],
                "not_finite": found.first_not_finite and found.first_not_finite.blob,
                "statistics": [_statistics(one) for one in found.spreads] if args.statistics else [],
                **({} if trials is None else {"picture": _picture_facts(trials)}),
            },
        )
    else:
        note(f"the original is run by {found.runtime}")
        if args.statistics:
            _print_statistics(found)
        _print_text(found, worst)
        if trials is not None:
            _print_trials(trials, args.label)
    return 0 if first is None and (trials is None or trials.present.right) else 1


def _tried_preprocessings(args: argparse.Namespace, pair: Pair) -> PreprocessingTrials:
    """The pair's answers for the picture, with every preprocessing that people confuse with the right one."""
    from armnet.console import note
    from armnet.preprocessing_trials import try_preprocessings
    from armnet.shapes import parse_shapes
    from runtime_arm.app.model import Model

    if args.label is None:
        raise UsageError("--picture needs --label: what the answer should be")
    shapes = parse_shapes(args.shape)
    with Model(pair, args.labels, None, args.preprocessing, shapes=shapes, notice=note) as model:
        return try_preprocessings(model, args.picture, args.label)


def _both(words: List[str]) -> Tuple[List[Any], Pair]:
    """The files of the original, and the pair to compare with it."""
    from armnet.model_files import completed, models_in
    from armnet.opening import pair_of

    models = models_in(words)
    if len(models) > 2:
        raise UsageError(f"compare takes an original and a pair; these are {len(models)} models: {' '.join(words)}")
    return completed(models[0]), pair_of(models[-1], plain=True)


def _print_text(found: Comparison, worst: List[Divergence]) -> None:
    from armnet.console import print_table
    from runtime_arm.app.display import shape_text

    listed: List[List[Any]] = [
        [row.blob, shape_text(row.shape), f"{row.error:.2e}", "diverges" if row.diverges else "agrees", row.producer]
        for row in worst
    ]
    print_table(["blob", "shape", "error", "", "computed by"], listed, right=["error"])
    print()
    bad, first = found.first_not_finite, found.first
    if bad is not None:
        sides = [name for name, one in (("the original", bad.original), ("the pair", bad.ours)) if one.not_finite]
        print(f"the first NaN or infinity: {bad.blob}, in {' and '.join(sides)}, computed by {bad.producer}")
    if first is None:
        print(f"all {len(found.blobs)} blobs agree")
        return
    print(f"first divergence: {first.blob}, error {first.error:.2e}, computed by {first.producer}")
    print(f"likely cause: {first.cause}")


def _statistics(one: BlobSpread) -> Dict[str, Any]:
    return {"blob": one.blob, "original": one.original._asdict(), "pair": one.ours._asdict()}


def _print_statistics(found: Comparison) -> None:
    """A row for each blob; if both sides have the same number, it is printed once."""
    from armnet.console import print_table

    def cell(*numbers: float) -> str:
        told = [f"{number:.4g}" for number in numbers]
        return told[0] if told[0] == told[1] else " | ".join(told)

    rows = []
    for blob, _, a, b in found.spreads:
        zeros = [f"{one.zeros:.0%}" for one in (a, b)]
        bad = cell(a.not_finite, b.not_finite)
        shares = zeros[0] if zeros[0] == zeros[1] else " | ".join(zeros)
        rows.append([blob, cell(a.least, b.least), cell(a.most, b.most), cell(a.mean, b.mean), shares, bad])
    columns = ["blob", "least", "most", "mean", "zeros", "not finite"]
    print_table(columns, rows, right=columns[1:])
    print("original | pair, where they differ\n")


def _picture_facts(trials: PreprocessingTrials) -> Dict[str, Any]:
    fix = trials.fix
    tried = [
        {"changes": list(one.changes), "found": one.found, "score": one.score, "right": one.right}
        for one in trials.others
    ]
    return {
        "right": trials.present.right,
        "found": trials.present.found,
        "score": trials.present.score,
        "fix": None if fix is None else {"changes": list(fix.changes), "preprocessing": fix.rule},
        "tried": tried,
    }


def _print_trials(trials: PreprocessingTrials, label: str) -> None:
    """The net's answer for the picture, and what would make it right."""
    import json

    from armnet.console import print_table
    from armnet.preprocessing_trials import as_option

    present, fix = trials.present, trials.fix
    print(f"\nthe picture: {present.found}, with {present.score:.4g} for {label}")
    if present.right:
        return
    if fix is None:
        others = f"none of {len(trials.others)} other ways to prepare it gives {label}"
        print(f"{others}: look at the labels, or at the picture")
        return
    ways = [[", ".join(one.changes), one.found, f"{one.score:.4g}"] for one in trials.others if one.right][:_WAYS]
    print_table(["with", "answer", "score"], ways, right=["score"])
    rule = json.dumps(as_option(fix.rule, present.rule))
    print(f"likely cause: {', '.join(fix.changes)}; say it: --preprocessing '{rule}'")
