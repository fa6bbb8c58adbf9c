"""Teach a network new classes: a folder of pictures for each, a few dozen are enough.

  armnet teach squeezenet.onnx --data mugs/ -o mugs_net        mugs/hers/*.jpg, mugs/his/*.jpg, ...
  armnet run mugs_net photo.jpg
  armnet teach mugs_net --data more/ --add-class -o more_net   keeps what it knew
  armnet teach squeezenet.onnx --data mugs/ -o net --cut pool9  the features are what this blob holds

The network's features stay as they are, and a new last layer learns to tell the classes apart. Features are computed
once for each picture and kept in the cache, so a run that was killed goes on where it was. A part of each class is held
out, and the result is judged by it.
"""

from __future__ import annotations

import argparse
from typing import Any, Dict

from armnet.arguments import add_json, add_pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("--data", required=True, metavar="FOLDER", help="a folder with a folder of pictures a class")
    parser.add_argument("-o", "--output", required=True, metavar="PAIR2", help="the folder to write")
    parser.add_argument("--add-class", action="store_true", help="MODEL was taught: keep the classes it knows")
    parser.add_argument("--cut", metavar="BLOB", help="the blob with the features (default: what the last layer reads)")
    parser.add_argument(
        "--augment",
        choices=["mirror", "none"],
        default="mirror",
        help="learn each picture mirrored, too (default: %(default)s)",
    )
    parser.add_argument(
        "--hold-out",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="the share to judge by (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=200, metavar="N", help="passes over the pictures, at most (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is chosen (default: %(default)s)")
    parser.add_argument(
        "--preprocessing", metavar="RULE", help="how pictures become the input (default: as the model says)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, print_table, progress
    from armnet.opening import pair_of
    from training.teach.teaching import save, teach

    pair = pair_of(args.pair, plain=True)
    with progress("teach") as bar:
        lesson = teach(
            pair,
            args.data,
            cut_at=args.cut,
            add_to=args.pair[0] if args.add_class else None,
            augment=args.augment,
            hold_out=args.hold_out,
            epochs=args.epochs,
            seed=args.seed,
            preprocessing=args.preprocessing,
            notice=lambda text: note(f"armnet: {text}"),
            progress=bar,
        )
    save(lesson, args.output)
    for line in lesson.skipped:
        note(f"skipped: {line}")
    if args.json:
        print_json("teach", _facts(args.output, lesson))
        return 0
    rows = [[label, *map(int, counts)] for label, counts in zip(lesson.labels, lesson.confusion)]
    print_table(["held out", *lesson.labels], rows, right=lesson.labels)
    print(f"{lesson.accuracy:.1%} of {lesson.held_out} held-out pictures are right; learned from {lesson.learned}")
    for wrong in lesson.mistakes:
        print(f"  {wrong.path}: {wrong.label}, taken for {wrong.taken_for} ({wrong.score:.0%})")
    note(
        f"{args.output}: {len(lesson.labels)} classes, told apart by the features in {lesson.cut_at!r}; "
        f"try: armnet run {args.output} PHOTO"
    )
    return 0


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
