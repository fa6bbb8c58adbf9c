"""Run the original model beside the pair and name the first blob that differs, with a likely cause.

  armnet compare squeezenet.onnx squeezenet
  armnet compare squeezenet.onnx squeezenet --input dog.npy
  armnet compare deploy.prototxt net.caffemodel net
  armnet compare init_net.pb predict_net.pb net
  armnet compare net net_fast                       a pair and its optimised form

The original is run by onnxruntime, by LiteRT with its reference kernels, or, for Caffe, by OpenCV 4. Caffe2 models and
pairs are run by armnet's own reference kernels. Exit status: 0 if all blobs agree, 1 if one differs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, List, Tuple

from armnet.arguments import MODELS, add_inputs, add_json
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from armnet.comparison import Comparison
    from exporter.compare.divergence import Divergence
    from runtime_arm.pair.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help=f"the original: {MODELS}, or the folder of a pair; then the pair made from it, or a bundle (default: what "
        "armnet export makes of it); armnet optimize --keep-biases leaves more blobs to compare",
    )
    add_inputs(parser)
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of random inputs (default: %(default)s)"
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
    inputs = read_single_run(args.input, pair.inputs, rule) if args.input else None
    with progress("compare") as report:
        found = compare(
            original, pair, inputs, tolerance=args.tolerance, seed=args.seed, shapes=shapes, progress=report
        )
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
            },
        )
    else:
        note(f"the original is run by {found.runtime}")
        _print_text(found, worst)
    return 0 if first is None else 1


def _both(words: List[str]) -> Tuple[List[Any], Pair]:
    """The files of the original, and the pair to hold against it."""
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
    first = found.first
    if first is None:
        print(f"all {len(found.blobs)} blobs agree")
        return
    print(f"first divergence: {first.blob}, error {first.error:.2e}, computed by {first.producer}")
    print(f"likely cause: {first.cause}")
