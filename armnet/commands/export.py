"""Translate a trained network into a pair of protobufs, or a pair into ONNX, TFLite or Caffe2.

  armnet export squeezenet.onnx -o squeezenet
  armnet export mobilenet.tflite -o mobilenet --labels labels.txt
  armnet export deploy.prototxt net.caffemodel -o squeezenet
  armnet export init_net.pb predict_net.pb -o normalised
  armnet export squeezenet --to onnx -o squeezenet.onnx
  armnet export squeezenet.onnx --to tflite -o squeezenet.tflite
  armnet export squeezenet_int8 --to caffe2 -o folder          nets of Caffe2's operators alone, its Int8 ones included

A pair is a folder with init_net.pb (the weights), predict_net.pb (the computation) and model.json (inputs, outputs,
preprocessing, labels). --to onnx and --to tflite take a pair, optimised or not, or any model that can be exported. In a
TFLite file pictures have their channels last, and all sizes are fixed.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

from armnet.arguments import MODELS, add_json, add_shapes
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from runtime_arm.pair.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="+", metavar="MODEL", help=f"{MODELS}; with --to also a pair")
    parser.add_argument(
        "-o", "--output", required=True, metavar="PAIR", help="the folder or the .zip to write, or the file"
    )
    parser.add_argument(
        "--to",
        choices=["pair", "onnx", "tflite", "caffe2"],
        default="pair",
        help="what to write (default: %(default)s)",
    )
    add_shapes(parser, "with --to: shapes of inputs for which the pair declares none, or leaves sizes open")
    parser.add_argument(
        "--integers",
        choices=["qdq", "exact"],
        help="--to onnx: how TFLite's operators on integers are written: as ONNX's tools do, where a result may be a "
        "step of its scale away, or to the last bit, with many nodes for each (default: qdq)",
    )
    parser.add_argument(
        "--caffe2-compatible",
        action="store_true",
        help="use only Caffe2's operators and its encoding of weights; an operator that Caffe2 lacks is an error",
    )
    parser.add_argument(
        "--keep-losses",
        action="store_true",
        help="Caffe: keep the losses and accuracies that need the labels of data layers",
    )
    parser.add_argument(
        "--signature", metavar="KEY", help="TFLite: the signature to translate (default: the first graph)"
    )
    parser.add_argument(
        "--preprocessing",
        metavar="RULE",
        help="how to turn pictures into the input: imagenet, caffe, inception, 0..1, -1..1, yolo, JSON such as "
        '\'{"resize": 256, "crop": 224, "scale": 0.00392}\', or a file; stored in the pair',
    )
    parser.add_argument("--labels", metavar="FILE", help="a file with one label per line; stored in the pair")
    parser.add_argument(
        "--task",
        "--decoder",
        metavar="TASK",
        help="what the outputs mean, if the net does not show it: classes, boxes, mask, ..., or a decoder; stored",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.to != "pair":
        return _to_file(args)
    if args.shape:
        raise UsageError("--shape is only for other formats; a pair leaves open the sizes that its source leaves open")
    from armnet.console import note, print_json, progress
    from armnet.model_files import check_pair_output
    from armnet.weights import weights_nbytes
    from exporter import export
    from runtime_arm.app.display import shape_text, size
    from runtime_arm.app.labels import read_labels

    check_pair_output(args.output)
    options: Dict[str, Any] = {
        "preprocessing": args.preprocessing,
        "task": args.task,
        "keep_losses": args.keep_losses,
        "signature": args.signature,
        "caffe2_compatible": args.caffe2_compatible,
        "labels": read_labels(args.labels) if args.labels else None,
    }
    with progress("export") as report:
        pair = export(*_files(args.model), progress=report, **options)
        pair = _fitting_labels(_with_what_was_stored(pair, args.output), args.labels or "the labels")
        pair.save(args.output)
    facts = {
        "pair": args.output,
        "operators": len(pair.predict_net.op),
        "weights_nbytes": weights_nbytes(pair),
        "inputs": [_info(info) for info in pair.inputs],
        "outputs": [_info(info) for info in pair.outputs],
    }
    if args.json:
        print_json("export", facts)
        return 0
    for what, infos in (("input", pair.inputs), ("output", pair.outputs)):
        for info in infos:
            print(f"{what:<7} {info.name}  {info.dtype or '?'} {shape_text(info.shape)}")
    note(f"{args.output}: {facts['operators']} operators, {size(facts['weights_nbytes'])} of weights")
    return 0


_OF_OTHERS = (".onnx", ".tflite", ".pyz")
_OURS_ALONE = {"UnpackInt4": "int4", "UnpackBlocks": "int4", "UnpackPalette": "palette", "UnpackBfloat16": "bfloat16"}


def _to_file(args: argparse.Namespace) -> int:
    """Writes a model, or a pair, in another format."""
    from armnet.console import note, print_json, progress
    from armnet.model_files import check_pair_output, is_source
    from exporter import export
    from runtime_arm.app.display import size
    from runtime_arm.pair.pair import Pair

    _check_file_options(args)
    if args.to == "caffe2":
        check_pair_output(args.output)
    with progress("export") as report:
        sources = _files(args.model)
        pair = (
            export(*sources, progress=report, keep_losses=args.keep_losses, signature=args.signature)
            if len(sources) > 1 or is_source(sources[0])
            else Pair.load(sources[0])
        )
        files = _written(pair, args)
    facts = {
        "model": args.output,
        "files": [str(file) for file in files],
        "nbytes": sum(file.stat().st_size for file in files),
    }
    if args.json:
        print_json("export", facts)
    else:
        note(f"{' and '.join(facts['files'])}: {size(facts['nbytes'])}")
    grown = {_OURS_ALONE[op.type] for op in pair.predict_net.op if op.type in _OURS_ALONE}
    if grown:
        note(f"armnet: weights of {' and '.join(sorted(grown))} are floats in that file; int8 and float16 stay small")
    return 0


def _check_file_options(args: argparse.Namespace) -> None:
    suffix = os.path.splitext(args.output)[1].lower()
    if suffix in _OF_OTHERS and suffix != f".{args.to}":
        raise UsageError(f"{args.output}: the name ends with {suffix}, and --to {args.to} does not write such a file")
    if args.integers and args.to != "onnx":
        raise UsageError("--integers is for --to onnx")
    if args.caffe2_compatible or args.preprocessing or args.labels:
        raise UsageError(
            f"--caffe2-compatible, --preprocessing and --labels are not for --to {args.to}: "
            "export a pair with them, then that pair"
        )


def _written(pair: Pair, args: argparse.Namespace) -> List[Path]:
    """The files that the pair was written to."""
    from pathlib import Path

    from armnet.onnx_file import save_onnx
    from armnet.shapes import parse_shapes
    from armnet.tflite_file import save_tflite
    from exporter.to_caffe2.export import to_caffe2
    from runtime_arm.pair.writing import is_zip_name

    shapes = parse_shapes(args.shape)
    if args.to == "onnx":
        return save_onnx(pair, args.output, shapes=shapes, integers=args.integers or "qdq")
    if args.to == "tflite":
        return save_tflite(pair, args.output, shapes=shapes)
    to_caffe2(pair, shapes).save(args.output)
    if is_zip_name(args.output):
        return [Path(args.output)]
    return [Path(args.output) / name for name in ("init_net.pb", "predict_net.pb")]


def _files(given: List[str]) -> Sequence[Any]:
    """The files of the model; prints which were found beside the given one."""
    from armnet.console import note
    from armnet.model_files import completed

    files = completed(given)
    found = [str(file) for file in files if str(file) not in given]
    if found and len(files) > 1:
        note(f"armnet: with {' and '.join(found)}")
    return files


def _info(info: Any) -> Dict[str, Any]:
    return {"name": info.name, "dtype": info.dtype and str(info.dtype), "shape": info.shape and list(info.shape)}


def _fitting_labels(pair: Pair, source: str) -> Pair:
    """The pair with as many labels as its net has classes. UsageError, naming their source, for another number."""
    from armnet.console import note
    from runtime_arm.app.labels import fitting

    entry, labels = pair.meta.get("result") or {}, pair.meta.get("labels")
    if not labels or entry.get("kind") == "text" or not isinstance(entry.get("classes"), int):
        return pair
    fitted = fitting(labels, entry["classes"], source, lambda text: note(f"armnet: {text}"))
    return pair.replace(meta={**pair.meta, "labels": fitted})


def _with_what_was_stored(pair: Pair, folder: str) -> Pair:
    """The pair with the labels, the preprocessing and the result of the pair that it replaces, if that has the same
    source and the new pair has none of its own; prints what is kept and what is dropped.
    """
    from armnet.console import note
    from runtime_arm.errors import ArmnetError
    from runtime_arm.pair.pair import Pair
    from runtime_arm.pair.places import is_pair

    if not is_pair(folder):
        return pair
    try:
        before = Pair.load(folder)
    except ArmnetError:  # a damaged pair is replaced
        return pair
    missing = [key for key in ("labels", "preprocessing", "result") if before.meta.get(key) and not pair.meta.get(key)]
    if not missing:
        return pair
    names = [(info.name, info.shape) for info in pair.inputs], [info.name for info in pair.outputs]
    same = names == ([(info.name, info.shape) for info in before.inputs], [info.name for info in before.outputs])
    note(f"armnet: {folder}: {', '.join(missing)} of the pair that was there {'kept' if same else 'dropped'}")
    return pair.replace(meta={**pair.meta, **{key: before.meta[key] for key in missing}}) if same else pair
