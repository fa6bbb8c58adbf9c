"""Run a pair on arrays or pictures.

  armnet run PAIR --input in.npz --output out.npz        inputs and outputs by name
  armnet run PAIR --input a.npy b.npy                    inputs by position
  armnet run PAIR --input data=a.npy mask=b.npy          inputs by name
  armnet run PAIR --input dog.jpg lemon.jpg --labels imagenet.txt --top 3

Each picture, and each .npz, is a run of its own; .npy files make one run together. PAIR is a pair's folder or a
bundle (.pyz).
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm import Predictor

PREPROCESSING = ("resize", "crop", "channels", "scale", "mean", "std", "layout")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help="folder of a pair, as armnet export writes it, or a bundle")
    parser.add_argument("--input", nargs="+", required=True, metavar="FILE", help=".npy, .npz, a picture, or NAME=FILE")
    parser.add_argument("--output", metavar="OUT.npz", help="write the outputs (of several runs: stacked) here")
    parser.add_argument("--keep", nargs="+", default=[], metavar="BLOB", help="also fetch these intermediate blobs")
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all fast ones)")
    parser.add_argument("--labels", metavar="FILE", help="one label a line, for classifiers")
    parser.add_argument(
        "--top", type=int, metavar="K", help="print the K best answers of the first output (with labels: 5)"
    )
    parser.add_argument(
        "--state",
        nargs="+",
        default=[],
        metavar="OUT=IN",
        help="feed output OUT of one run to input IN of the next (recurrent nets)",
    )
    parser.add_argument(
        "--paranoid",
        action="store_true",
        help="poison memory that is free with NaN, and compare with a run without a memory plan; slow",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_preprocessing_arguments(parser)


def add_preprocessing_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say how a picture becomes an input."""
    pictures = parser.add_argument_group("preparing pictures (default: what the pair's model.json says)")
    pictures.add_argument("--resize", nargs="+", type=int, metavar="N", help="height and width, or the shorter side")
    pictures.add_argument("--crop", nargs=2, type=int, metavar="N", help="height and width cut from the middle")
    pictures.add_argument("--channels", choices=["RGB", "BGR", "GRAY"])
    pictures.add_argument("--scale", type=float, help="what pixel values 0..255 are multiplied by")
    pictures.add_argument(
        "--mean", nargs="+", type=float, metavar="M", help="subtracted after scaling, one or one a channel"
    )
    pictures.add_argument("--std", nargs="+", type=float, metavar="S", help="divided by after that")
    pictures.add_argument("--layout", choices=["NCHW", "NHWC"])


def preprocessing_of(args: argparse.Namespace) -> Dict[str, Any]:
    """The preprocessing flags that were given."""
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
        raise UsageError("--paranoid runs on one core and keeps nothing: no --threads, no --keep")
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
    """What runs the pair in poisoned memory, and says so."""
    from armnet.console import note
    from runtime_arm.execution.paranoid import run_paranoid

    def run_one(feeds: Dict[str, Any]) -> Dict[str, Any]:
        result = run_paranoid(predictor.pair, feeds)
        note(str(result))
        return result.outputs

    return run_one


def _carried(words: List[str], predictor: Predictor) -> Dict[str, str]:
    """Which output goes to which input of the next run."""
    carried = dict(word.split("=", 1) for word in words if "=" in word)
    sources, targets = ({info.name for info in infos} for infos in (predictor.outputs, predictor.inputs))
    if len(carried) != len(words) or not (carried.keys() <= sources and set(carried.values()) <= targets):
        raise UsageError(
            f"--state takes OUT=IN; outputs are {', '.join(sorted(sources))}, inputs {', '.join(sorted(targets))}"
        )
    return carried
