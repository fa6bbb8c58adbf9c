"""Arguments that several commands take, under one name and with one meaning."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

MODELS = "an .onnx or .tflite file, a .prototxt and its .caffemodel, or init_net.pb and predict_net.pb"
FILES = ".npy, .npz, a picture, or NAME=FILE for the input of that name"
PAIR = f"a pair (its folder or .zip), a bundle (.pyz), or {MODELS}"
_KEYS = ("resize", "crop", "channels", "scale", "mean", "std", "layout")  # of the preprocessing, with an option each


def add_pair(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """PAIR, the network to work on, as a list of files, which ``armnet.opening`` takes."""
    if optional:
        parser.add_argument("pair", metavar="PAIR", nargs="*", default=[], help=f"{PAIR} (default: none)")
    else:
        parser.add_argument("pair", metavar="PAIR", nargs="+", help=PAIR)


def add_labels_and_task(parser: argparse.ArgumentParser) -> None:
    """--labels and --task, which make answers of outputs."""
    parser.add_argument("--labels", metavar="FILE", help="a file with one label per line (default: the pair's labels)")
    parser.add_argument("--task", metavar="TASK", help="what the outputs mean: classes, boxes, mask, yolov8, ...")


def add_score(parser: argparse.ArgumentParser) -> None:
    """--score, for answers with scores."""
    parser.add_argument("--score", type=float, metavar="S", help="the lowest score that counts (default: the family's)")


def add_seed(parser: argparse.ArgumentParser, purpose: str) -> None:
    """--seed, for what is drawn at random."""
    what = f"the seed of {purpose} (default: %(default)s)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=what)


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json, which every command takes."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """--threads, one number of cores."""
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all fast cores)")


def add_device(parser: argparse.ArgumentParser) -> None:
    """--device and --half, a device beside the processor."""
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="run on this device what it can run: opencl:0, cuda:0, ...; armnet doctor lists them",
    )
    parser.add_argument("--half", action="store_true", help="use float16 on the device: less to move, less exact")


def add_connection(parser: argparse.ArgumentParser) -> None:
    """--python and --timeout, how programs run on a target."""
    parser.add_argument(
        "--python", default="python3", metavar="PROGRAM", help="the Python to run over ssh (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=900.0,
        metavar="SECONDS",
        help="the time limit of one program on a target (default: %(default)g)",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """--input and --shape, for commands that draw inputs at random unless they are given."""
    parser.add_argument("--input", nargs="+", metavar="FILE", help=f"{FILES} (default: random inputs)")
    add_shapes(parser, "shapes of random inputs, where the pair leaves sizes open (default: 1 for each open size)")


def add_shapes(parser: argparse.ArgumentParser, purpose: str) -> None:
    """--shape, which ``armnet.shapes`` reads."""
    parser.add_argument("--shape", nargs="+", action="extend", default=[], metavar="NAME=N,N,...", help=purpose)


def add_preprocessing(parser: argparse.ArgumentParser) -> None:
    """--preprocessing, and the options that change single keys of it: how a picture becomes an input."""
    pictures = parser.add_argument_group("preparing pictures (default: as the pair's model.json says)")
    pictures.add_argument(
        "--preprocessing", metavar="RULE", help="imagenet, caffe, inception, 0..1, -1..1, yolo, audio, JSON, or a file"
    )
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


def opened(args: argparse.Namespace) -> Model:
    """The model that these arguments ask for; its notes go to stderr."""
    from armnet.console import note
    from armnet.opening import open as open_model
    from armnet.shapes import parse_shapes

    return open_model(
        args.pair,
        args.labels,
        args.task,
        args.preprocessing,
        threads=args.threads,
        device=args.device,
        half=args.half,
        shapes=parse_shapes(args.shape),
        changes=_changes(args),
        notice=lambda text: note(f"armnet: {text}"),
    )


def _changes(args: argparse.Namespace) -> Dict[str, Any]:
    """The keys of the preprocessing that options change."""
    given = {key: getattr(args, key) for key in _KEYS if getattr(args, key) is not None}
    if len(given.get("resize", ())) == 1:
        given["resize"] = given["resize"][0]
    return given
