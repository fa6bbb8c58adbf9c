"""Make keys to sign bundles, and show who signed a bundle.

  armnet keys new anna                     anna.key, which signs and stays secret, and anna.pub, which is handed out
  armnet pack digits -o digits.pyz --sign anna.key
  armnet keys show digits.pyz anna.pub     who signed it, and the fingerprints of keys
  armnet run digits.pyz photo.png --require-signature anna.pub

Keys are Ed25519. To make them and to sign, you need the package cryptography; verifying needs no package. A file of
public keys has one line per key: armnet-ed25519 BASE64 NAME.
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

from armnet.arguments import add_json

NEW = """Make a secret key, which signs, and the public key that verifies what it has signed.

  armnet keys new anna
"""
SHOW = """Tell whose keys these are, and which of them signed a bundle.

  armnet keys show anna.pub keys/
  armnet keys show digits.pyz anna.pub
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a pair of keys", description=NEW)
    new.add_argument("name", metavar="NAME", help="write NAME.key and NAME.pub; files that exist are kept")
    add_json(new)
    show = actions.add_parser("show", help="tell what keys and bundles are", description=SHOW)
    show.add_argument("files", nargs="+", metavar="FILE", help="a file or folder of public keys, or a bundle")
    add_json(show)


def run(args: argparse.Namespace) -> int:
    return _new(args) if args.action == "new" else _show(args)


def _new(args: argparse.Namespace) -> int:
    from armnet.console import print_json
    from exporter.bundle.signing import new_keys

    secret, public, key = new_keys(args.name)
    if args.json:
        print_json("keys new", {"secret": str(secret), "public": str(public), "fingerprint": key.fingerprint})
        return 0
    print(f"{secret}: keep it secret, it signs: armnet pack PAIR -o APP.pyz --sign {secret}")
    print(f"{public}: hand it out, it verifies: armnet run APP.pyz FILE --require-signature {public}")
    print(f"fingerprint: {key.fingerprint}")
    return 0


def _show(args: argparse.Namespace) -> int:
    from armnet.console import print_json, print_table

    rows = [row for file in args.files for row in _rows(file, args.files)]
    if args.json:
        print_json("keys show", {"files": rows})
    else:
        columns = ["file", "what", "name", "fingerprint"]
        print_table(columns, [[row[column] for column in columns] for row in rows])
    return 0


def _rows(file: str, given: List[str]) -> List[Dict[str, Any]]:
    from runtime_arm.pair.signatures.keys import read_public_keys

    if file.endswith(".pyz"):
        return [_bundle_row(file, [other for other in given if not other.endswith(".pyz")])]
    return [
        {"file": file, "what": "public key", "name": key.name, "fingerprint": key.fingerprint}
        for key in read_public_keys(file)
    ]


def _bundle_row(file: str, key_files: List[str]) -> Dict[str, Any]:
    """What a bundle's signature says, checked with the keys that were named with it."""
    from runtime_arm.errors import PairError
    from runtime_arm.files import map_file
    from runtime_arm.pair.signatures.keys import read_public_keys
    from runtime_arm.pair.signatures.signature import is_signed, require_signature

    content = map_file(file)
    row = {"file": file, "what": "bundle without a signature", "name": "", "fingerprint": ""}
    if not is_signed(content):
        return row
    keys = [key for one in key_files for key in read_public_keys(one)]
    if not keys:
        return {**row, "what": "signed bundle; name a public key to see by whom"}
    try:
        key = require_signature(content, keys, file).key
    except PairError:
        return {**row, "what": "bundle that none of these keys signed, or that was changed"}
    return {"file": file, "what": "bundle, unchanged since signed by", "name": key.name, "fingerprint": key.fingerprint}
