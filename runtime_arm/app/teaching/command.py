"""``python3 model.pyz --teach FOLDER``: a bundle learns new classes, and writes another bundle that knows them."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Sequence

from runtime_arm.app.command_line import Parser
from runtime_arm.app.display import table
from runtime_arm.app.model import Model
from runtime_arm.app.outputs import plain
from runtime_arm.app.packing import chunks, folder_parts, sample_bytes, with_manifest, write_archive
from runtime_arm.app.teaching.augment import ways_of
from runtime_arm.app.teaching.cutting import Cut, cut_of_entry
from runtime_arm.app.teaching.lesson import MEMORY, Known, Lesson, memory_bytes, read_memory, remembered, save, taught
from runtime_arm.errors import UsageError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.files import map_file, write_file
from runtime_arm.pair.archive import MANIFEST, PAIR_FOLDER, SAMPLE, is_bundle, open_archive
from runtime_arm.pair.bundle import open_bundle
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.writing import is_zip_name

_HELP = """\
Learn the classes of a folder that holds a folder of pictures, of sounds or of arrays (.npy) for each class.

The features of each file are computed once and kept, so that it goes on where it was killed. With --add-class what was
taught before stays known beside the new classes.
"""
KNOWN = f"{PAIR_FOLDER}/{MEMORY}"  # in a bundle that was taught: the samples of its training


def run(path: str, words: Sequence[str], program: str) -> int:
    """Teaches the bundle, or the pair, at ``path``; the exit status."""
    args = _parser(program).parse_args(words)
    bundled = is_bundle(path)
    pair = open_bundle(path).pair if bundled else Pair.load(path)
    output = args.output or (f"{Path(path).stem}_taught.pyz" if bundled else _beside(Path(path)))
    features = cut_of_entry(pair)
    old = _known(path, features) if args.add_class else None
    with Model(pair, preprocessing=args.preprocessing, threads=args.threads, notice=_note) as model:
        lesson = taught(
            features,
            model,
            args.teach,
            ways=ways_of(args.augment),
            old=old,
            hold_out=args.hold_out,
            epochs=args.epochs,
            seed=args.seed,
            progress=_Progress(),
        )
    if bundled:
        write_taught(path, lesson, output)
    else:
        save(lesson, output)
    _tell(lesson, output, args.json)
    return 0


def _beside(pair: Path) -> str:
    """The path of the taught pair: next to the original one, and in the same form."""
    suffix = pair.suffix if is_zip_name(pair) else ""
    return f"{str(pair)[: len(str(pair)) - len(suffix)]}_taught{suffix}"


def _known(path: str, features: Cut) -> Known:
    """The samples that a bundle or a pair was taught with. UsageError if it was not taught."""
    if not is_bundle(path):
        return remembered(path, features)
    part = open_archive(path).parts.get(KNOWN)
    if part is None:
        raise UsageError("this bundle was not taught yet: --add-class is for one that --teach has written")
    return read_memory(memoryview(part), f"{path}: {KNOWN}", features)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"python3 {program}", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teach", required=True, metavar="FOLDER", help="the folder with a folder of files a class")
    parser.add_argument("--add-class", action="store_true", help="keep the classes that --teach taught it before")
    parser.add_argument("--output", metavar="FILE", help="the bundle to write (default: this one's name and _taught)")
    parser.add_argument(
        "--augment",
        default="mirror",
        metavar="WAY,...",
        help="mirror, flip, crop, brightness or none (default: mirror)",
    )
    parser.add_argument("--hold-out", type=float, default=0.2, metavar="SHARE", help="to judge by (default: 0.2)")
    parser.add_argument("--epochs", type=int, default=200, metavar="N", help="passes, at most (default: 200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is chosen (default: 0)")
    parser.add_argument("--preprocessing", metavar="RULE", help="a preset, JSON or a file (default: the packed rule)")
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all fast cores)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


class _Progress:
    """Says every ten seconds how far it is."""

    def __init__(self) -> None:
        import time

        self._now = time.monotonic
        self._said = self._now()

    def __call__(self, text: str, done: int, total: int) -> None:
        if self._now() >= self._said + 10:
            self._said = self._now()
            _note(f"{text}, {done} of {total}")


def write_taught(bundle: str, lesson: Lesson, target: str) -> None:
    """Write a copy of a bundle with the taught pair, the outputs of its sample, and the samples of its training."""
    kept, pair = open_bundle(bundle), lesson.pair
    with Predictor(pair, threads=1) as predictor:
        outputs = {name: plain(value) for name, value in predictor.run(kept.sample_inputs).items()}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pair.save(folder / PAIR_FOLDER)
        (folder / SAMPLE).write_bytes(sample_bytes(kept.sample_inputs, outputs))
        (folder / KNOWN).write_bytes(memory_bytes(lesson))
        old = open_archive(bundle)
        parts = {n: part for n, part in old.parts.items() if n != MANIFEST and not n.startswith(f"{PAIR_FOLDER}/")}
        whole = folder / "whole.pyz"
        write_archive(whole, with_manifest({**parts, **folder_parts(folder)}, kept.tolerance), old.deflated)
        write_file(target, chunks(map_file(whole)))


def _tell(lesson: Lesson, output: str, as_json: bool) -> None:
    for line in lesson.skipped:
        _note(f"skipped: {line}")
    if as_json:
        facts: Dict[str, Any] = {"output": output, "labels": lesson.labels, "accuracy": lesson.accuracy}
        facts.update(confusion=lesson.confusion.tolist(), learned=lesson.learned, held_out=lesson.held_out)
        facts.update(epochs=len(lesson.epochs), skipped=lesson.skipped)
        print(json.dumps({"schema": 1, **facts}, indent=2))
        return
    columns, rows = lesson.table()
    print(table(columns, rows, right=lesson.labels))
    print(*lesson.lines(), sep="\n")
    _note(f"{output}: try: python3 {output} FILE")


def _note(text: str) -> None:
    print(text, file=sys.stderr)
