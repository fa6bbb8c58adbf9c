"""Measure the accuracy of a model on examples with known answers.

  armnet evaluate PAIR photos/                         a folder of pictures or sounds for each class
  armnet evaluate model.onnx held_back.npz             images and labels
  armnet evaluate ssd instances_val2017.json           COCO's annotations: mean average precision
  armnet evaluate deeplab voc/                         images/ and masks/: mean intersection over union
  armnet evaluate vad sounds.csv                       a list: file, what is heard in it
  armnet evaluate PAIR photos/ --html wrong.html       a page with what went wrong
  armnet evaluate PAIR photos/ --must top1=0.97        a gate: exit status 1 if it is worse
  armnet evaluate PAIR photos/ --against onnxruntime   how many answers differ from the original's, and which
  armnet evaluate PAIR photos/ --on emulated:arm64,ssh://pi@raspberrypi.local
  armnet evaluate PAIR photos/ --scheduler tcp://host:8786        on a cluster of Dask, whose workers need armnet and no
                                                       files; local:4 starts four processes on this machine

DATA is one of these:

  a folder          with a folder for each class, called like its label or its number
  an .npz           images as the net takes them, or pixels (N, H, W, C) of uint8; labels, numbers or names
  a .json           COCO's annotations; the pictures lie beside it, in images/, or in the folder it is named after
  a folder          with images/ and masks/ (or VOC's JPEGImages/ and SegmentationClass/): masks of the same names hold
                    the number of a class in each pixel; 255 does not count
  .csv, .tsv, .txt  a line for each file: its path, and the class, word or line of writing that is true of it

If an evaluation is interrupted, start it again: it continues where it was. Exit status: 0, 1 if a bound of --must is
broken or an example could not be answered, 2 for a mistake in the command.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict, List

from armnet.arguments import (
    PAIR,
    add_connection,
    add_device,
    add_json,
    add_labels_and_task,
    add_preprocessing,
    add_shapes,
    add_threads,
    opened,
)
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from armnet.evaluation.evaluate import Evaluation, Result

LISTED = 20  # examples that are named where answers differ, or are skipped
WIDEST = 12  # classes of a confusion matrix that is printed whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help=PAIR)
    parser.add_argument("data", metavar="DATA", nargs="+", help="examples whose answers are known, see above")
    parser.add_argument(
        "--must",
        nargs="+",
        default=[],
        metavar="METRIC=BOUND",
        help="exit with 1 unless top1, top5, map, map50, miou, accuracy, error_rate, agreement, ... keep this bound",
    )
    parser.add_argument(
        "--against", default="", metavar="LIST", help="also evaluate the original model, with onnxruntime or tflite"
    )
    parser.add_argument("--model", metavar="FILE", help="the original for --against (default: the pair's source)")
    parser.add_argument(
        "--on",
        default="",
        metavar="LIST",
        help="also evaluate on these targets, such as emulated:arm64; armnet device list names them",
    )
    add_connection(parser)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler whose workers evaluate, or local:N")
    parser.add_argument("--count", type=int, metavar="N", help="evaluate N examples, spread evenly (default: all)")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures of what went wrong")
    parser.add_argument(
        "--fresh", action="store_true", help="start from the beginning, even if an interrupted run could be continued"
    )
    add_labels_and_task(parser)
    add_shapes(parser, "shapes of inputs where the pair leaves sizes open")
    add_threads(parser)
    add_device(parser)
    add_json(parser)
    add_preprocessing(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, progress
    from armnet.evaluation.data import data_of
    from armnet.evaluation.evaluate import evaluate, options_for
    from armnet.evaluation.gate import broken, parse_musts
    from armnet.model_files import split

    musts = parse_musts(args.must)
    args.pair, words = split([args.pair, *args.data])
    if len(words) != 1:
        raise UsageError(f"give one model and one DATA, got {' '.join([*args.pair, *words])}")
    args.data = words[0]
    with opened(args) as model:
        data = data_of(args.data, model, _told)
        _told(f"{args.data}: {data.what}")
        with progress("evaluate") as report:
            evaluation = evaluate(
                model,
                data,
                most=args.count,
                places=_places(args, model, options_for(data)),
                fresh=args.fresh,
                progress=report,
                notice=_told,
            )
        if model.fed:
            _told(model.fed)
    failures = broken(musts, {result.place: result.metrics for result in evaluation.results})
    if args.html:
        _write_page(args, evaluation)
    if args.json:
        print_json("evaluate", _facts(args, evaluation, failures))
    else:
        _print(evaluation)
    for result in evaluation.results:
        _tell_skipped(result, evaluation)
    for failure in failures:
        note(f"armnet: {failure}")
    return 1 if failures or any(result.skipped for result in evaluation.results) else 0


def _told(text: str) -> None:
    from armnet.console import note

    note(f"armnet: {text}")


def _places(args: argparse.Namespace, model: Any, options: Any) -> List[Any]:
    """Where the examples are answered: here or on a cluster, by other runtimes, on targets."""
    from pathlib import Path

    from armnet.evaluation.place import LocalPlace, by_another_runtime
    from armnet.other_runtimes import Original, open_session

    places: List[Any] = [LocalPlace(model, options)]
    if args.scheduler:
        from armnet.evaluation.cluster import Cluster

        places = [Cluster(args.scheduler, model, options)]
    for name in _names(args.against):
        source = args.model or (args.pair[0] if Path(args.pair[0]).suffix in (".onnx", ".tflite") else None)
        other = open_session(name, Original(model.pair, Path(args.pair[0]), source), model.predictor.threads)
        places.append(by_another_runtime(model, other.run, other.name, options))
    for name in _names(args.on):
        from armnet.evaluation.on_target import OnTarget

        far = {"threads": args.threads, "python": args.python, "timeout": args.timeout}
        places.append(OnTarget(name, model, options, **far))
    return places


def _names(text: str) -> List[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _write_page(args: argparse.Namespace, evaluation: Evaluation) -> None:
    from pathlib import Path

    from armnet.evaluation.page import render
    from armnet.opening import name_of
    from runtime_arm.files import write_file

    title = f"{name_of(args.pair)} on {Path(args.data).name}"
    write_file(args.html, [render(title, evaluation).encode()])


def _tell_skipped(result: Result, evaluation: Evaluation) -> None:
    for number, problem in list(result.skipped.items())[:LISTED]:
        name = evaluation.data.examples[number].name
        _told(f"{result.place}: skipped: {problem if name in problem else f'{name}: {problem}'}")
    if result.skipped:
        total = len(result.findings) + len(result.skipped)
        _told(f"{result.place}: {len(result.skipped)} of {total} examples were skipped")


def _facts(args: argparse.Namespace, evaluation: Evaluation, failures: List[str]) -> Dict[str, Any]:
    def named(numbers: Any) -> List[str]:
        return [evaluation.data.examples[number].name for number in numbers]

    places = [
        {
            "place": result.place,
            "metrics": result.metrics,
            "examples": len(result.findings),
            "skipped": [
                {"example": evaluation.data.examples[number].name, "why": why} for number, why in result.skipped.items()
            ],
            "differing": named(result.differing),
            "seconds": result.seconds,
            "answered_before": result.answered_before,
            "classes": result.scores.rows,
        }
        for result in evaluation.results
    ]
    confusion = evaluation.results[0].scores.confusion
    wrong = [
        {"example": example.name, "truth": fault.truth, "answer": fault.said}
        for example, _, fault in evaluation.faults()
    ]
    matrix = None if confusion is None else {"classes": confusion[0], "counts": confusion[1]}
    return {
        "model": args.pair,
        "data": args.data,
        "places": places,
        "confusion": matrix,
        "wrong": wrong,
        "broken": failures,
    }


def _print(evaluation: Evaluation) -> None:
    from armnet.console import print_table

    names = list(dict.fromkeys(name for result in evaluation.results for name in result.metrics))
    columns = ["place", *names, "examples", "seconds"]
    rows = [
        [
            result.place,
            *(_percent(result.metrics.get(name)) for name in names),
            len(result.findings),
            f"{result.seconds:.1f}",
        ]
        for result in evaluation.results
    ]
    print_table(columns, rows, right=columns[1:])
    _print_classes(evaluation.results[0])
    for result in evaluation.results[1:]:
        shown = ", ".join(evaluation.data.examples[number].name for number in result.differing[:LISTED])
        more = f" and {len(result.differing) - LISTED} more" if len(result.differing) > LISTED else ""
        print(f"\n{result.place}: {len(result.differing)} answers differ{': ' if shown else ''}{shown}{more}")


def _print_classes(result: Result) -> None:
    """The confusion matrix, or the most frequent confusions; else the numbers of each class."""
    from armnet.console import print_table

    if result.scores.confusion is not None:
        names, counts = result.scores.confusion
        if len(names) <= WIDEST:
            rows = [[name, *row] for name, row in zip(names, counts)]
            print("\ntrue class down, answer across")
            print_table(["", *names], rows, right=names)
            return
        places = [(counts[i][j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j and counts[i][j]]
        for count, i, j in sorted(places, key=lambda one: (-one[0], one[1:]))[:LISTED]:
            print(f"{names[i]} taken for {names[j]}: {count}")
    elif result.scores.rows:
        columns = list(result.scores.rows[0])
        print()
        print_table(columns, [list(map(_cell, row.values())) for row in result.scores.rows], right=columns[1:])


def _cell(value: Any) -> str:
    return _percent(value) if isinstance(value, float) else "" if value is None else str(value)


def _percent(value: Any) -> str:
    return "" if value is None else f"{value:.2%}"
