"""Pack a pair, the runtime and a self-test into one file, which runs wherever there is Python 3.9 and NumPy.

  armnet pack squeezenet -o squeezenet.pyz
  python3 squeezenet.pyz dog.jpg
  python3 squeezenet.pyz --self-test

The file holds the operators that the network uses, and a sample with the outputs that this machine computed.
"""

from __future__ import annotations

import argparse

from armnet.arguments import FILES, add_json, add_pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("-o", "--output", required=True, metavar="APP.pyz", help="the file to write")
    parser.add_argument(
        "--sample", nargs="+", metavar="FILE", help=f"inputs of the self-test: {FILES} (default: random inputs)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the seed of a random sample (default: %(default)s)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    import os

    from armnet.console import print_json
    from armnet.opening import pair_of
    from exporter.bundle.pack import pack
    from runtime_arm.app.display import size
    from runtime_arm.app.inputs import read_single_run

    pair = pair_of(args.pair)
    sample = read_single_run(args.sample, pair.inputs, pair.meta.get("preprocessing") or {}) if args.sample else None
    pack(pair, args.output, sample, args.seed)
    nbytes = os.path.getsize(args.output)
    if args.json:
        print_json("pack", {"bundle": args.output, "nbytes": nbytes})
    else:
        print(f"{args.output}: {size(nbytes)}; run it with: python3 {args.output} FILE")
    return 0
