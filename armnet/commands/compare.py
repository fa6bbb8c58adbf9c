"""Run the original beside the pair, blob by blob, and name the first one that diverges, with a likely cause.

  armnet compare squeezenet.onnx squeezenet
  armnet compare squeezenet.onnx squeezenet --input dog.npy
  armnet compare mobilenet.tflite mobilenet
  armnet compare deploy.prototxt net.caffemodel net
  armnet compare init_net.pb predict_net.pb net
  armnet compare net net_fast

Without --input the inputs are drawn at random. Exit status 0 if they agree, 1 if they do not. The original is run by
onnxruntime, by LiteRT with its reference kernels, or for Caffe by OpenCV 4; of Caffe2 and of pairs armnet's own
reference kernels are the witness.
"""

from __future__ import annotations

import argparse
from typing import Any, List

from runtime_arm.errors import ExportError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="+",
        metavar="MODEL",
        help="the original: an .onnx or .tflite file, .prototxt and .caffemodel, init_net.pb and "
        "predict_net.pb, or a pair",
    )
    parser.add_argument(
        "pair",
        metavar="PAIR",
        help="folder of the pair made from it; one that was optimised with --keep-biases has more blobs in common",
    )
    parser.add_argument(
        "--input", nargs="+", metavar="FILE", help=".npz, .npy, a picture, or NAME=FILE (default: drawn at random)"
    )
    parser.add_argument("--shape", nargs="+", default=[], metavar="NAME=N,N,...", help="shapes of random inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="error allowed, relative to a blob's largest magnitude (default: %(default)g)",
    )
    parser.add_argument(
        "--worst", type=int, default=5, metavar="N", help="how many of the worst blobs to list (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, progress
    from armnet.shapes import parse_shapes, sizes_assumed
    from exporter.bundle.random_inputs import random_inputs
    from exporter.compare.divergence import divergences
    from exporter.compare.witness import witness
    from runtime_arm import load
    from runtime_arm.app.inputs import read_single_run

    with load(args.pair) as predictor, progress("compare") as report:
        shapes = parse_shapes(args.shape)
        feeds = (
            read_single_run(args.input, predictor.inputs, predictor.pair.meta.get("preprocessing") or {})
            if args.input
            else random_inputs(predictor.pair, args.seed, shapes)
        )
        report("the original", 0, 2)
        given = feeds if args.input else shapes
        try:
            evidence = witness(args.model, feeds)
        except ExportError:
            with sizes_assumed(predictor.inputs, given):  # perhaps for want of sizes
                predictor.plan({name: array.shape for name, array in feeds.items()})
            raise
        report("the pair", 1, 2)
        producers = {name: op for op in predictor.pair.predict_net.op for name in op.output if name}
        with sizes_assumed(predictor.inputs, given):
            ours = predictor.run(feeds, keep=[seen.blob for seen in evidence.seen if seen.blob in producers])
    rows = divergences(evidence, ours, producers, args.tolerance)
    if not rows:
        raise UsageError(f"{args.pair} has none of the original's blobs; is it made from it?")
    first = next((row for row in rows if row.diverges), None)
    worst = sorted(rows, key=lambda row: -row.error)[: args.worst]
    if args.json:
        print_json(
            "compare",
            {
                "agree": first is None,
                "runtime": evidence.runtime,
                "blobs": len(rows),
                "first": first and first._asdict(),
                "worst": [row._asdict() for row in worst],
            },
        )
    else:
        note(f"the original is run by {evidence.runtime}")
        _print_text(rows, first, worst)
    return 0 if first is None else 1


def _print_text(rows: List[Any], first: Any, worst: List[Any]) -> None:
    from runtime_arm.app.display import shape_text, table

    listed: List[List[Any]] = [
        [row.blob, shape_text(row.shape), f"{row.error:.2e}", "diverges" if row.diverges else "agrees", row.producer]
        for row in worst
    ]
    print(table(["blob", "shape", "error", "", "computed by"], listed, right=["error"]))
    print()
    if first is None:
        print(f"all {len(rows)} blobs agree")
        return
    print(f"first divergence: {first.blob}, error {first.error:.2e}, computed by {first.producer}")
    print(f"likely cause: {first.cause}")
