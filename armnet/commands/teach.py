"""Teach a network new classes: a folder of pictures or sounds for each, a few dozen are enough.

  armnet teach squeezenet.onnx --data mugs/ -o mugs_net         mugs/hers/*.jpg, mugs/his/*.jpg, ...
  armnet run mugs_net photo.jpg
  armnet teach mugs_net --data more/ --add-class -o more_net    keeps what it knew
  armnet teach squeezenet.onnx --data mugs/ -o net --cut pool9  the features are what this blob holds
  armnet teach squeezenet.onnx --data mugs/ -o net --fine-tune 6 --augment mirror,crop,brightness --html report.html
  armnet teach squeezenet.onnx --data mugs/ -o net --on ssh://pi@raspberrypi
  armnet teach words.tflite --data sounds/ -o net               a network that hears: sounds/yes/*.wav, sounds/no/*.wav

The network's features stay as they are, and a new last layer learns to tell the classes apart. --fine-tune also trains
layers before it. The features of each file are computed once and kept in the cache, so a run that was killed continues
where it was. A part of each class is held out, and the result is judged by it.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

from armnet.arguments import add_connection, add_json, add_pair, add_seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument(
        "--data", required=True, metavar="FOLDER", help="a folder that has one folder of files per class"
    )
    parser.add_argument("-o", "--output", required=True, metavar="PAIR2", help="the folder to write, or a .zip")
    parser.add_argument("--add-class", action="store_true", help="keep the classes that PAIR was taught before")
    parser.add_argument("--cut", metavar="BLOB", help="the blob with the features (default: what the last layer reads)")
    parser.add_argument(
        "--augment",
        default="mirror",
        metavar="WAY,...",
        help="mirror, flip, crop, brightness or none: how pictures are varied (default: %(default)s)",
    )
    parser.add_argument(
        "--hold-out",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="the share of the files to hold out and judge by (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=200, metavar="N", help="the most passes over the files (default: %(default)s)"
    )
    parser.add_argument("--fine-tune", type=int, metavar="N", help="also train the last N layers that have weights")
    parser.add_argument(
        "--batch-norm",
        choices=["frozen", "train"],
        default="frozen",
        help="the statistics of fine-tuned layers: stored ones, or those of the batch (default: %(default)s)",
    )
    parser.add_argument(
        "--rate", type=float, default=1e-4, metavar="X", help="the learning rate of fine-tuning (default: %(default)s)"
    )
    add_seed(parser, "all random choices")
    parser.add_argument(
        "--preprocessing", metavar="RULE", help="how pictures become the input (default: as the model says)"
    )
    parser.add_argument(
        "--on", metavar="TARGET", help="compute on this target, such as ssh://pi@host or emulated:arm64"
    )
    add_connection(parser)
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with the curve, the confusion matrix and the worst pictures"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, print_table, progress
    from armnet.model_files import check_pair_output
    from armnet.opening import pair_of
    from runtime_arm.app.teaching.augment import ways_of
    from training.teach.teaching import save, teach

    check_pair_output(args.output)
    pair = pair_of(args.pair, plain=True)
    with progress("teach") as bar, _place(args) as place:
        lesson = teach(
            pair,
            args.data,
            cut_at=args.cut,
            add_to=args.pair[0] if args.add_class else None,
            ways=ways_of(args.augment),
            hold_out=args.hold_out,
            epochs=args.epochs,
            seed=args.seed,
            tuning=_tuning(args),
            checkpoints=_checkpoints(args),
            preprocessing=args.preprocessing,
            place=place,
            notice=lambda text: note(f"armnet: {text}"),
            progress=bar,
        )
    save(lesson, args.output)
    if args.html:
        _write_page(args, lesson)
    _forget(_checkpoints(args))
    for line in lesson.skipped:
        note(f"skipped: {line}")
    if args.json:
        print_json("teach", _facts(args.output, lesson))
        return 0
    columns, rows = lesson.table()
    print_table(columns, rows, right=lesson.labels)
    print(*lesson.lines(), sep="\n")
    note(
        f"{args.output}: {len(lesson.labels)} classes, told apart by the features in {lesson.cut_at!r}; "
        f"try: armnet run {args.output} FILE"
    )
    return 0


@contextmanager
def _place(args: argparse.Namespace) -> Iterator[Any]:
    """Where features are computed and the head is trained: here, or on a target."""
    from runtime_arm.app.teaching.lesson import LocalTeaching
    from runtime_arm.errors import UsageError

    if args.on is None:
        yield LocalTeaching()
        return
    if args.fine_tune is not None:
        raise UsageError("--fine-tune needs the training package, which no target has: leave out --on, or --fine-tune")
    from armnet.teaching.on_target import OnTarget

    with OnTarget(args.on, python=args.python, timeout=args.timeout) as place:
        yield place


def _tuning(args: argparse.Namespace) -> Any:
    if args.fine_tune is None:
        return None
    from training.teach.tuning import Tuning

    return Tuning(args.fine_tune, rate=args.rate, batch_norm=args.batch_norm)


def _checkpoints(args: argparse.Namespace) -> Path:
    """Where fine-tuning keeps its state until it is done."""
    return Path(f"{Path(args.output)}.checkpoints")


def _forget(folder: Path) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def _write_page(args: argparse.Namespace, lesson: Any) -> None:
    from armnet.opening import name_of
    from armnet.page.lesson import render
    from runtime_arm.files import write_file

    title = f"{name_of(args.pair)}, taught on {Path(args.data).name}"
    write_file(args.html, [render(title, _facts(args.output, lesson)).encode()])


def _facts(output: str, lesson: Any) -> Dict[str, Any]:
    return {
        "pair": output,
        "labels": lesson.labels,
        "cut": lesson.cut_at,
        "accuracy": lesson.accuracy,
        "confusion": lesson.confusion.tolist(),
        "learned": lesson.learned,
        "held_out": lesson.held_out,
        "epochs": [epoch._asdict() for epoch in lesson.epochs],
        "mistakes": [mistake._asdict() for mistake in lesson.mistakes],
        "skipped": lesson.skipped,
    }
