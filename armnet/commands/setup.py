"""Install what bundles and armnet device need on a Raspberry Pi or a phone: Python, NumPy on OpenBLAS, Pillow.

  armnet setup pi ssh://pi@raspberrypi.local            over ssh; the machine needs neither Python nor armnet
  armnet setup termux ssh://u0_a123@192.168.1.23:8022   on a phone: type "pkg install openssh && sshd && passwd" there
  armnet setup pi local                                 this machine
  armnet setup pi local --tests                         also what armnet device test needs
  armnet setup pi --script                              print the script, for "ssh ... bash -s" or to read it

"pi" works for any Debian, on 32 and 64 bits. It installs packages with apt, as root or with sudo. ssh uses your
configuration, keys and known hosts, and asks for passwords. Exit status: 0, or 2 if something could not be installed.
"""

from __future__ import annotations

import argparse

from armnet.arguments import add_json

KINDS = ("pi", "termux")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", choices=KINDS, metavar="KIND", help="pi: a Raspberry Pi, or any Debian; termux: a phone"
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="the machine: ssh://[USER@]HOST[:PORT], or local for this one"
    )
    parser.add_argument("--tests", action="store_true", help="also install what armnet device test needs")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="print the names of the packages and install nothing")
    only.add_argument("--script", action="store_true", help="print the script that would run")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import print_json
    from armnet.device.setup import packages_of, script_of, set_up
    from runtime_arm.errors import UsageError

    words = ["--tests"] if args.tests else []
    if args.script:
        print(script_of(args.kind), end="")
        return 0
    if args.target is None and not args.list:
        raise UsageError("give the machine: ssh://[USER@]HOST[:PORT], or local for this one")
    packages = packages_of(args.kind, words)
    if not args.list:
        set_up(args.kind, args.target, words, to_stderr=args.json)
    if args.json:
        where = None if args.list else args.target
        print_json("setup", {"kind": args.kind, "packages": packages, "installed_on": where})
    elif args.list:
        print(*packages, sep="\n")
    return 0
