"""Run a network on pictures, sounds, videos, a camera or arrays, and say what it finds.

  armnet run ssd photo.jpg --labels coco.txt             boxes; a classifier's classes, a segmenter's mask, ...
  armnet run ssd photos/ --draw drawn --output found.jsonl
  armnet run model.tflite camera --every 10              any model that can be exported; armnet describe stores what
                                                         its outputs mean
  armnet run vad speech.wav
  armnet run app.pyz photo.jpg --require-signature anna.pub
  armnet run PAIR --input in.npz --output out.npz        inputs and outputs by name
  armnet run PAIR --input data=a.npy mask=b.npy          all .npy files together are one input

An input is a picture, a sound, a video, an .npz, a folder or a pattern of these, camera, camera:1, or - for standard
input. Each is answered by itself; one that is damaged is skipped, and the exit status is 1.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

from armnet.arguments import (
    PAIR,
    add_device,
    add_json,
    add_labels_and_task,
    add_preprocessing,
    add_score,
    add_shapes,
    add_threads,
    opened,
)
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.app.answering import Record, Tally
    from runtime_arm.app.model import Model
    from runtime_arm.pair.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help=PAIR)
    parser.add_argument(
        "files", nargs="*", default=[], metavar="INPUT", help="a picture, sound, video, folder, camera, -, ..."
    )
    parser.add_argument(
        "--input", nargs="+", default=[], metavar="INPUT", help="the same; NAME=FILE for an input by name"
    )
    parser.add_argument(
        "--then",
        nargs="+",
        default=[],
        metavar="PAIR",
        help="the nets that follow: R-Net and O-Net behind MTCNN's P-Net",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write all results to a .jsonl or .csv, or the outputs, stacked, to an .npz"
    )
    parser.add_argument("--draw", metavar="DIR", help="write each picture with its result drawn over it to this folder")
    add_labels_and_task(parser)
    add_score(parser)
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="use every Nth frame of a video or camera (default: %(default)s)",
    )
    parser.add_argument("--count", type=int, metavar="N", help="stop after N inputs; a camera does not end by itself")
    add_shapes(parser, "shapes of inputs where the pair leaves sizes open")
    parser.add_argument("--keep", nargs="+", default=[], metavar="BLOB", help="also return these intermediate blobs")
    parser.add_argument(
        "--require-signature", metavar="KEYS", help="run only a bundle that one of these public keys has signed"
    )
    add_threads(parser)
    add_device(parser)
    parser.add_argument("--top", type=int, metavar="K", help="for a classifier, print the K best classes (default: 5)")
    parser.add_argument(
        "--state",
        nargs="+",
        default=[],
        metavar="OUT=IN",
        help="feed output OUT of one run to input IN of the next, for recurrent nets",
    )
    parser.add_argument(
        "--paranoid",
        action="store_true",
        help="poison free memory with NaN, and compare with a run without a memory plan; slow",
    )
    add_json(parser)
    add_preprocessing(parser)


def run(args: argparse.Namespace) -> int:
    from itertools import islice

    from armnet.console import note, print_json
    from armnet.model_files import split
    from runtime_arm.app.answer import Options
    from runtime_arm.app.answering import answer_all
    from runtime_arm.app.sources import count_of

    args.pair, files = split([args.pair, *args.files])
    words = [*files, *args.input]
    if args.require_signature:
        args.pair, *args.then = [_signed(path, args.require_signature) for path in [*args.pair, *args.then]]
    if not words:
        raise UsageError("give something to run on: a picture, a sound, a folder, camera, or --input FILE")
    if args.paranoid and (args.keep or args.device or args.threads not in (None, 1)):
        raise UsageError(
            "--paranoid runs on one core and returns only outputs; leave out --threads, --keep and --device"
        )
    if args.every < 1:
        raise UsageError(f"--every must be 1 or more, got {args.every}")
    if args.top is not None and args.top < 0:
        raise UsageError(f"--top must be 0 or more, got {args.top}")
    with _model(args) as model:
        model.infer = _paranoid(model) if args.paranoid else partial(model.predictor.run, keep=args.keep)
        model.states = _carried(args.state, model)
        options = Options(args.score, 5 if args.top is None else args.top)
        total = count_of(words, "sound" in model.entry)
        shown: List[Dict[str, Any]] = []
        items = islice(model.inputs(*words, every=args.every), args.count)
        with _display(args, model, total, shown) as show:
            tally = answer_all(
                model,
                items,
                options,
                show,
                output=args.output,
                draw=args.draw,
                alone=total == 1 or words == ["-"],
            )
    for line in model.predictor.notes:
        note(line)
    if args.json:
        print_json("run", {"runs": shown, "skipped": tally.dropped})
    return _ended(tally)


def _signed(path: str, keys: str) -> Pair:
    """The pair of a bundle that a trusted person has signed; prints on stderr who."""
    from armnet.console import note
    from armnet.signed import open_signed

    pair, found = open_signed(path, keys)
    note(f"armnet: {path}: {found.text()}")
    return pair


def _model(args: argparse.Namespace) -> Model:
    """The same with the nets that follow it."""
    from armnet.opening import open as open_model
    from runtime_arm.app.model import together

    model = opened(args)
    if args.then:
        return together(
            [model, *(open_model(path, threads=args.threads, device=args.device, half=args.half) for path in args.then)]
        )
    if args.top and model.decoder.kind == "tensors" and args.task is None:
        with suppress(UsageError):  # outputs that are no scores of classes stay tensors
            return model.as_task("classes", scores="logits")
    return model


@contextmanager
def _display(
    args: argparse.Namespace, model: Model, total: Optional[int], shown: List[Dict[str, Any]]
) -> Iterator[Callable[[Record], None]]:
    """How a record is shown: at once as text, or at the end as JSON; with progress, and once with what was fed."""
    import time

    from armnet.console import note, progress

    with progress("run") as report:
        start = time.monotonic()
        done = 0

        def show(record: Record) -> None:
            nonlocal done
            done += 1
            if done == 1:
                _explain(model, record, note)
            if args.json:
                shown.append(record.to_dict())
            elif not args.output or args.top or model.decoder.kind != "tensors":
                print("\n".join(record.lines()), flush=True)
            rate = done / max(time.monotonic() - start, 1e-9)
            left = f", {(total - done) / rate:.0f} s left" if total else ""
            report(f"{rate:.1f} a second{left}", done, total or 0)

        yield show


def _explain(model: Model, record: Record, note: Callable[[str], None]) -> None:
    """Prints on stderr what was fed, and how to give a meaning to outputs that have none."""
    if model.fed:
        note(f"armnet: {model.fed}")
    labels = model.labels or getattr(record.answers[0].result, "labels", None)  # a decoder may know them
    if model.decoder.classes and labels is None:
        note("armnet: classes are shown as numbers, because the model has no labels: --labels FILE names them")
    if model.decoder.kind == "tensors":
        note(
            "armnet: the meaning of these outputs is not known; give it with --task classes|boxes|mask|..., "
            "or store it: armnet describe PAIR --task ..."
        )


def _ended(tally: Tally) -> int:
    """The exit status, after printing what was skipped."""
    from armnet.console import note

    for line in tally.skipped:
        note(f"armnet: skipped: {line}" if tally.answered or len(tally.skipped) > 1 else f"armnet: {line}")
    if tally.dropped and (tally.answered or tally.dropped > 1):
        note(f"armnet: {tally.dropped} of {tally.answered + tally.dropped} inputs were skipped")
    return 1 if tally.dropped or tally.bad else 0


def _paranoid(model: Model) -> Callable[[Any], Dict[str, Any]]:
    """A function that runs the pair in poisoned memory and prints so."""
    from armnet.console import note
    from runtime_arm.execution.paranoid import run_paranoid

    def run_one(feeds: Any) -> Dict[str, Any]:
        result = run_paranoid(model.pair, feeds)
        note(str(result))
        return result.outputs

    return run_one


def _carried(words: List[str], model: Model) -> Dict[str, str]:
    """The input of the next run for each output that is carried over."""
    carried = dict(word.split("=", 1) for word in words if "=" in word)
    sources, targets = ({info.name for info in infos} for infos in (model.pair.outputs, model.pair.inputs))
    if len(carried) != len(words) or not (carried.keys() <= sources and set(carried.values()) <= targets):
        raise UsageError(
            f"--state takes OUT=IN; the outputs are {', '.join(sorted(sources))}, "
            f"the inputs {', '.join(sorted(targets))}"
        )
    return carried
