"""List the operators of a network that cannot be translated, before you translate it.

  armnet support model.onnx
  armnet support model.tflite
  armnet support deploy.prototxt net.caffemodel
  armnet support predict_net.pb

Exit status: 0 if every operator can be translated, 1 if one cannot.
"""

from __future__ import annotations

import argparse

from armnet.arguments import add_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="+",
        metavar="MODEL",
        help="an .onnx or .tflite file, a .prototxt with or without its .caffemodel, or a predict_net.pb (.pbtxt) with "
        "or without its init_net.pb; or the folder of the only model in it",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from armnet.console import print_json, print_table
    from armnet.model_files import completed
    from exporter.support import support

    rows = support(*(completed(args.model) if Path(args.model[0]).is_dir() else args.model))
    missing = [row for row in rows if row.problem]
    if args.json:
        print_json(
            "support",
            {
                "model": " ".join(args.model),
                "supported": not missing,
                "operators": [row._asdict() for row in rows],
            },
        )
    else:
        cells = [[row.type, row.count, row.problem or "yes"] for row in rows]
        print_table(["operator", "nodes", "supported"], cells, right=["nodes"])
        print(
            f"{len(missing)} of {len(rows)} operator types are missing"
            if missing
            else "every operator can be translated"
        )
    return 1 if missing else 0
