"""Install stand-ins for onnxruntime, TensorFlow Lite, Caffe or Caffe2 into this environment, or remove them.

  armnet standin install onnxruntime
  armnet standin remove onnxruntime
  armnet standin list

After ``install``, programs of this environment import armnet's stand-in under the package's name. pip and
importlib.metadata find the package installed, in the version whose interface the stand-in follows. ``remove`` removes
everything again. A package that is really installed is left alone. The stand-in for tensorflow is installed only if you
name it, because other programs would take it for all of TensorFlow.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List

from armnet.arguments import add_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="ACTION", choices=["install", "remove", "list"], help="install, remove or list"
    )
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="*",
        default=[],  # without it argparse says that they are required
        help="onnxruntime, tflite_runtime, ai_edge_litert, tflite_support, caffe, caffe2 (default: all of these), or "
        "tensorflow, of which there is tf.lite alone",
    )
    parser.add_argument(
        "--target", metavar="DIR", help="a folder of the import path (default: this Python's site-packages)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    import sysconfig

    from armnet.console import print_json, print_table
    from armnet.standins.packages import PACKAGES, package_of
    from armnet.standins.stub import remove_stub, state_of, write_stub

    folder = Path(args.target or sysconfig.get_path("purelib"))
    rows: List[Dict[str, Any]] = []
    whole = [name for name, package in PACKAGES.items() if not package.part or args.action != "install"]
    for name in args.packages or whole:
        package = package_of(name)
        if args.action == "install":
            write_stub(folder, name)
            done = "installed"
        elif args.action == "remove":
            done = "removed" if remove_stub(folder, name) else "not there"
        else:
            done = state_of(folder, name)
        rows.append({"package": package.distribution, "version": package.version, "state": done})
    if args.json:
        print_json("standin", {"folder": str(folder), "packages": rows})
    elif args.action == "list":
        print_table(
            ["package", "version", "here"],
            [[row["package"], row["version"], row["state"]] for row in rows],
            whole=["package"],
        )
        print(f"in {folder}")
    else:
        for row in rows:
            print(f"{row['package']} {row['version']}: {row['state']} in {folder}")
    return 0
