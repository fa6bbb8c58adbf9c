"""List published models, and download them ready to use.

  armnet models                            what there is, with tasks, sizes and licences
  armnet models show yunet                 where it comes from, how accurate its makers say it is
  armnet models fetch yunet                a pair in yunet/: armnet run yunet photo.jpg
  armnet models fetch yunet --files -o original       the files as they were published
  armnet models fetch my-net --catalogue mine.json    from a catalogue of your own, a JSON file

Files are downloaded over HTTPS, checked against their SHA-256 and kept in the cache, so the second time needs no
network. An interrupted download continues where it stopped. The licences are those of the models' makers.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict, List

from armnet.arguments import add_json
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from armnet.catalogue.entries import Entry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=["list", "show", "fetch"],
        default="list",
        help="list, show or fetch (default: list)",
        metavar="ACTION",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to show or to fetch")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="the folder to write, or a .zip (default: the model's name)"
    )
    parser.add_argument("--files", action="store_true", help="write the published files instead of a pair")
    parser.add_argument("--task", metavar="TASK", help="list models of this task alone: classes, boxes, faces, ...")
    parser.add_argument(
        "--mirror", nargs="+", default=[], metavar="URL", help="folders that are asked first, for URL/FILE"
    )
    parser.add_argument("--catalogue", metavar="FILE", help="another catalogue than armnet's own")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.catalogue.entries import OWN, chosen, read_catalogue

    entries = read_catalogue(args.catalogue or OWN)
    if args.action == "list":
        if args.names:
            raise UsageError(f"list takes no names; armnet models show {args.names[0]} shows one")
        return _list(args, list(entries.values()))
    if not args.names:
        raise UsageError(f"{args.action} takes the names of models; armnet models lists them")
    if args.output and len(args.names) > 1:
        raise UsageError("-o takes one model; without it each gets a folder of its name")
    found = [chosen(entries, name) for name in args.names]
    return _show(args, found) if args.action == "show" else _fetch(args, found)


def _facts(entry: Entry) -> Dict[str, Any]:
    return {
        "name": entry.name,
        "what": entry.what,
        "task": entry.task,
        "nbytes": entry.nbytes,
        "licence": entry.licence,
        "source": entry.source,
        "accuracy": entry.accuracy,
        "preprocessing": entry.preprocessing,
        "files": [file._asdict() for file in entry.files],
    }


def _list(args: argparse.Namespace, entries: List[Entry]) -> int:
    from armnet.console import print_json, print_table, print_text
    from runtime_arm.app.display import size

    listed = [entry for entry in entries if args.task in (None, entry.task)]
    if not listed:
        tasks = sorted({entry.task for entry in entries})
        raise UsageError(f"no model has the task {args.task!r}; there are {', '.join(tasks)}")
    if args.json:
        print_json("models", {"models": [_facts(entry) for entry in listed]})
        return 0
    rows = [[one.name, one.task, size(one.nbytes).strip(), one.licence, one.what] for one in listed]
    print_table(["model", "finds", "bytes", "licence", "what"], rows, right=["bytes"], whole=["model"])
    print()
    print_text("armnet models fetch MODEL writes a pair that is ready: armnet run MODEL photo.jpg")
    return 0


def _show(args: argparse.Namespace, entries: List[Entry]) -> int:
    from armnet.console import print_json
    from runtime_arm.app.display import size

    if args.json:
        print_json("models", {"models": [_facts(entry) for entry in entries]})
        return 0
    for entry in entries:
        print(f"{entry.name}: {entry.what}")
        print(f"  finds     {entry.task}")
        print(f"  bytes     {size(entry.nbytes).strip()}")
        print(f"  licence   {entry.licence}")
        print(f"  source    {entry.source}")
        print(f"  accuracy  {entry.accuracy or 'not published where it comes from'}")
        for file in entry.files:
            print(f"  file      {file.name}, SHA-256 {file.sha256}")
            for url in file.urls:
                print(f"            {url}")
    return 0


def _fetch(args: argparse.Namespace, entries: List[Entry]) -> int:
    from armnet.catalogue.ready import fetch_files, ready_pair, save_files
    from armnet.console import print_json, progress
    from armnet.model_files import check_pair_output

    done = []
    for entry in entries:
        folder = args.output or entry.name
        if not args.files:
            check_pair_output(folder)
        with progress(f"fetch {entry.name}") as report:
            files = fetch_files(entry, args.mirror, report)
            if args.files:
                save_files(files, folder)
            else:
                ready_pair(entry, files, report).save(folder)
        done.append({"model": entry.name, "folder": folder, "licence": entry.licence})
        if not args.json:
            told = "the published files" if args.files else f"a pair, ready: armnet run {folder} FILE"
            print(f"{folder}: {told}; licence {entry.licence}, from {entry.source}")
    if args.json:
        print_json("models", {"fetched": done})
    return 0
