"""Run a pair on arrays or pictures.

  armnet run PAIR --input in.npz --output out.npz        inputs and outputs by name
  armnet run PAIR --input a.npy b.npy                    inputs by position
  armnet run PAIR --input data=a.npy mask=b.npy          inputs by name
  armnet run PAIR --input dog.jpg lemon.jpg --labels imagenet.txt --top 3

Each picture and each .npz file is a run of its own; all .npy files together are one run.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from armnet.arguments import FILES, add_json, add_pair, add_threads
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm import Predictor

PREPROCESSING = ("resize", "crop", "channels", "scale", "mean", "std", "layout")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("--input", nargs="+", required=True, metavar="FILE", help=FILES)
    parser.add_argument(
        "--output", metavar="OUT.npz", help="write the outputs to this file, those of several runs stacked"
    )
    parser.add_argument("--keep", nargs="+", default=[], metavar="BLOB", help="also return these intermediate blobs")
    add_threads(parser)
    parser.add_argument(
        "--labels", metavar="FILE", help="a file with one label per line, for classifiers (default: the pair's labels)"
    )
    parser.add_argument(
        "--top", type=int, metavar="K", help="print the K best answers of the first output (default: 5 with labels)"
    )
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
    add_preprocessing_arguments(parser)


def add_preprocessing_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say how a picture becomes an input."""
    pictures = parser.add_argument_group("preparing pictures (default: as the pair's model.json says)")
    pictures.add_argument("--resize", nargs="+", type=int, metavar="N", help="height and width, or the shorter side")
    pictures.add_argument("--crop", nargs=2, type=int, metavar="N", help="height and width to cut from the middle")
    pictures.add_argument("--channels", choices=["RGB", "BGR", "GRAY"], help="the order of the channels")
    pictures.add_argument("--scale", type=float, metavar="F", help="the factor for pixel values 0..255")
    pictures.add_argument(
        "--mean", nargs="+", type=float, metavar="M", help="subtracted after scaling: one number, or one per channel"
    )
    pictures.add_argument(
        "--std", nargs="+", type=float, metavar="S", help="the divisor after that: one number, or one per channel"
    )
    pictures.add_argument("--layout", choices=["NCHW", "NHWC"], help="the order of the dimensions")


def preprocessing_of(args: argparse.Namespace) -> Dict[str, Any]:
    """The preprocessing options that were given."""
    given = {key: getattr(args, key) for key in PREPROCESSING if getattr(args, key) is not None}
    if len(given.get("resize", ())) == 1:
        given["resize"] = given["resize"][0]
    return given


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from runtime_arm import load
    from runtime_arm.app.inputs import read_runs
    from runtime_arm.app.outputs import answers_wanted, summarise, text, write_npz
    from runtime_arm.app.pictures import read_labels

    if args.paranoid and (args.keep or args.threads not in (None, 1)):
        raise UsageError("--paranoid runs on one core and returns only outputs; leave out --threads and --keep")
    with load(args.pair, threads=args.threads) as predictor:
        run_one = _paranoid(predictor) if args.paranoid else partial(predictor.run, keep=args.keep)
        meta = predictor.pair.meta
        labels = read_labels(args.labels) if args.labels else meta.get("labels")
        top = answers_wanted(args.top, labels)
        carried = _carried(args.state, predictor)
        runs = read_runs(args.input, predictor.inputs, {**(meta.get("preprocessing") or {}), **preprocessing_of(args)})
        results: List[Dict[str, Any]] = []
        summaries: List[Dict[str, Any]] = []
        state: Dict[str, Any] = {}
        for name, feeds in runs:
            outputs = run_one({**feeds, **state})
            state = {target: outputs[source] for source, target in carried.items()}
            results.append(outputs)
            summaries.append(summarise(name, outputs, labels, top))
    for line in predictor.notes:
        note(line)
    if args.output:
        write_npz(args.output, results)
    if args.json:
        print_json("run", {"runs": summaries})
    elif not args.output or top:
        print("\n".join(map(text, summaries)))
    return 0


def _paranoid(predictor: Predictor) -> Callable[[Dict[str, Any]], Dict[str, Any]]:
    """A function that runs the pair in poisoned memory, and says so."""
    from armnet.console import note
    from runtime_arm.execution.paranoid import run_paranoid

    def run_one(feeds: Dict[str, Any]) -> Dict[str, Any]:
        result = run_paranoid(predictor.pair, feeds)
        note(str(result))
        return result.outputs

    return run_one


def _carried(words: List[str], predictor: Predictor) -> Dict[str, str]:
    """The input of the next run for each output that is carried over."""
    carried = dict(word.split("=", 1) for word in words if "=" in word)
    sources, targets = ({info.name for info in infos} for infos in (predictor.outputs, predictor.inputs))
    if len(carried) != len(words) or not (carried.keys() <= sources and set(carried.values()) <= targets):
        raise UsageError(
            f"--state takes OUT=IN; the outputs are {', '.join(sorted(sources))}, "
            f"the inputs {', '.join(sorted(targets))}"
        )
    return carried
