"""Pack a pair, the runtime and a self-test into one file that runs with python3 where NumPy is installed.

armnet pack squeezenet -o squeezenet.pyz
python3 squeezenet.pyz dog.jpg
python3 squeezenet.pyz --self-test
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help="folder of a pair")
    parser.add_argument("-o", "--output", required=True, metavar="APP.pyz", help="file to write")
    parser.add_argument(
        "--sample", nargs="+", metavar="FILE", help="inputs of the self-test (default: drawn at random)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random sample")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    import os

    from armnet.console import print_json
    from exporter.bundle.pack import pack
    from runtime_arm import Pair
    from runtime_arm.app.display import size
    from runtime_arm.app.inputs import read_single_run

    pair = Pair.load(args.pair)
    sample = read_single_run(args.sample, pair.inputs, pair.meta.get("preprocessing") or {}) if args.sample else None
    pack(pair, args.output, sample, args.seed)
    nbytes = os.path.getsize(args.output)
    if args.json:
        print_json("pack", {"bundle": args.output, "nbytes": nbytes})
    else:
        print(f"{args.output}: {size(nbytes)}; run it with: python3 {args.output} FILE")
    return 0
