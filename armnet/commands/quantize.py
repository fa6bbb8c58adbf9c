"""Make a pair smaller: store weights, and if you like compute activations, in fewer bits.

  armnet quantize PAIR -o PAIR2                                 int8 weights: a quarter of the bytes
  armnet quantize PAIR -o PAIR2 --weights float16               half of the bytes
  armnet quantize PAIR -o PAIR2 --activations dynamic           the same; layers quantise their inputs while it runs
  armnet quantize PAIR -o PAIR2 --activations int8 --data photos/
                                                                integers, as TensorFlow Lite computes them; layers stay
                                                                float until every output is within 25 dB
  armnet quantize PAIR -o PAIR2 --activations int8 --data photos/ --snr none
                                                                integers throughout, however noisy outputs become
  armnet quantize PAIR -o PAIR2 --activations int8 --data held_back.npz --must top1=0.99
                                                                the same, until 99 % of the pair's top-1 are kept
  armnet quantize PAIR -o PAIR2 --activations int8 --data photos/ --html report.html
                                                                a page with a plot of error against bytes
  armnet quantize PAIR -o PAIR2 --write-table layers.txt        what was done to each layer, to be edited
  armnet quantize PAIR -o PAIR2 --table layers.txt              what to do with each layer

Quantising only the weights needs no data, and the net runs as fast as before: weights become floats again when it is
loaded. Give the pair as it was exported: the command optimises it, too. It keeps what it finds on the data in
PAIR2.calibration until it has written PAIR2, or says why it cannot. If it is killed, start it again: it continues
where it stopped.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import Any, Dict, List, Optional

from armnet.arguments import add_json, add_pair
from armnet.samples import FILES
from runtime_arm.errors import ArmnetError, ResourceError, UsageError

TIMED = 5  # runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("-o", "--output", required=True, metavar="PAIR2", help="the folder to write, or a .zip")
    _add_formats(parser)
    _add_data(parser)
    _add_targets(parser)
    _add_reports(parser)
    add_json(parser)


def _add_formats(parser: argparse.ArgumentParser) -> None:
    """Options for the formats of weights and activations."""
    parser.add_argument(
        "--weights",
        default="int8",
        metavar="FORMAT",
        help="float16, bfloat16, int8, int4 (blocks of 32) or palette (16 values) (default: %(default)s)",
    )
    parser.add_argument(
        "--activations",
        default="float32",
        metavar="FORMAT",
        help="float32, dynamic (quantised while it runs), int8 or int16 (default: %(default)s)",
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Options for typical inputs, and for their use."""
    parser.add_argument("--data", metavar="DATA", help=f"typical inputs: {FILES}")
    parser.add_argument(
        "--samples", type=int, default=200, metavar="N", help="use at most N of them (default: %(default)s)"
    )
    parser.add_argument(
        "--calibration",
        default="auto",
        metavar="METHOD",
        help="how ranges of activations are chosen: minmax, percentile, mse, entropy, or auto, the best of the first "
        "three on the data, without the few samples that are unlike all others (default: %(default)s)",
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="with integer activations: one scale per weight tensor, as Caffe2 needs it, instead of one per filter",
    )
    parser.add_argument(
        "--equalize",
        choices=["auto", "on", "off"],
        default="auto",
        help="with integer activations: let neighbouring layers share their ranges; auto: where the data shows that it "
        "helps (default: %(default)s)",
    )
    parser.add_argument(
        "--rounding",
        choices=["data", "nearest"],
        default="data",
        help="round weights so that results on the data change least, or each to the nearest (default: %(default)s)",
    )
    parser.add_argument(
        "--keep-biases", action="store_true", help="do not correct biases for the shift that rounded weights cause"
    )


def decibels(word: str) -> float:
    """The target of --snr. ValueError if it is not a number."""
    ratio = -math.inf if word == "none" else float(word)
    if math.isnan(ratio):
        raise ValueError("not a number")
    return ratio


def _add_targets(parser: argparse.ArgumentParser) -> None:
    """Options for how good the result must be: layers that spoil it stay float."""
    parser.add_argument(
        "--snr",
        type=decibels,
        metavar="DB",
        help="keep layers in float until the signal-to-noise ratio of every output is at least this on other data of "
        "the kind; none: no layer stays float for it (default: 25 with integer activations, unless --must or --table "
        "is given)",
    )
    parser.add_argument(
        "--must",
        nargs="+",
        default=[],
        metavar="METRIC=SHARE",
        help="keep layers in float until the pair keeps this share of its top1, map, miou, ...",
    )
    parser.add_argument(
        "--evaluate",
        metavar="DATA",
        help="examples for --must, as armnet evaluate takes them (default: --data)",
    )


def _add_reports(parser: argparse.ArgumentParser) -> None:
    """Options for tables and pages, and for when weights are unpacked."""
    parser.add_argument(
        "--table", metavar="FILE", help="a table that says for each layer what to store and compute it in"
    )
    parser.add_argument("--write-table", metavar="FILE", help="write such a table of what was chosen")
    parser.add_argument("--html", metavar="FILE", help="write a page: error against bytes, and what each layer got")
    parser.add_argument(
        "--unpack",
        choices=["load", "run"],
        help="make floats of packed weights when the pair is loaded, or in each run, a layer at a time: slower, in "
        "less memory; says what either costs here (default: load)",
    )


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.model_files import check_pair_output, files_nbytes
    from armnet.opening import pair_of
    from armnet.samples import samples_of
    from optimize.quantization import QuantizationReport
    from optimize.quantization.table import format_table
    from optimize.rewriting.unpacking import LOAD, with_unpacking
    from runtime_arm.files import is_zip, write_file

    check_pair_output(args.output)
    for path in filter(None, (args.html, args.write_table)):
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise UsageError(f"{path}: its folder does not exist")
        if os.path.isdir(path):
            raise UsageError(f"{path}: is a folder; name a file")
    pair, report = pair_of(args.pair, plain=True), QuantizationReport(each_layer=bool(args.html))
    before = None if is_zip(args.pair[0]) else files_nbytes(args.pair)  # which may be where the result goes
    samples = None if args.data is None else samples_of(args.data, pair, args.samples)
    judge, kept = _judge(args, pair), f"{args.output.rstrip(os.sep)}.calibration"
    result = _quantized(args, pair, samples, judge, kept if samples else None, report)
    unpacking = _unpacking(result) if args.unpack else None
    result = result.replace(predict_net=with_unpacking(result.predict_net, args.unpack or LOAD))
    _save(result, args.output, kept)
    if args.write_table:
        write_file(args.write_table, [format_table((row.layer, row.choice) for row in report.layers).encode()])
    facts = _facts(args.output, pair, result, report)
    facts.update(_files(pair, result, before, args.output))
    facts["unpacking"] = unpacking
    facts["metrics"] = None if judge is None else {"before": judge.before, "after": judge.metrics(result)}
    if args.html:
        from armnet.page.quantization import render

        write_file(args.html, [render(facts).encode("utf-8", "replace")])
        note(f"wrote {args.html}")
    if args.json:
        print_json("quantize", facts)
        return 0
    _print(facts)
    for line in report.notes:
        note(line)
    return 0


def _quantized(
    args: argparse.Namespace, pair: Any, samples: Any, judge: Any, folder: Optional[str], report: Any
) -> Any:
    """The pair in fewer bits. folder: keeps what is found on the samples, unless the pair cannot be made."""
    from armnet.console import progress
    from optimize.quantization import quantize
    from optimize.quantization.calibration_cache import remove_calibration

    table = _table(args.table) if args.table else None  # a mistake in it leaves what an earlier run has found
    try:
        with progress("quantize") as bar:
            return quantize(
                pair,
                samples,
                args.weights,
                args.activations,
                table=table,
                calibration=args.calibration,
                per_tensor=args.per_tensor,
                equalize={"auto": None, "on": True, "off": False}[args.equalize],
                correct_biases=not args.keep_biases,
                rounding=args.rounding,
                folder=folder,
                snr=args.snr,
                accept=None if judge is None else judge.accepts,
                report=report,
                progress=bar,
            )
    except ArmnetError:
        if folder is not None:
            remove_calibration(folder)
        raise


def _save(result: Any, output: str, kept: str) -> None:
    """Writes the pair, and removes what was found on the data."""
    from optimize.quantization.calibration_cache import remove_calibration

    try:
        result.save(output)
    except ResourceError:  # on a disk that is full, the pair comes first
        remove_calibration(kept)
        result.save(output)
    remove_calibration(kept)


def _files(before: Any, after: Any, given: Optional[int], output: str) -> Dict[str, Optional[Dict[str, int]]]:
    """The sizes of both pairs in the same form: in that of the output, and, if that is a zip file, also as folders.

    given: the size of the model's files, if they are not zipped.
    """
    from armnet.model_files import folder_nbytes, zip_nbytes
    from runtime_arm.pair.writing import is_zip_name

    folders = {"before": folder_nbytes(before), "after": folder_nbytes(after)}
    if is_zip_name(output):
        return {"files_nbytes": {"before": zip_nbytes(before), "after": zip_nbytes(after)}, "unzipped_nbytes": folders}
    return {"files_nbytes": {**folders, "before": given or folders["before"]}, "unzipped_nbytes": None}


def _unpacking(pair: Any) -> Dict[str, Any]:
    """Time and memory of a run here, by when weights are unpacked. packed: what the packed weights take besides."""
    from time import process_time

    from armnet.weights import weights_nbytes
    from optimize.engines.sample_inputs import drawn_for
    from optimize.rewriting.shapes import sample_specs
    from optimize.rewriting.unpacking import LOAD, RUN, unpacked_nbytes, with_unpacking
    from runtime_arm.execution.predictor import Predictor

    facts: Dict[str, Any] = {"packed_nbytes": weights_nbytes(pair)}
    feeds = drawn_for(pair, sample_specs(pair.inputs))
    for when in (LOAD, RUN):
        with Predictor(pair.replace(predict_net=with_unpacking(pair.predict_net, when)), threads=1) as predictor:
            predictor.run(feeds)
            taken = []
            for _ in range(TIMED):
                start = process_time()
                predictor.run(feeds)
                taken.append(process_time() - start)
            segment = predictor.plan({name: feed.shape for name, feed in feeds.items()})
        kept = unpacked_nbytes(pair) if when == LOAD else 0
        facts[when] = {"seconds": min(taken), "arena_nbytes": segment.arena_nbytes, "unpacked_nbytes": kept}
    return facts


def _judge(args: argparse.Namespace, pair: Any) -> Any:
    """What --must demands; None without it."""
    from armnet.console import note
    from armnet.evaluation.gate import parse_musts
    from armnet.evaluation.judge import Judge

    if not args.must:
        return None
    data = args.evaluate or args.data
    if data is None:
        raise UsageError("--must needs examples whose answers are known: --data or --evaluate DATA")
    return Judge(pair, data, parse_musts(args.must), lambda text: note(f"armnet: {text}"))


def _table(path: str) -> Dict[str, Any]:
    from optimize.quantization.table import parse_table

    try:
        with open(path, encoding="utf-8") as file:
            return dict(parse_table(file.read(), path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a table: {error}") from None


def _facts(output: str, before: Any, after: Any, report: Any) -> Dict[str, Any]:
    from armnet.weights import weights_nbytes

    return {
        "pair": output,
        "weights_nbytes": {"before": weights_nbytes(before), "after": weights_nbytes(after)},
        "output_snr": report.output_snr,
        "sure_snr": report.sure_snr,
        "layers": [
            {
                "layer": row.layer,
                "weights": row.choice.weights,
                "activations": row.choice.activations,
                "nbytes": {"before": row.nbytes_before, "after": row.nbytes},
                "snr": row.snr,
                "alone": row.alone,
                "steps": list(row.steps),
                "reason": row.reason,
            }
            for row in report.layers
        ],
        "notes": report.notes,
    }


def _print(facts: Dict[str, Any]) -> None:
    from armnet.console import print_table, without_empty_columns
    from runtime_arm.app.display import size

    rows: List[List[str]] = [
        [
            row["layer"],
            row["weights"],
            row["activations"],
            size(row["nbytes"]["before"]),
            size(row["nbytes"]["after"]),
            "" if row["snr"] is None else f"{row['snr']:.1f}",
            ", ".join(row["steps"]),
            row["reason"],
        ]
        for row in facts["layers"]
    ]
    header = ["layer", "weights", "activations", "before", "after", "dB", "how", "why"]
    print_table(*without_empty_columns(header, rows), right=["before", "after", "dB"])
    weights = facts["weights_nbytes"]
    print(f"\nweights: {size(weights['before'])} before, {size(weights['after'])} after")
    files, unzipped = facts["files_nbytes"], facts["unzipped_nbytes"]
    line = f"files: {size(files['before'])} before, {size(files['after'])} after"
    if unzipped is not None:
        line += f", zipped both; {size(unzipped['before'])} and {size(unzipped['after'])} as folders"
    print(line)
    if facts["output_snr"] is not None:
        sure = facts["sure_snr"]
        doubt = "on the data given" if sure is None else f"probably {sure:.1f} dB or more on other data"
        print(f"signal-to-noise ratio of the worst output: {facts['output_snr']:.1f} dB, {doubt}")
    for when in ("load", "run") if facts["unpacking"] else ():
        cost = facts["unpacking"][when]
        memory = size(cost["arena_nbytes"] + cost["unpacked_nbytes"])
        print(f"unpacked at {when}: {cost['seconds'] * 1e3:.2f} ms a run, {memory} for blobs and unpacked weights")
    for metric, value in (facts["metrics"] or {}).get("before", {}).items():
        print(f"{metric}: {value:.2%} before, {facts['metrics']['after'][metric]:.2%} after")
