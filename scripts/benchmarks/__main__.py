"""Measure armnet beside other runtimes on this machine, and print tables. These are figures, not tests.

  scripts/bench                                                        everything that this machine can time
  scripts/bench --parts networks models --threads 1,2
  scripts/bench --parts arm --json results.json                        instructions on emulated ARM
  scripts/bench --parts --json results.json --write BENCHMARKS.md      measure nothing, write earlier results

--json adds to the file: the results of parts that are not measured now are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from runtime_arm.app.command_line import Parser
from runtime_arm.files import write_file
from scripts import checkout  # noqa: F401
from scripts.benchmarks import arm, models, networks, report, runtimes, scaling, sequences, tiny, whole_processes
from scripts.benchmarks.part import Options, Part
from scripts.benchmarks.picture import draw
from scripts.benchmarks.training import part as training

PARTS: Mapping[str, Part] = {
    "networks": networks.PART,
    "runtimes": runtimes.PART,
    "models": models.PART,
    "tiny": tiny.PART,
    "sequences": sequences.PART,
    "training": training.PART,
    "size": scaling.SIZE_PART,
    "batch": scaling.BATCH_PART,
    "convolution": scaling.MEMORY_PART,
    "processes": whole_processes.PART,
    "numpy": networks.NUMPY_PART,
    "arm": arm.PART,
}
DEFAULT = tuple(name for name in PARTS if name != "arm")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "--parts",
        nargs="*",
        choices=list(PARTS),
        default=list(DEFAULT),
        metavar="PART",
        help=f"{', '.join(PARTS)} (default: all but arm)",
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        default=[],
        metavar="NAME",
        help="known networks, for parts that take them (default: some)",
    )
    parser.add_argument("--threads", default="1,2", metavar="LIST", help="numbers of cores (default: %(default)s)")
    parser.add_argument(
        "--runs", type=int, default=21, metavar="N", help="inferences by each runtime (default: %(default)s)"
    )
    parser.add_argument(
        "--other-python", default="", metavar="FILE", help="a Python with an older NumPy, for part numpy"
    )
    parser.add_argument(
        "--torch-python",
        default="",
        metavar="FILE",
        help="a Python with PyTorch, for part training (default: this one)",
    )
    parser.add_argument("--json", metavar="FILE", help="add the results to this file")
    parser.add_argument("--picture", metavar="FILE", help="draw the results, as .svg or .png")
    parser.add_argument("--write", metavar="FILE", help="write the results as Markdown, with a picture beside it")
    return parser


def main(words: Sequence[str]) -> None:
    args = _parser().parse_args(words)
    options = Options(
        [int(word) for word in args.threads.split(",")],
        args.runs,
        args.networks,
        args.other_python,
        args.torch_python,
    )
    results = _kept(args.json)
    for name in args.parts:
        rows = PARTS[name].measure(options)
        report.add(results, name, rows)
        print(report.as_text(PARTS[name], rows), end="\n\n", flush=True)
        if args.json:
            write_file(args.json, [json.dumps(results, indent=1).encode() + b"\n"])
    if args.picture:
        draw(results, Path(args.picture))
    if args.write:
        picture = Path(args.write).with_suffix(".svg")
        draw(results, picture)
        write_file(args.write, [report.as_markdown(results, PARTS, picture.name).encode()])


def _kept(path: Any) -> Dict[str, Any]:
    if path is not None and Path(path).exists():
        kept: Dict[str, Any] = json.loads(Path(path).read_text())
        return kept
    return report.empty_results()


if __name__ == "__main__":
    main(sys.argv[1:])
