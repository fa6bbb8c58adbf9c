"""Pack a pair, the runtime and a self-test into one file that runs wherever there is Python 3.9 and NumPy.

  armnet pack squeezenet -o squeezenet.pyz
  python3 squeezenet.pyz dog.jpg
  python3 squeezenet.pyz --self-test
  armnet pack squeezenet -o squeezenet.pyz --sign anna.key       armnet keys new anna makes it
  armnet pack --verify anna.pub squeezenet.pyz                   was it signed with this key, and not changed since?
  armnet pack squeezenet --teachable -o teachable.pyz
  python3 teachable.pyz --teach mugs/ --output mugs.pyz        mugs/hers/*.jpg, mugs/his/*.jpg, ...

The file holds only the operators that the network uses, and a sample with the outputs that this machine computed.
"""

from __future__ import annotations

import argparse
from typing import Any, Optional

from armnet.arguments import FILES, add_json, add_pair, add_seed
from runtime_arm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("-o", "--output", metavar="APP.pyz", help="the file to write")
    parser.add_argument(
        "--sample", nargs="+", metavar="FILE", help=f"inputs of the self-test: {FILES} (default: random inputs)"
    )
    add_seed(parser, "a random sample")
    parser.add_argument("--compress", action="store_true", help="a smaller file, which starts a little later")
    parser.add_argument("--sign", metavar="KEY", help="sign the file with this secret key")
    parser.add_argument(
        "--verify", metavar="KEYS", help="pack nothing: check a bundle against a file or folder of public keys"
    )
    parser.add_argument(
        "--teachable", action="store_true", help="the file can be taught new classes where it runs, without armnet"
    )
    parser.add_argument(
        "--cut", metavar="BLOB", help="the blob with the features to teach by (default: what the last layer reads)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    import os
    import shlex

    from armnet.console import print_json
    from armnet.opening import pair_of
    from exporter.bundle.pack import pack
    from exporter.bundle.signing import SigningKey
    from runtime_arm.app.display import size
    from runtime_arm.app.inputs import read_single_run

    if args.verify:
        return _verify(args)
    if not args.output:
        raise UsageError("give the file to write: -o APP.pyz")
    key = SigningKey(args.sign) if args.sign else None
    pair = pair_of(args.pair)
    sample = read_single_run(args.sample, pair.inputs, pair.meta.get("preprocessing") or {}) if args.sample else None
    if args.teachable:
        pair = _teachable(pair, args.cut)
    pack(pair, args.output, sample, args.seed, key, args.teachable, args.compress)
    nbytes = os.path.getsize(args.output)
    if args.json:
        print_json("pack", {"bundle": args.output, "nbytes": nbytes, "signed_by": key and key.public.fingerprint})
    else:
        print(f"{args.output}: {size(nbytes)}; run it with: python3 {shlex.quote(args.output)} FILE")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from armnet.console import print_json
    from armnet.signed import open_signed

    if len(args.pair) != 1 or args.output or args.sign:
        raise UsageError("--verify takes one bundle: armnet pack --verify KEYS APP.pyz")
    found = open_signed(args.pair[0], args.verify)[1]
    if args.json:
        print_json("pack", {"bundle": args.pair[0], "signed_by": found.key.fingerprint, "seconds": found.seconds})
    else:
        print(f"{args.pair[0]}: {found.text()}")
    return 0


def _teachable(pair: Any, blob: Optional[str]) -> Any:
    """The pair with an entry that says where it is cut."""
    from runtime_arm.app.evidence import with_result
    from runtime_arm.app.teaching.cutting import ENTRY
    from training.teach.cut import cut

    pair = with_result(pair)
    return pair.replace(meta={**pair.meta, ENTRY: cut(pair, blob or pair.meta.get("taught")).entry()})
