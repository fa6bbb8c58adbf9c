"""Show what the inputs and outputs of a pair mean, or change that in its model.json.

  armnet describe PAIR                                          what is stored, and what the net itself shows
  armnet describe PAIR --task yolov8 --labels coco.txt          the outputs are boxes as YOLOv8 writes them
  armnet describe PAIR --task classes --set scores=softmax
  armnet describe PAIR --preprocessing imagenet                 or caffe, 0..1, -1..1, yolo, ..., a JSON file
  armnet describe PAIR --set threshold=0.4 outputs.boxes=out0   single parameters of the decoder

A task is a kind of result (classes, boxes, mask, keypoints, image, depth, embedding, text, sound events, tensors), or
the name of a decoder, which stands for a family of networks.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Dict, List

from armnet.arguments import add_json, add_pair
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model
    from runtime_arm.pair.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("--task", metavar="TASK", help="what the outputs mean: a kind of result or a decoder")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="parameters of the decoder, their values as JSON or text",
    )
    parser.add_argument("--labels", metavar="FILE", help="a file with one label per line")
    parser.add_argument("--preprocessing", metavar="RULE", help="a preset, a JSON object, or a file of one")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.opening import pair_of
    from runtime_arm.app.model import Model
    from runtime_arm.pair.places import is_pair

    pair = pair_of(args.pair)
    changed = bool(args.task or args.set or args.labels or args.preprocessing)
    if changed:
        if not (len(args.pair) == 1 and is_pair(args.pair[0])):
            raise UsageError(f"{args.pair[0]}: only a pair can be changed; armnet export makes one")
        pair = _described(pair, args)
    with Model(pair, threads=1, notice=lambda text: note(f"armnet: {text}")) as model:
        facts = _facts(model)
        if changed:
            pair.save(args.pair[0])
            note(f"{args.pair[0]}: stored in model.json")
    if args.json:
        print_json("describe", facts)
    else:
        print("\n".join(f"{key:<14} {_text(value)}" for key, value in facts.items()))
    return 0


def _described(pair: Pair, args: argparse.Namespace) -> Pair:
    """The pair with what the command line says in its metadata; checked."""
    from runtime_arm.app.evidence import facts_of
    from runtime_arm.app.labels import read_labels
    from runtime_arm.app.model import Model
    from runtime_arm.app.rules import read_rule
    from runtime_arm.results.recognise import recognised, stated

    meta: Dict[str, Any] = dict(pair.meta)
    labels = read_labels(args.labels) if args.labels else None
    rule = read_rule(args.preprocessing)
    if rule is not None:
        kept = {key: value for key, value in (meta.get("preprocessing") or {}).items() if key in ("layout", "resize")}
        meta["preprocessing"] = {**kept, **rule}
    facts = facts_of(pair, labels=len(labels or ()))
    entry = stated(args.task, facts) if args.task else dict(meta.get("result") or recognised(facts) or {})
    for word in args.set:
        _set(entry, word)
    if args.set and "decoder" not in entry:
        raise UsageError("--set changes the decoder's parameters; give --task first, because the net shows none")
    if entry:
        meta["result"] = entry
    with Model(pair.replace(meta=meta), labels, threads=1, notice=_quiet) as model:
        if labels is not None and model.labels is not None:
            meta["labels"] = model.labels
    return pair.replace(meta=meta)


def _quiet(text: str) -> None:
    """Drops a notice, which is repeated when the pair is shown."""


def _set(entry: Dict[str, Any], word: str) -> None:
    """Puts KEY=VALUE into the entry; a dot leads into an object."""
    key, equals, text = word.partition("=")
    if not equals or not all(key.split(".")):
        raise UsageError(f"--set takes KEY=VALUE, got {word!r}")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    *folders, last = key.split(".")
    place = entry
    for folder in folders:
        inner = place.get(folder)
        place[folder] = dict(inner) if isinstance(inner, dict) else {}
        place = place[folder]
    place[last] = value


def _facts(model: Model) -> Dict[str, Any]:
    """What the pair takes and gives, for people and programs."""
    pair = model.pair
    known = {key: value for key, value in model.entry.items() if key not in ("kind", "decoder")}
    return {
        "inputs": [f"{info.name} {info.dtype or '?'} {info.shape_text()}" for info in pair.inputs],
        "outputs": [f"{info.name} {info.dtype or '?'} {info.shape_text()}" for info in pair.outputs],
        "result": model.decoder.kind,
        "decoder": model.entry["decoder"],
        "parameters": known,
        "preprocessing": model.rule,
        "labels": len(model.labels or ()),
        "stored": sorted(key for key in ("labels", "preprocessing", "result") if pair.meta.get(key)),
    }


def _text(value: Any) -> str:
    if isinstance(value, list):
        items: List[str] = [str(item) for item in value]
        return ", ".join(items) or "nothing"
    if isinstance(value, dict):
        return ", ".join(f"{key}={json.dumps(inner)}" for key, inner in value.items()) or "none"
    return str(value)
